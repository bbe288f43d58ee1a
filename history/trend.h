// The values of one metric over the captures of a job, and the changes in them with what changed at the same
// time.
#ifndef LOCKSTEP_HISTORY_TREND_H_
#define LOCKSTEP_HISTORY_TREND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "history/change_points.h"
#include "history/history_store.h"
#include "history/metrics.h"
#include "history/model.h"

namespace lockstep::history {

struct TrendPoint {
  CaptureHead head;
  double value = 0;
};

// Something that differs between the captures before and after a change.
struct Suspect {
  enum class Kind : uint8_t {
    kLabel,      // a label, such as the commit, has another value
    kHost,       // ranks run on a host that was not used before
    kCulprit,    // the reports after the change name a host, and those before do not
    kDevice,     // the job has other devices, so that the captures are not of the same job
    kWorldSize,  // it has another number of ranks
  };
  Kind kind = Kind::kLabel;
  std::string name;    // of the label; else empty
  std::string before;  // value of the last capture before the change; empty: none
  std::string after;   // value of the first capture with the change
  // Captures on each side that have `after`. A suspect that explains the change has all after it and none
  // before.
  size_t with_before = 0, with_after = 0;
  std::string cause;  // kCulprit: the cause that most of these reports give
};

struct TrendChange {
  ChangePoint change;  // places in Trend::points
  bool worse = false;
  std::vector<Suspect> suspects;  // those that explain it best come first
};

struct Trend {
  std::string job;
  const Metric* metric = nullptr;
  std::vector<TrendPoint> points;  // oldest first
  size_t without_value = 0;        // captures whose value is unknown; they are left out
  size_t partial = 0;              // points of captures that are not whole
  std::vector<TrendChange> changes;
  ChangeOptions options;
};

// `contexts` are the captures of one job, oldest first. It is a pure function.
Trend MakeTrend(const std::string& job, const Metric& metric, const std::vector<CaptureContext>& contexts,
                const ChangeOptions& options);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_TREND_H_
