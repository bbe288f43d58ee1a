// Converts times in the form of traces (decimal microseconds, with a fraction or an exponent) into whole
// nanoseconds.
//
// The conversion does not use a double: for a current date in microseconds, a double has a resolution of a
// quarter of a microsecond.
#ifndef LOCKSTEP_FORMATS_COMMON_DECIMAL_TIME_H_
#define LOCKSTEP_FORMATS_COMMON_DECIMAL_TIME_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::formats {

// `text` is a JSON number, with or without quotes and blanks around it. The result is rounded to the nearest
// nanosecond, halves away from zero. nullopt: the text is not a number, or the value does not fit into int64
// nanoseconds.
std::optional<int64_t> NanosFromMicrosText(std::string_view text);

// Returns `text` * 10^`exponent`, rounded in the same way: with 9, seconds become nanoseconds.
std::optional<int64_t> ScaledIntegerFromText(std::string_view text, int exponent);

// Reads a JSON number that counts something. nullopt: it is not a number, has a fraction, or does not fit.
std::optional<int64_t> IntegerFromText(std::string_view text);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_DECIMAL_TIME_H_
