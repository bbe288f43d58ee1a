// Parses durations in settings.
#ifndef LOCKSTEP_BASE_SETTINGS_DURATION_H_
#define LOCKSTEP_BASE_SETTINGS_DURATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::settings {

// Accepts "10s", "500ms", "2m", "12h", "30d"; "0" needs no unit.
absl::StatusOr<Nanos> ParseDuration(const std::string& text);
// A validator for CLI11. It returns the problem, or an empty text.
std::string CheckDuration(std::string& text);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_BASE_SETTINGS_DURATION_H_
