// Cleans text from other processes for protobuf strings, logs and terminals.
#ifndef LOCKSTEP_BASE_LOG_CLEAN_TEXT_H_
#define LOCKSTEP_BASE_LOG_CLEAN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// Returns valid UTF-8 without control characters. Each invalid byte and each control character becomes '?'.
// The result is cut to `most` bytes between characters.
std::string CleanText(std::string_view text, size_t most);

// Returns the text of a fixed field, up to the first zero or the end of the field.
template <size_t N>
std::string FieldText(const char (&field)[N]) {
  size_t length = 0;
  while (length < N && field[length] != '\0') ++length;
  return CleanText(std::string_view(field, length), N);
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_CLEAN_TEXT_H_
