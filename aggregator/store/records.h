// records/: a capture on disk as it came from the daemons. docs/formats/records.md describes it byte for
// byte.
//
//   manifest.json        who, when, which host, losses, clock exchanges, notes; written last: without it the
//   capture is
//                        incomplete, and LoadRecords says so and reads what there is
//   <process>.lsr        one per client process: blocks of common/columns, in the order they came
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "aggregator/store/capture.h"

namespace lockstep::store {

// `folder` is a capture folder or its records/ folder. The result is Finish()ed. Damaged or truncated files
// are read up to the damage, which becomes a Loss (stage "store") and a note; an error means that nothing
// could be read.
absl::StatusOr<Capture> LoadRecords(const std::string& folder);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_H_
