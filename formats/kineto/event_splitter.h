// Finds the ends of events in the text of an event list, without parsing them.
//
// The text starts at the level of the list: outside any string, between two elements. Braces and quotes
// inside strings and after backslashes do not count. These are pure functions over bytes. On hostile text
// they may return wrong cuts, which the parser then reports.
#ifndef LOCKSTEP_FORMATS_KINETO_EVENT_SPLITTER_H_
#define LOCKSTEP_FORMATS_KINETO_EVENT_SPLITTER_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep::formats {

// Number of bytes after the text that must be readable. Their values do not matter.
inline constexpr size_t kScanPadding = 64;

struct Cut {
  // End of the last event that is whole in the text and is followed by another element or by the list's end.
  // 0: the text holds no such event.
  size_t end = 0;
  // Position of the ']' that closes the list, if the text holds it. `end` is then before it.
  std::optional<size_t> list_end;
};

// kEnds: no input follows the text, so an event that ends at the end of the text is whole.
enum class MoreInput { kFollows, kEnds };
Cut FindCut(std::string_view text, MoreInput more);

// `from` is the position of the '{' of an element. Returns the position after its '}'. nullopt: the element
// does not end in the text.
std::optional<size_t> FindEventEnd(std::string_view text, size_t from);

// Returns the first position at or after `from` that looks like the start of an event: a '{' that is not the
// value of a member, then a key of events. The parser continues there after damage. nullopt if the text
// has none.
std::optional<size_t> FindEventStart(std::string_view text, size_t from);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_EVENT_SPLITTER_H_
