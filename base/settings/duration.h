// Parses lengths of time.
#ifndef LOCKSTEP_BASE_SETTINGS_DURATION_H_
#define LOCKSTEP_BASE_SETTINGS_DURATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::settings {

// The accepted spellings: a number with an optional fraction, then a unit.
struct DurationRules {
  // The accepted units, each between spaces.
  const char* units;
  // Numbers that need no unit. They are seconds.
  enum class WithoutUnit : uint8_t { kNone, kZero, kAll };
  WithoutUnit without_unit;
  double longest_ns;
  // The remedy in the error.
  const char* remedy;
};

// A setting of a service, such as "30d" or "0".
inline constexpr DurationRules kSettingDuration = {" ns us ms s m h d ", DurationRules::WithoutUnit::kZero,
                                                   9e18, "write 10s, 500ms, 2m, 12h or 30d"};
// A flag of a command, such as "1.5s" or "1min". A number without a unit is refused, because it is ambiguous.
inline constexpr DurationRules kFlagDuration = {" ns us ms s m min ", DurationRules::WithoutUnit::kNone, 1e18,
                                                "write it as 2s, 500ms or 1m"};
// A flag of the simulation, such as "150ms" or "20".
inline constexpr DurationRules kSimulationDuration = {" ns us ms s ", DurationRules::WithoutUnit::kAll, 9e17,
                                                      "write it as 2s, 150ms or 5us"};

// Rounds to nanoseconds.
absl::StatusOr<Nanos> ParseDuration(const std::string& text, const DurationRules& rules = kSettingDuration);
// A validator for CLI11, for settings. It returns the problem, or an empty text.
std::string CheckDuration(std::string& text);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_DURATION_H_
