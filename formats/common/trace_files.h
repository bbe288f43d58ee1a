// Which files a command line means, and what their names tell.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_TRACE_FILES_H_
#define LOCKSTEP_AGGREGATOR_TRACE_TRACE_FILES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace lockstep::trace {

// Runs of digits compare as numbers: worker2 comes before worker10.
bool NaturallyBefore(std::string_view a, std::string_view b);

// The number directly after `rank`, `rank-`, `rank_` or `worker` in the last part of a path.
std::optional<RankId> RankInFileName(std::string_view path);

// The node in "<node>_<number>.<…>.pt.trace.json[.gz]", as Kineto names workers; empty when the name is
// another one.
std::string NodeInFileName(std::string_view path);

struct TraceFile {
  std::string path;
  bool named = false;  // on the command line itself; otherwise found in a folder that was
};

struct InputFiles {
  std::vector<std::string> captures;  // folders with records/
  std::vector<TraceFile> traces;      // naturally sorted, each once
};

// Looks at every path once. Errors say which path and what to do: a path that does not exist, a folder with
// nothing in it.
absl::StatusOr<InputFiles> FindInputFiles(std::span<const std::string> paths);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_TRACE_FILES_H_
