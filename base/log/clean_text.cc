#include "base/log/clean_text.h"

#include <cstdint>

namespace lockstep {
namespace {

// Returns the length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none.
size_t SequenceLength(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 && lead <= 0xF4  ? 4
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  // Rejects overlong forms, surrogates and values above U+10FFFF.
  const uint8_t second = at(1);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) || (lead == 0xF0 && second < 0x90) ||
      (lead == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

}  // namespace

std::string CleanText(std::string_view text, size_t most) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const bool control = length == 1 && (static_cast<uint8_t>(text[0]) < 0x20 || text[0] == 0x7F);
    const std::string_view piece = length == 0 || control ? std::string_view("?") : text.substr(0, length);
    if (clean.size() + piece.size() > most) break;
    clean += piece;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

}  // namespace lockstep
