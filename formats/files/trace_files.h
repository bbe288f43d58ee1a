// Finds the input files of a command line, and reads ranks and nodes from their names.
#ifndef LOCKSTEP_FORMATS_FILES_TRACE_FILES_H_
#define LOCKSTEP_FORMATS_FILES_TRACE_FILES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace lockstep::formats {

// Compares runs of digits as numbers: worker2 comes before worker10.
bool NaturallyBefore(std::string_view a, std::string_view b);

// Returns the number directly after `rank`, `rank-`, `rank_` or `worker` in the last part of a path.
std::optional<RankId> RankInFileName(std::string_view path);

// Returns the node in "<node>_<number>.<…>.pt.trace.json[.gz]", as Kineto names workers. Empty: the name has
// another form.
std::string NodeInFileName(std::string_view path);

// Returns "<worker>" of "<worker>.<number>.pt.trace.json[.gz]", as torch.profiler.tensorboard_trace_handler
// names files, or the whole last part of a path in another form.
std::string WorkerInFileName(std::string_view path);

struct TraceFile {
  std::string path;
  bool named = false;  // true: named on the command line; false: found in a folder that is named there
  // The part of `path` below the named folder. For named files: below the folder that all of them share.
  std::string inside;
};

// Returns the rank in the name of the file, else in the name of the innermost folder of `inside` that has one
// ("rank_3/trace.json").
std::optional<RankId> RankOf(const TraceFile& file);

// Two files of one worker are of different spans. The worker is the rank, which the trace declares or its
// path gives, else the name that torch.profiler.tensorboard_trace_handler gives it ("<host>_<pid>"), else the
// file itself.
std::string WorkerOf(const TraceFile& file, std::optional<RankId> declared_rank);

struct InputFiles {
  std::vector<std::string> captures;  // folders with records/
  std::vector<TraceFile> traces;      // in natural order, each once
  std::vector<std::string> notes;     // sentences about what was found and left out
};

// Finds the files. A folder without a trace of its own is searched through, at most five levels deep; links
// are followed, and each folder is read once. An error names the path and the remedy: the path does not
// exist, or the folder holds no traces.
absl::StatusOr<InputFiles> FindInputFiles(std::span<const std::string> paths);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_FILES_TRACE_FILES_H_
