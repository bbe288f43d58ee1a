#include "aggregator/trace/event_splitter.h"

#include <emmintrin.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace lockstep::trace {
namespace {

constexpr size_t kWord = 64;
// Words that may hold the end of an event, remembered so that the last one can be looked at again.
constexpr size_t kRemembered = 128;

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

size_t SkipBlanks(std::string_view text, size_t at) {
  while (at < text.size() && IsBlank(text[at])) ++at;
  return at;
}

// One bit per byte of 64.
struct WordMasks {
  uint64_t quote = 0;
  uint64_t backslash = 0;
  uint64_t open = 0;   // { [
  uint64_t close = 0;  // } ]
};

// SSE2 is in every x86-64 and already several times faster than inflate: no run-time choice of instructions
// is needed.
WordMasks Classify(const char* at) {
  WordMasks m;
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  // '[' and '{', ']' and '}' differ in one bit that no other pair of these shares.
  const __m128i fold = _mm_set1_epi8(0x20);
  const __m128i open = _mm_set1_epi8('{');
  const __m128i close = _mm_set1_epi8('}');
  for (int i = 0; i < 4; ++i) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 16 * i));
    const __m128i folded = _mm_or_si128(bytes, fold);
    const auto bits = [i](__m128i equal) {
      return static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(equal))) << (16 * i);
    };
    m.quote |= bits(_mm_cmpeq_epi8(bytes, quote));
    m.backslash |= bits(_mm_cmpeq_epi8(bytes, backslash));
    m.open |= bits(_mm_cmpeq_epi8(folded, open));
    m.close |= bits(_mm_cmpeq_epi8(folded, close));
  }
  return m;
}

// Follows strings from word to word and leaves the brackets that are outside of them.
class StringTracker {
 public:
  void Apply(WordMasks& m) {
    const uint64_t escaped = Escaped(m.backslash);
    const uint64_t inside = PrefixXor(m.quote & ~escaped) ^ inside_;
    inside_ = static_cast<uint64_t>(static_cast<int64_t>(inside) >> 63);
    m.open &= ~inside;
    m.close &= ~inside;
  }

 private:
  // Bytes behind an odd number of backslashes.
  uint64_t Escaped(uint64_t backslash) {
    if (backslash == 0) {
      const uint64_t first = escape_first_;
      escape_first_ = 0;
      return first;
    }
    uint64_t escaped = 0;
    bool escape = escape_first_ != 0;
    for (size_t bit = 0; bit < kWord; ++bit) {
      if (escape) {
        escaped |= uint64_t{1} << bit;
        escape = false;
      } else {
        escape = ((backslash >> bit) & 1) != 0;
      }
      if (!escape && (backslash >> bit >> 1) == 0 && bit + 1 < kWord) break;
    }
    escape_first_ = escape ? 1 : 0;
    return escaped;
  }

  // Bit i = parity of the bits up to i.
  static uint64_t PrefixXor(uint64_t bits) {
    for (int shift = 1; shift < 64; shift *= 2) bits ^= bits << shift;
    return bits;
  }

  uint64_t inside_ = 0;  // all ones: the word starts inside a string
  uint64_t escape_first_ = 0;
};

// An empty list or object closes where it opens; most brackets of a trace are "[]".
void DropEmptyPairs(WordMasks& m) {
  const uint64_t pairs = m.open & (m.close >> 1);
  m.open ^= pairs;
  m.close ^= pairs << 1;
}

struct Word {
  size_t at = 0;
  int64_t depth = 0;  // before the word; 0: between elements
  uint64_t open = 0;
  uint64_t close = 0;
};

// Is the '}' at `at` followed by what follows an element of the list? A quote lost to damage turns the text
// inside out; what then looks like an end has something else behind it.
bool EndsElement(std::string_view text, size_t at, MoreInput more) {
  if (text[at] != '}') return false;
  size_t next = SkipBlanks(text, at + 1);
  if (next == text.size()) return more == MoreInput::kEnds;
  if (text[next] == ']') return true;
  if (text[next] != ',') return false;
  next = SkipBlanks(text, next + 1);
  if (next == text.size()) return more == MoreInput::kEnds;
  return text[next] == '{' || text[next] == ']';
}

