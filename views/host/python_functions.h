// Compares profiles of Python's cProfile across ranks: the cost of each function on each rank, and the
// differences between ranks.
#ifndef LOCKSTEP_VIEWS_HOST_PYTHON_FUNCTIONS_H_
#define LOCKSTEP_VIEWS_HOST_PYTHON_FUNCTIONS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "capture/model/python_profile.h"

namespace lockstep::views {

// A function on the ranks that have it. Functions that differ only in their path (one checkout per node) have
// separate rows.
struct PythonFunctionRow {
  RankId rank =
      kNoRank;  // kNoRank: all ranks; calls and times are then means over the ranks that have the function
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

// Texts point into `profiles`. Rows are sorted by self time, longest first.
std::vector<PythonFunctionRow> PythonFunctionsOf(std::span<const capture::PythonProfile> profiles,
                                                 PythonRows rows);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_PYTHON_FUNCTIONS_H_
