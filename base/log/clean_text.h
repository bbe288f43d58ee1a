// Text from elsewhere, made fit for protobuf strings, logs and terminals.
#ifndef LOCKSTEP_COMMON_LOG_CLEAN_TEXT_H_
#define LOCKSTEP_COMMON_LOG_CLEAN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep {

// Valid UTF-8 without control characters: each byte that is neither becomes '?'. Cut to `most` bytes, between
// characters.
std::string CleanText(std::string_view text, size_t most);

// The text in a fixed field: up to the first zero or its end.
template <size_t N>
std::string FieldText(const char (&field)[N]) {
  size_t length = 0;
  while (length < N && field[length] != '\0') ++length;
  return CleanText(std::string_view(field, length), N);
}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_LOG_CLEAN_TEXT_H_
