#include "analysis/replay/line_replay.h"

#include <algorithm>

namespace lockstep::analysis {

LineReplay::LineReplay(const Schedule& schedule, const Durations& from, const Durations& to)
    : schedule_(schedule), from_(from), to_(to), times_(schedule.nodes()) {}

inline LineReplay::Points LineReplay::After(const Points& time, double duration, double growth) const {
  Points after;
  for (size_t k = 0; k < kPoints; ++k) after[k] = time[k] + (duration + at_[k] * growth);
  return after;
}

inline LineReplay::Points LineReplay::EndAfter(const Points& anchor, uint32_t unit) const {
  const double duration = from_.ToEnd(unit);
  return After(anchor, duration, to_.ToEnd(unit) - duration);
}

inline LineReplay::Points LineReplay::MomentAt(NodeRef moment) const {
  const uint32_t u = UnitOf(moment);
  return moment % 2 == 0 ? times_[u] : EndAfter(times_[schedule_.graph().anchor[u]], u);
}

inline LineReplay::Points LineReplay::ReadyAt(std::span<const NodeRef> preds) const {
  Points ready{};
  if (preds.empty()) return ready;
  ready = MomentAt(preds[0]);
  for (NodeRef p : preds.subspan(1)) {
    const Points other = MomentAt(p);
    for (size_t k = 0; k < kPoints; ++k) ready[k] = std::max(ready[k], other[k]);
  }
  return ready;
}

void LineReplay::Run(std::span<const double> at) {
  at_ = {};
  std::copy(at.begin(), at.end(), at_.begin());
  end_.fill(schedule_.first_end());
  const Graph& graph = schedule_.graph();
  for (uint32_t place = 0; place < schedule_.nodes(); ++place) {
    const uint32_t node = graph.order[place];
    Points& time = times_[node];
    time = ReadyAt(graph.PredsAt(place));
    if (node < graph.FirstBarrierNode()) time = After(time, from_.lag[node], to_.lag[node] - from_.lag[node]);
  }
  for (size_t step = 0; step < schedule_.steps(); ++step) {
    for (uint32_t u : schedule_.EndsOf(step)) {
      const Points end = EndAfter(times_[graph.anchor[u]], u);
      for (size_t k = 0; k < kPoints; ++k) end_[k] = std::max(end_[k], end[k]);
    }
  }
}

}  // namespace lockstep::analysis