// Visits the brackets of a word in order. `visit(at, depth)` is called behind each close, returns false to
// stop.
template <typename Visit>
void Walk(const Word& word, Visit visit) {
  int64_t depth = word.depth;
  for (uint64_t both = word.open | word.close; both != 0; both &= both - 1) {
    const int bit = std::countr_zero(both);
    if ((word.open >> bit) & 1) {
      ++depth;
    } else if (!visit(word.at + static_cast<size_t>(bit), --depth)) {
      return;
    }
  }
}

size_t LastEndIn(std::string_view text, const Word& word, MoreInput more) {
  size_t end = 0;
  Walk(word, [&](size_t at, int64_t depth) {
    if (depth < 0) return false;
    if (depth == 0 && EndsElement(text, at, more)) end = at + 1;
    return true;
  });
  return end;
}

std::optional<size_t> FirstBelow(const Word& word) {
  std::optional<size_t> below;
  Walk(word, [&](size_t at, int64_t depth) {
    if (depth < 0) below = at;
    return depth >= 0;
  });
  return below;
}

class CandidateRing {
 public:
  void Push(const Word& word) { words_[count_++ % kRemembered] = word; }
  // The last event end in any remembered word; `forgot` when older ones were overwritten and none was found.
  size_t LastEnd(std::string_view text, MoreInput more, bool& forgot) const {
    const size_t kept = count_ < kRemembered ? count_ : kRemembered;
    for (size_t i = 1; i <= kept; ++i) {
      if (size_t end = LastEndIn(text, words_[(count_ - i) % kRemembered], more); end != 0) return end;
    }
    forgot = count_ > kRemembered;
    return 0;
  }

 private:
  std::array<Word, kRemembered> words_;
  size_t count_ = 0;
};

Cut FindCutUpTo(std::string_view text, MoreInput more, size_t limit, bool every_word) {
  Cut cut;
  StringTracker strings;
  CandidateRing candidates;
  int64_t depth = 0;
  for (size_t at = 0; at < limit; at += kWord) {
    WordMasks m = Classify(text.data() + at);
    if (limit - at < kWord) {
      const uint64_t inside = (uint64_t{1} << (limit - at)) - 1;
      m = {m.quote & inside, m.backslash & inside, m.open & inside, m.close & inside};
    }
    strings.Apply(m);
    DropEmptyPairs(m);
    const int closes = std::popcount(m.close);
    if (closes != 0 && depth <= closes) {
      const Word word{at, depth, m.open, m.close};
      if (every_word) {
        if (size_t end = LastEndIn(text, word, more); end != 0) cut.end = end;
      } else {
        candidates.Push(word);
      }
      if (depth < closes) {
        if (const auto below = FirstBelow(word)) {
          if (text[*below] == ']') cut.list_end = *below;
          break;
        }
      }
    }
    depth += std::popcount(m.open) - closes;
  }
  if (!every_word) {
    bool forgot = false;
    cut.end = candidates.LastEnd(text, more, forgot);
    // Rare: an event longer than all remembered words stands behind the last end.
    if (forgot) return FindCutUpTo(text, more, limit, true);
  }
  return cut;
}

bool IsEventKey(std::string_view key) {
  for (std::string_view known : {"ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "args", "s", "bp"}) {
    if (key == known) return true;
  }
  return false;
}

bool LooksLikeEvent(std::string_view text, size_t brace) {
  size_t before = brace;
  while (before > 0 && IsBlank(text[before - 1])) --before;
  if (before > 0 && text[before - 1] == ':') return false;
  const size_t quote = SkipBlanks(text, brace + 1);
  if (quote >= text.size() || text[quote] != '"') return false;
  const size_t key_end = text.substr(0, quote + 8).find('"', quote + 1);
  if (key_end == std::string_view::npos || !IsEventKey(text.substr(quote + 1, key_end - quote - 1)))
    return false;
  const size_t colon = SkipBlanks(text, key_end + 1);
  return colon < text.size() && text[colon] == ':';
}

}  // namespace

Cut FindCut(std::string_view text, MoreInput more) { return FindCutUpTo(text, more, text.size(), false); }

std::optional<size_t> FindEventEnd(std::string_view text, size_t from) {
  int64_t depth = 0;
  for (size_t at = from; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\') ++at;
      }
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return at + 1;
    }
  }
  return std::nullopt;
}

std::optional<size_t> FindEventStart(std::string_view text, size_t from) {
  for (size_t at = text.find('{', from); at != std::string_view::npos; at = text.find('{', at + 1)) {
    if (LooksLikeEvent(text, at)) return at;
  }
  return std::nullopt;
}

}  // namespace lockstep::trace
