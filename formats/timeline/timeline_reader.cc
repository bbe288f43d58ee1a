#include "formats/timeline/timeline_reader.h"

#include <string>

#include "absl/status/status.h"
#include "formats/common/text_lines.h"
#include "formats/timeline/timeline_parser.h"
#include "formats/timeline/timeline_words.h"

namespace lockstep::formats {
namespace {

// A list of a million ranks, each by its number, takes 7 MB.
constexpr size_t kLongestLine = size_t{16} << 20;

}  // namespace

bool IsTimeline(std::string_view first_bytes) { return first_bytes.starts_with(kTimelineMagic); }

absl::StatusOr<capture::Capture> ReadTimeline(ByteSource& source, std::string_view path,
                                              const std::function<void(uint64_t)>& progress,
                                              capture::RowOverflow* overflow) {
  TimelineParser parser(overflow);
  TextLines lines(source, kLongestLine, progress);
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(Sentence(path, " line ", lines.number(), ": ", what));
  };
  std::string_view line;
  auto next = lines.Next(line);
  for (; next == TextLines::Result::kLine; next = lines.Next(line)) {
    if (!parser.Line(line)) return wrong(parser.error());
  }
  if (next == TextLines::Result::kTooLong)
    return wrong("is longer than any line of a timeline; the file is not a timeline");
  if (next == TextLines::Result::kDamaged)
    return wrong(Sentence("the file is truncated here: ", source.damage(), "; copy it again"));
  if (!parser.ended()) return wrong("the file ends here without its last line, \"end\"; copy it again");
  return parser.Take();
}

}  // namespace lockstep::formats
