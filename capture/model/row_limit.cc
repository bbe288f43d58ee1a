#include "capture/model/row_limit.h"

#include "absl/strings/str_cat.h"

namespace lockstep::capture {

uint64_t CountAnalysedRows(const Capture& capture) {
  uint64_t rows = 0;
  for (const RankData& rank : capture.ranks) rows += rank.activities.size() + rank.api_calls.size();
  return rows;
}

absl::Status CheckAnalysedRows(uint64_t rows) {
  if (rows <= kMostAnalysedRows) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the input has ", rows, " kernels, copies and calls, and at most ", kMostAnalysedRows,
                   " can be analysed together; give fewer ranks or a shorter recording"));
}

}  // namespace lockstep::capture
