#include "base/log/line_text.h"

#include <ctime>

#include "absl/strings/str_format.h"
#include "base/json/json_string.h"
#include "base/log/clean_text.h"

namespace lockstep {

std::string TimeText(HostTime t) {
  const time_t seconds = t.ns() / 1'000'000'000;
  tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return absl::StrFormat("%s.%03dZ", text, t.ns() / 1'000'000 % 1000);
}

void AppendQuoted(std::string_view text, size_t most, std::string& line) {
  AppendJsonString(CleanText(text, most), line);
}

}  // namespace lockstep
