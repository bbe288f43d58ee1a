#include "cli/top/keys.h"

#include <optional>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr char kEscape = '\x1b';
// Longer than any key's sequence; longer ones are not keys.
constexpr size_t kLongest = 32;

std::optional<Key::Kind> Meaning(std::string_view parameters, char last) {
  switch (last) {
    case 'A':
      return Key::Kind::kUp;
    case 'B':
      return Key::Kind::kDown;
    case 'H':
      return Key::Kind::kHome;
    case 'F':
      return Key::Kind::kEnd;
    case '~':
      break;
    default:
      return std::nullopt;
  }
  if (parameters == "1" || parameters == "7") return Key::Kind::kHome;
  if (parameters == "4" || parameters == "8") return Key::Kind::kEnd;
  if (parameters == "5") return Key::Kind::kPageUp;
  if (parameters == "6") return Key::Kind::kPageDown;
  return std::nullopt;
}

// Returns the length of the sequence at the start of `text`, or 0 if it is incomplete. Sequences are ESC [
// parameters final, or ESC O letter.
size_t SequenceLength(std::string_view text) {
  if (text.size() < 2) return 0;
  if (text[1] == 'O') return text.size() < 3 ? 0 : 3;
  if (text[1] != '[') return 1;
  for (size_t i = 2; i < text.size() && i < kLongest; ++i) {
    if (text[i] >= 0x40 && text[i] <= 0x7E) return i + 1;
  }
  return text.size() < kLongest ? 0 : kLongest;
}

}  // namespace

std::vector<Key> KeyReader::Feed(std::string_view bytes) {
  pending_ += bytes;
  std::vector<Key> keys;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    if (rest[0] != kEscape) {
      keys.push_back({Key::Kind::kCharacter, rest[0]});
      rest.remove_prefix(1);
      continue;
    }
    const size_t length = SequenceLength(rest);
    if (length == 0) break;
    if (length == 1) {
      keys.push_back({Key::Kind::kEscape});
    } else if (const auto kind = Meaning(rest.substr(2, length - 3), rest[length - 1])) {
      keys.push_back({*kind});
    }
    rest.remove_prefix(length);
  }
  pending_ = std::string(rest);
  return keys;
}

std::vector<Key> KeyReader::Flush() {
  const std::string left = std::exchange(pending_, "");
  if (left.empty()) return {};
  return {{Key::Kind::kEscape}};
}

}  // namespace lockstep::cli
