// Profiles of Python's cProfile side by side: what each function cost on each rank, and how far the ranks are
// apart.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_PYTHON_FUNCTIONS_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_PYTHON_FUNCTIONS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "aggregator/store/python_profile.h"

namespace lockstep::views {

// A function on the ranks that have it. Of two that differ only in their path (a checkout per node) each is a
// row of its own.
struct PythonFunctionRow {
  RankId rank =
      kNoRank;  // kNoRank: all; then calls and times are means over the ranks that have the function
  std::string_view name, file;
  int64_t line = 0;
  int64_t ranks = 0;
  double calls = 0, primitive_calls = 0;
  Nanos self, total;
  // Over those ranks.
  Nanos least_self, most_self;
  RankId most_rank = kNoRank;
};

enum class PythonRows : uint8_t { kAllRanks, kEachRank };

// Texts point into `profiles`. The most self time first.
std::vector<PythonFunctionRow> PythonFunctionsOf(std::span<const store::PythonProfile> profiles,
                                                 PythonRows rows);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_PYTHON_FUNCTIONS_H_
