// Recorded traces in: what `lockstep analyze` accepts.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_READERS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_READERS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"

namespace lockstep::trace {

// What is kept of the host's operators, annotations and Python functions: where there were any
// (store::HostUnions), or besides that every one of them (store::HostFrames), as the views of operators,
// modules and memory need them.
enum class HostDetail : uint8_t { kUnions, kFrames };

struct ReadOptions {
  int threads = 2;
  HostDetail host = HostDetail::kUnions;
  // Called now and then from any thread with bytes read and in total; may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

// Files and folders, in any mix of: one Lockstep capture folder; Kineto/PyTorch traces (.json, .json.gz); one
// timeline of a whole job (docs/formats/timeline.md); SQLite exports of Nsight Systems, or one of ours
// (docs/formats/nsys_sqlite.md). The result is Finish()ed. kInvalidArgument: input that cannot be used
// (nothing found, two files of one rank, …), with a sentence that names file, place and remedy. A folder
// where some files are damaged is read without them, and `notes` says so.
absl::StatusOr<store::Capture> ReadInput(std::span<const std::string> paths, const ReadOptions& options);

// A capture folder, or its records/: what store::LoadRecords reads, with the traces that PyTorch's profiler
// wrote for ranks that were captured through it. Finish()ed, communicators inferred.
absl::StatusOr<store::Capture> LoadCapture(const std::string& folder, const ReadOptions& options);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_READERS_H_
