// The values of a capture that trends and comparisons show.
#ifndef LOCKSTEP_HISTORY_METRICS_H_
#define LOCKSTEP_HISTORY_METRICS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "history/model.h"

namespace lockstep::history {

enum class MetricUnit : uint8_t { kNanoseconds, kFraction };
enum class Better : uint8_t { kLower, kHigher };

struct Metric {
  const char* name;    // on the command line and in JSON
  const char* column;  // of the table captures
  const char* title;
  MetricUnit unit;
  Better better;
  std::optional<double> CaptureHead::*value;
};

// All metrics. The first is the default of a trend.
std::span<const Metric> Metrics();
// nullptr: there is none of this name.
const Metric* FindMetric(std::string_view name);

// Returns for example "20.9 ms", "31.4%", or "-" if it is unknown.
std::string MetricText(const Metric& metric, std::optional<double> value);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_METRICS_H_
