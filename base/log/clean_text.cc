#include "base/log/clean_text.h"

#include <cstdint>

#include "base/json/utf8.h"

namespace lockstep {
namespace {

enum class LineEnds : uint8_t { kReplaced, kKept };

bool Between(std::string_view character, std::string_view first, std::string_view last) {
  return character >= first && character <= last;
}

// `character` is one valid character. UTF-8 sorts like the numbers of the characters.
bool IsControl(std::string_view character, LineEnds ends) {
  if (ends == LineEnds::kKept && (character == "\n" || character == "\t")) return false;
  if (character.size() == 1) return static_cast<uint8_t>(character[0]) < 0x20 || character[0] == 0x7F;
  return Between(character, "\xC2\x80", "\xC2\x9F") ||          // U+0080 to U+009F: C1
         character == "\xD8\x9C" ||                             // U+061C: Arabic letter mark
         Between(character, "\xE2\x80\x8E", "\xE2\x80\x8F") ||  // U+200E, U+200F: marks of direction
         Between(character, "\xE2\x80\xA8", "\xE2\x80\xAE") ||  // U+2028 to U+202E: separators, embeddings
         Between(character, "\xE2\x81\xA6", "\xE2\x81\xA9");    // U+2066 to U+2069: isolates
}

std::string Clean(std::string_view text, size_t most, LineEnds ends) {
  std::string clean;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const bool replaced = length == 0 || IsControl(text.substr(0, length), ends);
    const std::string_view piece = replaced ? std::string_view("?") : text.substr(0, length);
    if (clean.size() + piece.size() > most) break;
    clean += piece;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

}  // namespace

std::string CleanText(std::string_view text, size_t most) { return Clean(text, most, LineEnds::kReplaced); }

std::string CleanLines(std::string_view text) { return Clean(text, SIZE_MAX, LineEnds::kKept); }

}  // namespace lockstep
