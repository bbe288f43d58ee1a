#include "formats/timeline/timeline_reader.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "formats/timeline/timeline_parser.h"

namespace lockstep::formats {
namespace {

constexpr size_t kBlock = size_t{256} << 10;
// A list of a million ranks, each by its number, takes 7 MB.
constexpr size_t kLongestLine = size_t{16} << 20;

}  // namespace

bool IsTimeline(std::string_view first_bytes) { return first_bytes.starts_with(kTimelineMagic); }

absl::StatusOr<capture::Capture> ReadTimeline(ByteSource& source, std::string_view path,
                                              const std::function<void(uint64_t)>& progress) {
  TimelineParser parser;
  uint64_t line_number = 0;
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(Sentence(path, " line ", line_number, ": ", what));
  };
  std::vector<char> buffer(kBlock);
  size_t held = 0;  // bytes of an unfinished line at the front of the buffer
  while (true) {
    if (buffer.size() - held < kBlock / 2) buffer.resize(buffer.size() * 2);
    const size_t read = source.Read(std::span(buffer).subspan(held));
    if (progress) progress(source.consumed());
    if (read == 0) break;
    const char* at = buffer.data();
    const char* const end = buffer.data() + held + read;
    const char* search = at + held;
    while (const char* newline =
               static_cast<const char*>(std::memchr(search, '\n', static_cast<size_t>(end - search)))) {
      ++line_number;
      std::string_view line(at, static_cast<size_t>(newline - at));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!parser.Line(line)) return wrong(parser.error());
      at = search = newline + 1;
    }
    held = static_cast<size_t>(end - at);
    if (held > kLongestLine) {
      ++line_number;
      return wrong("is longer than any line of a timeline; the file is not a timeline");
    }
    std::memmove(buffer.data(), at, held);
  }
  if (!source.damage().empty()) {
    ++line_number;
    return wrong(Sentence("the file is truncated here: ", source.damage(), "; copy it again"));
  }
  if (held > 0) {
    ++line_number;
    if (!parser.Line(std::string_view(buffer.data(), held))) return wrong(parser.error());
  }
  if (!parser.ended()) return wrong("the file ends here without its last line, \"end\"; copy it again");
  return parser.Take();
}

}  // namespace lockstep::formats
