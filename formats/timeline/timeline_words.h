// Splits a line of a timeline into words.
#ifndef LOCKSTEP_FORMATS_TIMELINE_TIMELINE_WORDS_H_
#define LOCKSTEP_FORMATS_TIMELINE_TIMELINE_WORDS_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace lockstep::formats {

// The words are views into the line, which outlives them.
class LineWords {
 public:
  explicit LineWords(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {
    SkipBlanks();
  }

  bool AtEnd() const { return at_ == end_; }

  // Returns the next word; empty at the end of the line.
  std::string_view Next() {
    const char* const begin = at_;
    while (at_ != end_ && *at_ != ' ') ++at_;
    const std::string_view word(begin, static_cast<size_t>(at_ - begin));
    SkipBlanks();
    return word;
  }

 private:
  void SkipBlanks() {
    while (at_ != end_ && *at_ == ' ') ++at_;
  }

  const char* at_;
  const char* end_;
};

// Converts a whole word into a number. False: the word is not a number, or it does not fit.
template <typename Number>
bool NumberFromWord(std::string_view word, Number& out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

// Decodes %xx in a word. nullopt: a % is not followed by two hexadecimal digits.
inline std::optional<std::string> TextFromWord(std::string_view word) {
  std::string text;
  text.reserve(word.size());
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] != '%') {
      text.push_back(word[i]);
      continue;
    }
    unsigned value = 0;
    if (i + 2 >= word.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(word.data() + i + 1, word.data() + i + 3, value, 16);
    if (error != std::errc() || end != word.data() + i + 3) return std::nullopt;
    text.push_back(static_cast<char>(value));
    i += 2;
  }
  return text;
}

// Joins texts and numbers into a sentence. (Debian's Abseil does not accept std::string_view.)
template <typename... Parts>
std::string Sentence(const Parts&... parts) {
  std::string out;
  const auto add = [&out](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      out.append(std::to_string(part));
    } else {
      out.append(part);
    }
  };
  (add(parts), ...);
  return out;
}

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_TIMELINE_TIMELINE_WORDS_H_
