// Recognises blanks between the tokens of a JSON text.
#ifndef LOCKSTEP_FORMATS_KINETO_BLANKS_H_
#define LOCKSTEP_FORMATS_KINETO_BLANKS_H_

#include <cstddef>
#include <string_view>

namespace lockstep::formats {

// `c` is a character, or -1 at the end of a text.
inline bool IsBlank(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Returns the position of the first non-blank character at or after `at`, or the size of the text.
inline size_t SkipBlanks(std::string_view text, size_t at) {
  while (at < text.size() && IsBlank(text[at])) ++at;
  return at;
}

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_BLANKS_H_
