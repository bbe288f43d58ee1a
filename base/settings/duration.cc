#include "base/settings/duration.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::settings {

absl::StatusOr<Nanos> ParseDuration(const std::string& text) {
  static constexpr struct {
    const char* unit;
    double ns;
  } kUnits[] = {{"ms", 1e6}, {"us", 1e3},   {"ns", 1},      {"s", 1e9},
                {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"", 1e9}};
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string number = text.substr(0, digits);
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  double value = 0;
  if (absl::SimpleAtod(number, &value)) {
    for (const auto& candidate : kUnits) {
      // A number other than 0 requires its unit.
      if (unit != candidate.unit || (unit.empty() && value != 0)) continue;
      const double ns = value * candidate.ns;
      if (ns <= 9e18) return Nanos(static_cast<int64_t>(ns));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a duration: write 10s, 500ms, 2m, 12h or 30d"));
}

std::string CheckDuration(std::string& text) {
  const absl::StatusOr<Nanos> parsed = ParseDuration(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

}  // namespace lockstep::settings
