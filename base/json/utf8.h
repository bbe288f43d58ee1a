// Which bytes are UTF-8: names come from other processes and other people's files.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_UTF8_H_
#define LOCKSTEP_AGGREGATOR_TRACE_UTF8_H_

#include <cstddef>
#include <string_view>

namespace lockstep::trace {

// Bytes of the UTF-8 sequence at the front of `text`; 0 when there is none (or `text` is empty).
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

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_UTF8_H_
