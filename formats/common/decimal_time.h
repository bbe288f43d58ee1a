// Times as traces write them: decimal microseconds, with a fraction or an exponent, into whole nanoseconds.
//
// Never through a double: one of today's dates in microseconds leaves it a resolution of a quarter of a
// microsecond.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_DECIMAL_TIME_H_
#define LOCKSTEP_AGGREGATOR_TRACE_DECIMAL_TIME_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::trace {

// `text` is a JSON number, with or without quotes and blanks around it. Digits below a nanosecond are rounded
// to the nearest, halves away from zero. nullopt: not a number, or beyond what an int64 of nanoseconds holds.
std::optional<int64_t> NanosFromMicrosText(std::string_view text);

// A JSON number that counts something. nullopt: not a number, has a fraction, or does not fit.
std::optional<int64_t> IntegerFromText(std::string_view text);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_DECIMAL_TIME_H_
