// Files of nsys exports joined into a capture.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_CAPTURE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_CAPTURE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "formats/common/trace_files.h"
#include "formats/nsys/nsys_file.h"

namespace lockstep::trace {

struct ReadNsysFile {
  TraceFile from;
  NsysFile content;
};

// Names ranks and hosts (docs/formats/nsys_sqlite.md), says in `notes` what the files do not tell. `files`
// are in natural order. kInvalidArgument: two processes of one rank, or nothing to analyse. Not Finish()ed.
absl::StatusOr<store::Capture> JoinNsysFiles(std::vector<ReadNsysFile> files);

// Entries of one process, made of its rows: one per device, in the order of its devices; it gives them up.
// Names go through `strings`. Who it is, its communication and its losses are left to the caller.
std::vector<store::RankData> TakeNsysRows(const store::StringTable& from, NsysProcess& process,
                                          store::StringTable& strings);

// What of the file could not be read, as losses of stage "import" of `rank`.
void AddNsysLosses(const NsysFile& file, const std::string& path, store::RankData& rank);

// Why the file gives nothing to analyse, as the end of a sentence that begins with its name; empty: it does.
std::string WhyNsysUnusable(const NsysFile& file);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_CAPTURE_H_
