#include "history/metrics.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_format.h"
#include "history/words.h"

namespace lockstep::history {
namespace {

constexpr Metric kMetrics[] = {
    {"step_time", "step_ns", "median step", MetricUnit::kNanoseconds, Better::kLower, &CaptureHead::step_ns},
    {"lost", "lost_ns_per_step", "lost time per step", MetricUnit::kNanoseconds, Better::kLower,
     &CaptureHead::lost_ns_per_step},
    {"gain", "gain_ns_per_step", "gain of the first fix per step", MetricUnit::kNanoseconds, Better::kLower,
     &CaptureHead::gain_ns_per_step},
    {"exposed", "exposed_ns_per_step", "exposed communication per step", MetricUnit::kNanoseconds,
     Better::kLower, &CaptureHead::exposed_ns_per_step},
    {"idle", "idle_fraction", "idle time of the devices", MetricUnit::kFraction, Better::kLower,
     &CaptureHead::idle_fraction},
    {"efficiency", "parallel_efficiency", "parallel efficiency", MetricUnit::kFraction, Better::kHigher,
     &CaptureHead::parallel_efficiency},
    {"load_balance", "load_balance", "load balance", MetricUnit::kFraction, Better::kHigher,
     &CaptureHead::load_balance},
    {"communication_efficiency", "communication_efficiency", "communication efficiency",
     MetricUnit::kFraction, Better::kHigher, &CaptureHead::communication_efficiency},
};

}  // namespace

std::span<const Metric> Metrics() { return kMetrics; }

const Metric* FindMetric(std::string_view name) {
  const auto* found = std::find_if(std::begin(kMetrics), std::end(kMetrics),
                                   [name](const Metric& metric) { return name == metric.name; });
  return found == std::end(kMetrics) ? nullptr : found;
}

std::string MetricText(const Metric& metric, std::optional<double> value) {
  if (!value) return "-";
  return metric.unit == MetricUnit::kFraction ? absl::StrFormat("%.1f%%", 100 * *value) : LengthWords(*value);
}

}  // namespace lockstep::history
