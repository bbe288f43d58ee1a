// Traces waiting to the ranks whose delays caused it: directly, and passed on from one collective to the
// next.
//
// The method is Scalasca's delay cost (Boehme et al., TOPC 3(2) 2016) on GPU timelines. It charges exposed
// waiting that a typical job would not have: exposed wait minus exposed wait in the ideal replay. At a
// collective, a rank waits for the last arriver. That rank's own delay is its additional work, compared with
// the waiting rank, since both last met. The waiting that it suffered itself is passed on. The unit is
// nanoseconds of waiting, summed over the waiting ranks; this is GPU time, not step time. Definitions:
// docs/analysis/delay-cost.md. Pure; any thread.
#ifndef LOCKSTEP_ANALYSIS_GAINS_DELAY_COST_H_
#define LOCKSTEP_ANALYSIS_GAINS_DELAY_COST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/gains/gains.h"
#include "analysis/prepare/stages.h"

namespace lockstep::analysis {

// One rank's excess waiting at one collective.
struct ExcessWait {
  uint32_t unit;    // the waiting transfer
  uint32_t victim;  // rank index
  uint32_t causer;  // rank index of the last arriver
  uint32_t owner;   // into Classes::owners: the group or pair that they met in
  double ns;
  double until;        // its end, in nanoseconds after the graph's origin
  double own;          // 0..1: share that the causer's own delay explains; negative: unexplained
  uint32_t inherited;  // into DelayCost::inherited: the origin of the rest; capture::kNone: the causer waited
                       // for no rank
};

// The waiting of a causer itself between two synchronisation points: those of waits [first, last) of
// DelayCost::waits_of[rank_index] that ended after `from` and not after `to`.
struct Inherited {
  uint32_t rank_index;
  uint32_t first, last;
  double from, to;
  double ns;
  bool Has(const ExcessWait& wait) const { return wait.until > from && wait.until <= to; }
};

// Up to this many ranks, the matrix has a row for each rank; beyond it, one for each host.
inline constexpr size_t kMatrixRanks = 64;

struct DelayCost {
  // Per step, summed over the waiting ranks.
  double waited_ns = 0;
  double unexplained_ns = 0;
  std::vector<double>
      direct_ns;  // by rank index: waiting that its own delay caused at the collectives where it came last
  std::vector<double>
      passed_on_ns;  // by rank index: waiting that it caused elsewhere, through ranks that waited for it
  std::vector<double> suffered_ns;  // by rank index: its own excess waiting

  // Rows are causers, columns are victims: ranks, or hosts if there are more than kMatrixRanks ranks. Stored
  // row by row. The sum is waited - unexplained.
  bool by_host = false;
  std::vector<uint32_t> place_of;  // by rank index: row and column; index of the rank or its host
  size_t places = 0;
  std::vector<double> matrix;

  // The waits behind the figures, with causes before effects.
  std::vector<ExcessWait> waits;
  std::vector<std::vector<uint32_t>> waits_of;  // by rank index: the rank's own waits, as indices into waits
  std::vector<Inherited> inherited;
};

// `gains` must be measured (Gains::Measure()).
DelayCost CostDelays(const GraphInput& input, const Gains& gains);

// One hop of a rank's delay on its way to the others.
struct DelayHop {
  std::vector<uint32_t> rank_indices;  // ranks that the delay first reached at this hop, ascending
  uint32_t owner = capture::kNone;     // the group or pair with most of this waiting
  double ns = 0;                       // per step: waiting of these ranks at this hop
};
struct DelayPath {
  double waited_ns = 0;        // per step: waiting of all other ranks for this one
  double direct = 0;           // share of it at collectives where the rank itself came last
  uint32_t victims = 0;        // ranks that waited for it by a thousandth of a step or more
  std::vector<DelayHop> hops;  // first the ranks that met it, then those that met these, ...
};
DelayPath FollowDelay(const DelayCost& cost, const Gains& gains, uint32_t causer);

// "rank 3's kernels -> tp1 (1 rank) -> stage 1 -> all": the path in words. Empty if no rank waited.
std::string PathText(const GraphInput& input, const Gains& gains, const Layout& layout, const DelayPath& path,
                     uint32_t causer);

// Summary of the delay cost for the report.
struct Waiting {
  double waited_ns = 0, unexplained_ns = 0;  // as in DelayCost, like all below
  std::vector<double> direct_ns, passed_on_ns, suffered_ns;
  bool by_host = false;
  size_t places = 0;
  std::vector<double> matrix;
  struct Causer {
    uint32_t rank_index;
    DelayPath path;
    std::string text;
  };
  std::vector<Causer> causers;  // by the waiting for them, largest first
};
// `also`: ranks whose path is included even if ranks hardly waited for them.
Waiting SummarizeWaiting(const GraphInput& input, const Gains& gains, const Layout& layout,
                         const std::vector<uint32_t>& also);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_DELAY_COST_H_
