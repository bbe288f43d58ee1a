// Which host call issued which device activity.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_LAUNCHES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_LAUNCHES_H_

#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::analysis {

// Finds a rank's calls by correlation. Where several calls share one (a driver call inside a runtime call),
// the earliest.
class CallIndex {
 public:
  explicit CallIndex(const store::RankData& rank);
  // Index into RankData::api_calls, or store::kNone.
  uint32_t Of(CorrelationId correlation) const {
    if (correlation.value() == 0) return store::kNone;
    if (!table_.empty()) {
      const uint32_t slot = correlation.value() - least_;
      return slot < table_.size() ? table_[slot] : store::kNone;
    }
    return Search(correlation);
  }

 private:
  uint32_t Search(CorrelationId correlation) const;

  uint32_t least_ = 0;
  std::vector<uint32_t> table_;  // by correlation - least_, where they lie close together
  struct Entry {
    CorrelationId correlation;
    uint32_t call;
  };
  std::vector<Entry> sorted_;  // otherwise
};

// A piece of a device's work with the call that launched it.
struct DeviceWork {
  const store::DeviceActivity* activity;
  const store::ApiCall* launch;  // null: not recorded
};

// All of it, in the order of starts. Points into `rank`.
std::vector<DeviceWork> DeviceWorkOf(const store::RankData& rank);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_LAUNCHES_H_
