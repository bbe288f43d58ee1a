// records/: a capture on disk, with its blocks as they came from the daemons. docs/formats/records.md defines
// every byte.
//
//   manifest.json        job, times, hosts, losses, clock exchanges, notes; written last. Without it the
//                        capture is incomplete. LoadRecords then reports that and reads the other files.
//   <process>.lsr        one per client process: blocks of wire/columns, in the order in which they came
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "capture/model/row_overflow.h"

namespace lockstep::capture {

// Receives the bytes of records read so far, and the total, now and then. May be empty.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// `folder` is a capture folder or its records/ folder. The result is Finish()ed. Damaged or truncated files
// are read up to the damage, which becomes a Loss (stage "store") and a note. Returns an error if nothing
// could be read.
// Processes that PyTorch's profiler captured have traces of its own format beside the records. LoadRecords
// names them in `notes` and counts them among the missing ranks. formats::LoadCapture reads them too.
absl::StatusOr<Capture> LoadRecords(const std::string& folder);

// A process that was captured through PyTorch's profiler. `rank` has the capture's facts about it, without
// rows.
struct RecordedTrace {
  RankData rank;
  std::string path;   // empty: no file came
  std::string state;  // final state of its part, as in the manifest; `text` has the reason
  std::string text;
};
struct Recorded {
  Capture capture;  // contents of the records; not Finish()ed
  std::vector<RecordedTrace> traces;
};
// Like LoadRecords, for a caller that can read those traces and then joins and finishes all of them.
// `overflow` receives the tables of each process; null: they stay in memory.
absl::StatusOr<Recorded> ReadRecords(const std::string& folder, const LoadProgress& progress = {},
                                     RowOverflow* overflow = nullptr);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_H_
