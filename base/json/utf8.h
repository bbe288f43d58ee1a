// Finds valid UTF-8. Names come from other processes and from files of other tools.
#ifndef LOCKSTEP_BASE_JSON_UTF8_H_
#define LOCKSTEP_BASE_JSON_UTF8_H_

#include <cstddef>
#include <string_view>

namespace lockstep {

// Returns the length in bytes of the UTF-8 sequence at the front of `text`, 0 if there is none.
inline size_t Utf8Length(std::string_view text) {
  const auto byte = [text](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&byte](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) > 0x9F;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool beyond = first == 0xF4 && byte(1) > 0x8F;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_JSON_UTF8_H_
