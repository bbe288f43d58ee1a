// What reader and writer of the scenario text share.
#ifndef LOCKSTEP_COMMON_SCENARIO_TEXT_H_
#define LOCKSTEP_COMMON_SCENARIO_TEXT_H_

#include <string>
#include <string_view>

namespace lockstep::scenario {

inline constexpr std::string_view kMagicLine = "lockstep-scenario 1";

// Space, control characters and % become %xx, so that any text is one word of a line.
std::string Escape(std::string_view text);
// The opposite; a % that no two hex digits follow stands for itself.
std::string Unescape(std::string_view word);

}  // namespace lockstep::scenario

#endif  // LOCKSTEP_COMMON_SCENARIO_TEXT_H_
