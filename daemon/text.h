// Text from clients, made fit for protobuf strings, logs and terminals.
#ifndef LOCKSTEP_DAEMON_TEXT_H_
#define LOCKSTEP_DAEMON_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::daemon {

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

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_TEXT_H_
