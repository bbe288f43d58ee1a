// A whole job's timeline in one text file: what a job that times its own operations hands to `lockstep
// analyze`.
//
// Home of the format, with docs/formats/timeline.md; the golden file is tests/golden/timeline. Stamps are
// those of each rank's host clock. Reading is one pass on the calling thread, without a copy of the text.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_READER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_READER_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "formats/common/byte_source.h"

namespace lockstep::trace {

inline constexpr std::string_view kTimelineMagic = "lockstep-timeline ";
inline constexpr int kTimelineVersion = 1;

// Do these first bytes of a file (at least kTimelineMagic.size() of them) begin a timeline?
bool IsTimeline(std::string_view first_bytes);

// `path` is only for sentences. `progress`, when not empty, gets the bytes of the file consumed so far. Not
// Finish()ed. kInvalidArgument: one sentence with file, line, what is wrong and what to do; nothing of such a
// file is kept, since a job with rows missing in silence would be misjudged.
absl::StatusOr<store::Capture> ReadTimeline(ByteSource& source, std::string_view path,
                                            const std::function<void(uint64_t)>& progress);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_READER_H_
