// CaptureSize counts what one capture stores, and refuses more than its limits. Any thread may call it.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_SIZE_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_SIZE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aggregator/captures/session_limits.h"

namespace lockstep::aggregator {

class CaptureSize {
 public:
  explicit CaptureSize(const StoreLimits& limits) : limits_(limits) {}

  // Counts what an earlier process stored.
  void Restore(uint64_t bytes, uint64_t rows) {
    bytes_ += bytes;
    rows_ += rows;
  }
  // Counts bytes and rows that are to be stored. kResourceExhausted: with them, the capture exceeds a limit,
  // which the error names with its option. They count even then, because the capture ends.
  absl::Status Take(uint64_t bytes, uint64_t rows) {
    if (bytes_.fetch_add(bytes) + bytes > limits_.bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the capture has more than ", limits_.bytes >> 20, " MiB (--capture-bytes)"));
    }
    if (rows_.fetch_add(rows) + rows > limits_.rows) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the capture has more than ", limits_.rows, " records (--capture-records)"));
    }
    return absl::OkStatus();
  }

 private:
  const StoreLimits limits_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> rows_{0};
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_SIZE_H_
