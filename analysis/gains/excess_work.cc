#include "analysis/gains/excess_work.h"

#include <algorithm>
#include <limits>

namespace lockstep::analysis {

ExcessWork::ExcessWork(const GraphInput& input, const Gains& gains)
    : graph_(gains.graph()), host_(graph_.units.size() + 1) {
  const Durations ideal = gains.ideal();
  size_t on_device = 0;
  for (const capture::RankData& rank : input.capture.ranks) on_device += rank.activities.size();
  device_.reserve(on_device);
  for (uint32_t r = 0; r + 1 < graph_.rank_begin.size(); ++r) {
    first_.push_back(graph_.rank_begin[r + 1] -
                     static_cast<uint32_t>(input.capture.ranks[r].activities.size()));
    double host = 0;
    for (uint32_t u = graph_.rank_begin[r]; u < first_[r]; ++u) {
      host += graph_.work[u] - ideal.work[u] + (graph_.units[u].is_head ? 0 : graph_.lag[u] - ideal.lag[u]);
      host_[u] = host;
    }
    first_sums_.push_back(static_cast<uint32_t>(device_.size()));
    DeviceSums sum = {};
    double launched = 0;
    for (uint32_t u = first_[r]; u < graph_.rank_begin[r + 1]; ++u) {
      sum[KindOf(graph_.units[u].kind)] += graph_.work[u] - ideal.work[u];
      device_.push_back(sum);
      // Up to the call that issued the unit.
      for (NodeRef p : graph_.StartPreds(u)) {
        if (p % 2 == 0 && UnitOf(p) < first_[r] && UnitOf(p) >= graph_.rank_begin[r])
          launched = host_[UnitOf(p)];
      }
      host_[u] = launched;
    }
  }
  if (input.disk != nullptr) {
    input.disk->Take(host_);
    input.disk->Take(device_);
  }
}

double ExcessWork::MoreThan(uint32_t causer, double causer_from, double causer_to, uint32_t victim,
                            double victim_from, double victim_to) const {
  const Sums of_causer = Between(causer, causer_from, causer_to),
             of_victim = Between(victim, victim_from, victim_to);
  double more = 0;
  for (size_t k = 0; k < kKinds; ++k) more += std::max(0.0, of_causer[k] - of_victim[k]);
  return more;
}

// Sums over all units that started up to that moment, inclusive.
ExcessWork::Sums ExcessWork::Until(uint32_t rank, double moment) const {
  const auto begin = graph_.start.begin();
  const auto after =
      std::upper_bound(begin + first_[rank], begin + graph_.rank_begin[rank + 1], moment) - begin;
  if (after == first_[rank]) return {};
  const DeviceSums& device = device_[first_sums_[rank] + static_cast<size_t>(after) - 1 - first_[rank]];
  Sums sum = {};
  std::copy(device.begin(), device.end(), sum.begin());
  sum[kOfHost] = host_[static_cast<size_t>(after) - 1];
  return sum;
}

ExcessWork::Sums ExcessWork::Between(uint32_t rank, double from, double to) const {
  Sums sum = Until(rank, to);
  if (from == -std::numeric_limits<double>::infinity()) return sum;
  const Sums before = Until(rank, from);
  for (size_t k = 0; k < kKinds; ++k) sum[k] -= before[k];
  return sum;
}

}  // namespace lockstep::analysis
