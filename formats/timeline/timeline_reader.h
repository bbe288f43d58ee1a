// Reads the timeline of a whole job from one text file. A job that times its own operations writes it for
// `lockstep analyze`.
//
// Defines the format, with docs/formats/timeline.md; the golden file is in tests/golden/timeline. Stamps are
// on the clock of each rank's host. Reading is one pass on the calling thread, without a copy of the text.
#ifndef LOCKSTEP_FORMATS_TIMELINE_TIMELINE_READER_H_
#define LOCKSTEP_FORMATS_TIMELINE_TIMELINE_READER_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "capture/model/row_overflow.h"
#include "formats/common/byte_source.h"

namespace lockstep::formats {

inline constexpr std::string_view kTimelineMagic = "lockstep-timeline ";
inline constexpr int kTimelineVersion = 1;

// True if the first bytes of a file are those of a timeline. At least kTimelineMagic.size() bytes are needed.
bool IsTimeline(std::string_view first_bytes);

// `path` is only for errors. `progress`, if not empty, receives the number of bytes consumed. The result is
// not Finish()ed. kInvalidArgument: one sentence with file, line, problem and remedy. A file with an error is
// not used at all, because missing rows would lead to a wrong verdict.
// `overflow` receives a rank's tables when the rows of another rank follow; null: they stay in memory.
absl::StatusOr<capture::Capture> ReadTimeline(ByteSource& source, std::string_view path,
                                              const std::function<void(uint64_t)>& progress,
                                              capture::RowOverflow* overflow = nullptr);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_TIMELINE_TIMELINE_READER_H_
