// Functions shared by the reader and the writer of scenario text.
#ifndef LOCKSTEP_SCENARIO_TEXT_H_
#define LOCKSTEP_SCENARIO_TEXT_H_

#include <string>
#include <string_view>

namespace lockstep::scenario {

inline constexpr std::string_view kMagicLine = "lockstep-scenario 1";

// Replaces space, control characters and % by %xx, so that any text is one word of a line.
std::string Escape(std::string_view text);
// Reverses Escape. A % without two hex digits after it stays as it is.
std::string Unescape(std::string_view word);

}  // namespace lockstep::scenario

#endif  // LOCKSTEP_SCENARIO_TEXT_H_
