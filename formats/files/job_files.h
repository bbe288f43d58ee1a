// Chooses, among the traces that were read, the files of one job and one span, and gives each its rank.
#ifndef LOCKSTEP_FORMATS_FILES_JOB_FILES_H_
#define LOCKSTEP_FORMATS_FILES_JOB_FILES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "formats/common/read_options.h"
#include "formats/files/trace_files.h"

namespace lockstep::formats {

// The facts about a read trace that decide whether it is chosen.
struct JobFile {
  TraceFile from;
  // The reason why it cannot be analysed, as the end of a sentence that begins with its path. Empty: it can.
  std::string unusable;
  std::string broken_off;               // the reason why reading stopped before the end; empty: it did not
  std::optional<RankId> declared_rank;  // by the trace itself
  int32_t pid = 0;                      // 0: unknown
  int32_t world_size = 0;               // 0: unknown
  HostInterval rows;                    // on the clock of its host
};

struct FileRank {
  RankId rank;
  std::string source;  // "distributedInfo", "file name" or "position"
};

struct ChosenFiles {
  std::vector<size_t> places;      // of the chosen files in the list; ascending, and never empty
  std::vector<FileRank> ranks;     // of each chosen file
  std::vector<std::string> notes;  // sentences about files that are left out, and `span_note`
  std::string span_note;           // says how many spans there are and which one was chosen; empty: one
};

// Leaves out files that cannot be used, and those of other spans (docs/formats/kineto.md). `files` are in
// natural order. Fails with kInvalidArgument if an unusable file is named or if no file can be used. It also
// fails if the span does not exist, if two files are of one rank at the same time, or if they are of two
// jobs.
absl::StatusOr<ChosenFiles> ChooseFiles(std::span<const JobFile> files, SpanChoice span);

// Fails with kInvalidArgument if two files of the list give different numbers of ranks.
absl::Status CheckWorldSizes(std::span<const JobFile> files);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_FILES_JOB_FILES_H_
