#include "base/log/clean_text.h"

#include <cstdint>

#include "base/json/utf8.h"

namespace lockstep {

std::string CleanText(std::string_view text, size_t most) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const bool control = length == 1 && (static_cast<uint8_t>(text[0]) < 0x20 || text[0] == 0x7F);
    const std::string_view piece = length == 0 || control ? std::string_view("?") : text.substr(0, length);
    if (clean.size() + piece.size() > most) break;
    clean += piece;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

}  // namespace lockstep
