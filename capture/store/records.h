// records/: a capture on disk as it came from the daemons. docs/formats/records.md describes it byte for
// byte.
//
//   manifest.json        who, when, which host, losses, clock exchanges, notes; written last: without it the
//   capture is
//                        incomplete, and LoadRecords says so and reads what there is
//   <process>.lsr        one per client process: blocks of common/columns, in the order they came
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"

namespace lockstep::store {

// Bytes of records read, of all there are; called now and then. May be empty.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// `folder` is a capture folder or its records/ folder. The result is Finish()ed. Damaged or truncated files
// are read up to the damage, which becomes a Loss (stage "store") and a note; an error means that nothing
// could be read.
// Processes that PyTorch's profiler captured lie beside the records as traces of its own format: they are
// named in `notes` and counted among the missing ranks; trace::LoadCapture reads them too.
absl::StatusOr<Capture> LoadRecords(const std::string& folder);

// A process that was captured through PyTorch's profiler. `rank` has what the capture knows of it, without
// rows.
struct RecordedTrace {
  RankData rank;
  std::string path;   // empty: no file came
  std::string state;  // how its part ended, as in the manifest, and why
  std::string text;
};
struct Recorded {
  Capture capture;  // what records hold; not Finish()ed
  std::vector<RecordedTrace> traces;
};
// LoadRecords for who can read those traces, and joins and finishes them.
absl::StatusOr<Recorded> ReadRecords(const std::string& folder, const LoadProgress& progress = {});

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_H_
