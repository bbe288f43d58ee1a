#include "analysis/replay/line_replay.h"

#include <algorithm>

namespace lockstep::analysis {

LineReplay::LineReplay(const Schedule& schedule, const Timing& from, const Timing& to)
    : schedule_(schedule), from_(schedule.slots()), growth_(schedule.slots()), times_(schedule.slots()) {
  for (uint32_t s = 0; s < schedule.slots(); ++s) {
    const NodeRef node = schedule.NodeOf(s);
    from_[s] = Added(from, node);
    growth_[s] = Added(to, node) - from_[s];
  }
}

void LineReplay::Run(std::span<const double> at) {
  Points where{};
  std::copy(at.begin(), at.end(), where.begin());
  end_.fill(schedule_.first_end());
  const uint32_t* const preds = schedule_.pred_data();
  const int32_t* const step = schedule_.step_data();
  Points* const times = times_.data();
  const Schedule::Item* const last = schedule_.item_data() + schedule_.items();
  for (const Schedule::Item* item = schedule_.item_data(); item < last; ++item) {
    uint32_t p = item->first_pred;
    const uint32_t last_pred = item[1].first_pred;
    Points latest{};
    if (p < last_pred) latest = times[preds[p++]];
    for (; p < last_pred; ++p) {
      const Points& other = times[preds[p]];
      for (size_t k = 0; k < kPoints; ++k) latest[k] = std::max(latest[k], other[k]);
    }
    for (uint32_t s = item->first_slot; s < item[1].first_slot; ++s) {
      Points& time = times[s];
      for (size_t k = 0; k < kPoints; ++k) time[k] = latest[k] + (from_[s] + where[k] * growth_[s]);
      if (step[s] < 0) continue;
      for (size_t k = 0; k < kPoints; ++k) end_[k] = std::max(end_[k], time[k]);
    }
  }
}

}  // namespace lockstep::analysis
