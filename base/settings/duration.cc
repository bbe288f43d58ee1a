#include "base/settings/duration.h"

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::settings {

absl::StatusOr<Nanos> ParseDuration(const std::string& text, const DurationRules& rules) {
  using WithoutUnit = DurationRules::WithoutUnit;
  static constexpr struct {
    const char* unit;
    double ns;
  } kUnits[] = {{"ns", 1},     {"us", 1e3},   {"ms", 1e6},    {"s", 1e9}, {"m", 60e9},
                {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}, {"", 1e9}};
  const size_t digits = text.find_first_not_of("0123456789.");
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  double value = 0;
  if (absl::SimpleAtod(text.substr(0, digits), &value)) {
    const bool accepted = unit.empty() ? rules.without_unit == WithoutUnit::kAll ||
                                             (rules.without_unit == WithoutUnit::kZero && value == 0)
                                       : absl::StrContains(rules.units, absl::StrCat(" ", unit, " "));
    for (const auto& candidate : kUnits) {
      const double ns = value * candidate.ns;
      if (accepted && unit == candidate.unit && ns <= rules.longest_ns) return Nanos(std::llround(ns));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a duration: ", rules.remedy));
}

std::string CheckDuration(std::string& text) {
  const absl::StatusOr<Nanos> parsed = ParseDuration(text);
  return parsed.ok() ? "" : std::string(parsed.status().message());
}

}  // namespace lockstep::settings
