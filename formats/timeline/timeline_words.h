// A line of a timeline, word by word.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_WORDS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_WORDS_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace lockstep::trace {

// Views into the line; the line outlives it.
class LineWords {
 public:
  explicit LineWords(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {
    SkipBlanks();
  }

  bool AtEnd() const { return at_ == end_; }

  // Empty at the end of the line.
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

// The whole word as a number that fits; nothing else.
template <typename Number>
bool NumberFromWord(std::string_view word, Number& out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size() && !word.empty();
}

// Text with %xx for what a word cannot hold; nullopt where two hexadecimal digits do not follow.
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

// Parts of a sentence: text and numbers. (Debian's Abseil knows no std::string_view.)
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

// For a sentence: damaged text may be long and hold anything.
inline std::string ShownWord(std::string_view word) {
  constexpr size_t kShown = 40;
  std::string shown = "\"";
  for (const char c : word.substr(0, kShown)) shown.push_back(c >= ' ' && c <= '~' ? c : '?');
  return shown.append(word.size() > kShown ? "...\"" : "\"");
}

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_WORDS_H_
