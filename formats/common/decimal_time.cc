#include "formats/common/decimal_time.h"

#include <limits>

#include "absl/strings/ascii.h"

namespace lockstep::formats {
namespace {

constexpr int64_t kPowersOfTen[] = {1,
                                    10,
                                    100,
                                    1000,
                                    10000,
                                    100000,
                                    1000000,
                                    10000000,
                                    100000000,
                                    1000000000,
                                    10000000000,
                                    100000000000,
                                    1000000000000,
                                    10000000000000,
                                    100000000000000,
                                    1000000000000000,
                                    10000000000000000,
                                    100000000000000000,
                                    1000000000000000000};
constexpr int kLargestPower = 18;
// With a larger exponent every number is 0 or too large. The bound keeps the sum of exponents from
// overflowing.
constexpr int kAbsurdExponent = 10000;

bool IsBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

std::string_view Bare(std::string_view text) {
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

// value = digits * 10^exponent
struct Decimal {
  bool negative = false;
  uint64_t digits = 0;
  int exponent = 0;
  bool cut_to_half_or_more = false;  // the first digit for which `digits` has no room was 5 or above
};

std::optional<int> ParseExponent(std::string_view text, size_t& at) {
  bool negative = false;
  if (at < text.size() && (text[at] == '+' || text[at] == '-')) negative = text[at++] == '-';
  if (at == text.size() || !absl::ascii_isdigit(text[at])) return std::nullopt;
  int value = 0;
  for (; at < text.size() && absl::ascii_isdigit(text[at]); ++at) {
    if (value < kAbsurdExponent) value = value * 10 + (text[at] - '0');
  }
  return negative ? -value : value;
}

std::optional<Decimal> ParseDecimal(std::string_view text) {
  constexpr uint64_t kRoom = (std::numeric_limits<uint64_t>::max() - 9) / 10;
  Decimal d;
  size_t at = 0;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) d.negative = text[at++] == '-';
  bool any = false;
  bool full = false;
  bool point = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (!absl::ascii_isdigit(c)) break;
    any = true;
    if (!full && d.digits > kRoom) {
      full = true;
      d.cut_to_half_or_more = c >= '5';
    }
    if (full) {
      if (!point && d.exponent < kAbsurdExponent) ++d.exponent;
    } else {
      d.digits = d.digits * 10 + static_cast<uint64_t>(c - '0');
      if (point) --d.exponent;
    }
  }
  if (!any) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    const std::optional<int> exponent = ParseExponent(text, ++at);
    if (!exponent) return std::nullopt;
    d.exponent += *exponent;
  }
  if (at != text.size()) return std::nullopt;
  return d;
}

std::optional<int64_t> ScaleAndRound(const Decimal& d, int extra_exponent) {
  int exponent = d.exponent + extra_exponent;
  uint64_t magnitude = d.digits;
  constexpr uint64_t kLimit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (exponent >= 0) {
    if (magnitude != 0 && exponent > kLargestPower) return std::nullopt;
    if (magnitude != 0 &&
        __builtin_mul_overflow(magnitude, static_cast<uint64_t>(kPowersOfTen[exponent]), &magnitude)) {
      return std::nullopt;
    }
    if (d.cut_to_half_or_more && exponent == 0) ++magnitude;
  } else {
    uint64_t last = 0;
    while (exponent < 0 && magnitude != 0) {
      const int step = exponent < -kLargestPower ? kLargestPower : -exponent;
      const uint64_t power = static_cast<uint64_t>(kPowersOfTen[step]);
      last = magnitude % power / (power / 10 == 0 ? 1 : power / 10);
      magnitude /= power;
      exponent += step;
      if (magnitude == 0 && exponent < 0) last = 0;
    }
    if (last >= 5) ++magnitude;
  }
  if (magnitude > kLimit) return std::nullopt;
  return d.negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

}  // namespace

std::optional<int64_t> NanosFromMicrosText(std::string_view text) {
  // Fast path for nearly every row: up to 16 digits, and no fraction or one of three digits.
  constexpr int64_t kSafe = std::numeric_limits<int64_t>::max() / 1000 - 1;
  const char* p = text.data();
  const char* const end = p + text.size();
  if (text.size() <= 20) {
    int64_t value = 0;
    while (p != end && absl::ascii_isdigit(*p) && value <= kSafe) value = value * 10 + (*p++ - '0');
    if (p != text.data() && value <= kSafe) {
      if (p == end) return value * 1000;
      if (end - p == 4 && *p == '.' && absl::ascii_isdigit(p[1]) && absl::ascii_isdigit(p[2]) &&
          absl::ascii_isdigit(p[3])) {
        return value * 1000 + (p[1] - '0') * 100 + (p[2] - '0') * 10 + (p[3] - '0');
      }
    }
  }
  return ScaledIntegerFromText(text, 3);
}

std::optional<int64_t> ScaledIntegerFromText(std::string_view text, int exponent) {
  const std::optional<Decimal> d = ParseDecimal(Bare(text));
  return d ? ScaleAndRound(*d, exponent) : std::nullopt;
}

std::optional<int64_t> IntegerFromText(std::string_view text) {
  const std::string_view bare = Bare(text);
  if (!bare.empty() && bare.size() <= 18) {
    int64_t value = 0;
    size_t at = 0;
    while (at < bare.size() && absl::ascii_isdigit(bare[at])) value = value * 10 + (bare[at++] - '0');
    if (at == bare.size()) return value;
  }
  const std::optional<Decimal> d = ParseDecimal(bare);
  if (!d) return std::nullopt;
  const std::optional<int64_t> whole = ScaleAndRound(*d, 0);
  if (!whole || d->exponent >= 0) return whole;
  // "3.0" is accepted; "3.5" is not.
  const std::optional<int64_t> fine = ScaleAndRound(*d, 3);
  int64_t expected = 0;
  if (!fine || __builtin_mul_overflow(*whole, int64_t{1000}, &expected) || expected != *fine)
    return std::nullopt;
  return whole;
}

}  // namespace lockstep::formats
