// Finds the host call that issued a device activity.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_LAUNCHES_H_
#define LOCKSTEP_ANALYSIS_PREPARE_LAUNCHES_H_

#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::analysis {

// Finds a rank's calls by correlation. If several calls share one (a driver call inside a runtime call),
// finds the earliest.
class CallIndex {
 public:
  explicit CallIndex(const capture::RankData& rank);
  // Index into RankData::api_calls, or capture::kNone.
  uint32_t Of(CorrelationId correlation) const {
    if (correlation.value() == 0) return capture::kNone;
    if (!table_.empty()) {
      const uint32_t slot = correlation.value() - least_;
      return slot < table_.size() ? table_[slot] : capture::kNone;
    }
    return Search(correlation);
  }

 private:
  uint32_t Search(CorrelationId correlation) const;

  uint32_t least_ = 0;
  std::vector<uint32_t> table_;  // by correlation - least_, if correlations lie close together
  struct Entry {
    CorrelationId correlation;
    uint32_t call;
  };
  std::vector<Entry> sorted_;  // otherwise; ordered by correlation
};

// A device activity with the call that launched it.
struct DeviceWork {
  const capture::DeviceActivity* activity;
  const capture::ApiCall* launch;  // null: not recorded
};

// All device work, ordered by start. Points into `rank`.
std::vector<DeviceWork> DeviceWorkOf(const capture::RankData& rank);

// The host's time of the launch of each activity, by activity. An unrecorded launch was not later than that
// of the next work on its stream. If no earlier launch of the stream was recorded either, it was before the
// rank's first call. On streams without any recorded launch, and at most, it is the activity's own start.
std::vector<HostTime> LaunchTimes(const capture::RankData& rank, const CallIndex& calls);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_LAUNCHES_H_
