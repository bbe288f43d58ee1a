#include "views/host/python_functions.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace lockstep::views {
namespace {

using capture::PythonFunction;
using capture::PythonProfile;

PythonFunctionRow RowOf(const PythonFunction& f, RankId rank) {
  return {.rank = rank,
          .name = f.name,
          .file = f.file,
          .line = f.line,
          .ranks = 1,
          .calls = static_cast<double>(f.calls),
          .primitive_calls = static_cast<double>(f.primitive_calls),
          .self = f.self,
          .total = f.total,
          .least_self = f.self,
          .most_self = f.self,
          .most_rank = rank};
}

void Add(const PythonFunctionRow& one, PythonFunctionRow& row) {
  ++row.ranks;
  row.calls += one.calls;
  row.primitive_calls += one.primitive_calls;
  row.self += one.self;
  row.total += one.total;
  row.least_self = std::min(row.least_self, one.self);
  if (one.self <= row.most_self) return;
  row.most_self = one.self;
  row.most_rank = one.most_rank;
}

}  // namespace

std::vector<PythonFunctionRow> PythonFunctionsOf(std::span<const PythonProfile> profiles, PythonRows rows) {
  std::vector<PythonFunctionRow> out;
  std::map<std::tuple<std::string_view, int64_t, std::string_view>, size_t> places;
  for (const PythonProfile& profile : profiles) {
    for (const PythonFunction& f : profile.functions) {
      const PythonFunctionRow one = RowOf(f, profile.rank);
      if (rows == PythonRows::kEachRank) {
        out.push_back(one);
        continue;
      }
      const auto [it, fresh] = places.try_emplace({one.file, one.line, one.name}, out.size());
      if (fresh) {
        out.push_back(one);
        out.back().rank = kNoRank;
      } else {
        Add(one, out[it->second]);
      }
    }
  }
  for (PythonFunctionRow& row : out) {
    row.calls /= static_cast<double>(row.ranks);
    row.primitive_calls /= static_cast<double>(row.ranks);
    row.self = row.self / row.ranks;
    row.total = row.total / row.ranks;
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.self > b.self; });
  return out;
}

}  // namespace lockstep::views
