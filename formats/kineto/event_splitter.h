// Where events end in the text of an event list, without parsing them.
//
// Text here starts at the level of the list: outside any string, between two elements. Braces and quotes
// inside strings and behind backslashes do not count. Pure functions over bytes; hostile text gives wrong
// cuts at worst, which the parser behind then reports.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_EVENT_SPLITTER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_EVENT_SPLITTER_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace lockstep::trace {

// Bytes behind the text that must be readable (their value does not matter).
inline constexpr size_t kScanPadding = 64;

struct Cut {
  // Just behind the last event that ends in the text and is followed by another element or the list's end; 0:
  // none.
  size_t end = 0;
  // Place of the ']' that closes the list, when it is in the text. `end` is then before it.
  std::optional<size_t> list_end;
};

// `at_end_of_input`: nothing follows the text, so an event that ends where the text ends is whole.
enum class MoreInput { kFollows, kEnds };
Cut FindCut(std::string_view text, MoreInput more);

// One whole element from `from` on, which points at its '{': just behind its '}'. nullopt: it does not end in
// the text.
std::optional<size_t> FindEventEnd(std::string_view text, size_t from);

// The first place at or behind `from` that looks like the start of an event: a '{' that is no member's value,
// then a key that events have. For finding the way back after damage. nullopt: none.
std::optional<size_t> FindEventStart(std::string_view text, size_t from);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_EVENT_SPLITTER_H_
