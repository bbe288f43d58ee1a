// The largest capture that the analysis can number.
#ifndef LOCKSTEP_CAPTURE_MODEL_ROW_LIMIT_H_
#define LOCKSTEP_CAPTURE_MODEL_ROW_LIMIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// The replay numbers two moments of each kernel, copy and call, and the waits between them, in 32 bits.
inline constexpr uint64_t kMostAnalysedRows = uint64_t{1} << 30;

// Returns the number of kernels, copies and calls.
uint64_t CountAnalysedRows(const Capture& capture);
// kInvalidArgument if there are more than kMostAnalysedRows, with the number and the remedy.
absl::Status CheckAnalysedRows(uint64_t rows);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_ROW_LIMIT_H_
