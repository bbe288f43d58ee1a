// Joins the files of nsys exports into a capture.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_CAPTURE_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_CAPTURE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "formats/files/trace_files.h"
#include "formats/nsys/nsys_file.h"

namespace lockstep::formats {

struct ReadNsysFile {
  TraceFile from;
  NsysFile content;
};

// Finds ranks and hosts (docs/formats/nsys_sqlite.md), and notes missing data in `notes`. `files` are in
// natural order. kInvalidArgument: two processes are of one rank, or there is nothing to analyse. The result
// is not Finish()ed. `overflow` receives the tables of each process; null: they stay in memory.
absl::StatusOr<capture::Capture> JoinNsysFiles(std::vector<ReadNsysFile> files,
                                               capture::RowOverflow* overflow = nullptr);

// Moves the rows of one process into entries of a capture, one per device, in the order of its devices. Names
// go into `strings`. The caller adds rank, host, communication and losses.
std::vector<capture::RankData> TakeNsysRows(const capture::StringTable& from, NsysProcess& process,
                                            capture::StringTable& strings);

// Returns the reason why the file cannot be analysed, as the end of a sentence that begins with its name.
// Empty: the file can be analysed.
std::string WhyNsysUnusable(const NsysFile& file);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_CAPTURE_H_
