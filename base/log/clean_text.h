// Cleans text from other processes for protobuf strings, logs and terminals.
#ifndef LOCKSTEP_BASE_LOG_CLEAN_TEXT_H_
#define LOCKSTEP_BASE_LOG_CLEAN_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// Returns valid UTF-8 that cannot control a terminal, or the order of the text on it. Control characters (C0
// with line ends, C1), separators of lines and marks of direction, such as U+202E, become '?'. So does each
// invalid byte. The result is cut to `most` bytes between characters.
std::string CleanText(std::string_view text, size_t most = SIZE_MAX);

// The same for a whole page: line ends and tabs stay.
std::string CleanLines(std::string_view text);

// Returns the text of a fixed field, up to the first zero or the end of the field.
template <size_t N>
std::string FieldText(const char (&field)[N]) {
  size_t length = 0;
  while (length < N && field[length] != '\0') ++length;
  return CleanText(std::string_view(field, length), N);
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_CLEAN_TEXT_H_
