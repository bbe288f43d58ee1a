// The time of each rank's device and host beyond typical, up to any moment. For delay_cost.h. Moments are
// nanoseconds after the graph's origin. Read-only after construction, so any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_GAINS_EXCESS_WORK_H_
#define LOCKSTEP_ANALYSIS_GAINS_EXCESS_WORK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/gains/gains.h"

namespace lockstep::analysis {

// Sums over a rank's records in their order. They contain no waiting: a blocking call's own time begins when
// its wait ends.
class ExcessWork {
 public:
  // Both must outlive it. `gains` must be measured (Gains::Measure()).
  ExcessWork(const GraphInput& input, const Gains& gains);

  // The unit of an instance's member.
  uint32_t UnitOfMember(const capture::Capture& capture, const capture::Member& m) const {
    return first_[m.rank_index] + capture.ranks[m.rank_index].collectives[m.collective].activity;
  }

  // Returns the causer's excess work (beyond the typical amount) minus the victim's. The causer's counts from
  // `causer_from` to `causer_to`, the victim's from `victim_from` to `victim_to`. Minus infinity: from the
  // first record on. Each kind of work is compared separately, and only positive
  // differences count.
  double MoreThan(uint32_t causer, double causer_from, double causer_to, uint32_t victim, double victim_from,
                  double victim_to) const;

 private:
  enum Kind { kOfKernels, kOfCopies, kOfTransfers, kOnDevice, kOfHost = kOnDevice, kKinds };
  using DeviceSums = std::array<double, kOnDevice>;
  using Sums = std::array<double, kKinds>;

  static size_t KindOf(UnitKind kind) {
    return kind == UnitKind::kKernel ? kOfKernels : kind == UnitKind::kCopy ? kOfCopies : kOfTransfers;
  }
  Sums Until(uint32_t rank, double moment) const;
  Sums Between(uint32_t rank, double from, double to) const;

  const Graph& graph_;
  std::vector<uint32_t> first_;       // first device unit, by rank index
  std::vector<uint32_t> first_sums_;  // its place in device_, by rank index
  std::vector<DeviceSums> device_;    // by device unit: the sum up to and with it
  // By host unit: up to its end. By device unit: up to the call that issued it.
  std::vector<double> host_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_EXCESS_WORK_H_
