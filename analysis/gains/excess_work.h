// What each rank's device and host took beyond typical, up to any moment of its own. For delay_cost.h.
// Nanoseconds after the graph's origin. Read-only once built, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_EXCESS_WORK_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_EXCESS_WORK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/gains/gains.h"

namespace lockstep::analysis {

// Summed up in the order of a rank's records. Waiting is in neither: a blocking call's own time begins when
// what it waited for is done.
class ExcessWork {
 public:
  // Both must outlive it. `gains` after Measure().
  ExcessWork(const GraphInput& input, const Gains& gains);

  // The unit of an instance's member.
  uint32_t UnitOfMember(const store::Capture& capture, const align::Member& m) const {
    return first_[m.rank_index] + capture.ranks[m.rank_index].collectives[m.collective].activity;
  }

  // What the causer did more of, beyond typical, than the victim, each between two moments of its own; minus
  // infinity: from the first record on. Kinds of work are compared one by one.
  double MoreThan(uint32_t causer, double causer_from, double causer_to, uint32_t victim, double victim_from,
                  double victim_to) const;

 private:
  enum Kind { kOfKernels, kOfCopies, kOfTransfers, kOfHost, kKinds };
  using Sums = std::array<double, kKinds>;

  static size_t KindOf(UnitKind kind) {
    return kind == UnitKind::kKernel ? kOfKernels : kind == UnitKind::kCopy ? kOfCopies : kOfTransfers;
  }
  Sums Until(uint32_t rank, double moment) const;
  Sums Between(uint32_t rank, double from, double to) const;

  const Graph& graph_;
  std::vector<uint32_t> first_;  // device unit, by rank index
  std::vector<Sums> device_;     // by device unit: with it
  // By host unit: up to its end. By device unit: up to the call that issued it.
  std::vector<double> host_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_EXCESS_WORK_H_
