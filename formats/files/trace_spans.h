// Spans: the recordings that a schedule of torch.profiler makes one after another in the same job, each in
// one file per rank.
#ifndef LOCKSTEP_FORMATS_FILES_TRACE_SPANS_H_
#define LOCKSTEP_FORMATS_FILES_TRACE_SPANS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "formats/common/read_options.h"

namespace lockstep::formats {

// One file of a rank.
struct SpanFile {
  RankId rank;
  HostInterval rows;  // on the clock of its host
};

// True if at least half of the shorter interval is in the other. A rank cannot record twice at the same time.
bool AtSameTime(const HostInterval& a, const HostInterval& b);

// Returns the places of each span's files, spans in order of time. A span has at most one file of a rank. The
// files of a span overlap in time. If none overlaps, the nearest counts, because clocks of hosts differ. No
// two files of one rank are at the same time.
std::vector<std::vector<size_t>> DivideIntoSpans(std::span<const SpanFile> files);

struct ChosenSpan {
  size_t span = 0;
  std::string note;  // says how many spans there are and why this one is read; empty: there is one span
};

// `spans` is not empty. kInvalidArgument: the chosen span does not exist; the error lists the spans.
absl::StatusOr<ChosenSpan> ChooseSpan(std::span<const SpanFile> files,
                                      const std::vector<std::vector<size_t>>& spans, SpanChoice choice);

// The error for a choice that an input with a single span does not have. OkStatus: it has it.
absl::Status CheckOnlySpan(SpanChoice choice);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_FILES_TRACE_SPANS_H_
