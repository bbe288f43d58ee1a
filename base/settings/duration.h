// Lengths of time as settings spell them.
#ifndef LOCKSTEP_COMMON_SETTINGS_DURATION_H_
#define LOCKSTEP_COMMON_SETTINGS_DURATION_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::settings {

// "10s", "500ms", "2m", "12h", "30d"; "0" needs no unit.
absl::StatusOr<Nanos> ParseDuration(const std::string& text);
// For CLI11: empty, or what is wrong.
std::string CheckDuration(std::string& text);

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_DURATION_H_
