// Whose lateness made others wait: directly, and passed on from one collective to the next.
//
// Scalasca's delay cost on GPU timelines (Boehme et al., TOPC 3(2) 2016), over the waiting that nothing hides
// and a typical job would not have: exposed wait minus exposed wait in the ideal replay. A rank waits at a
// collective for the one that came last; what that one did more of than the waiting rank since both last met
// is its own delay, what it waited itself it passes on. Unit: nanoseconds of waiting, summed over the ranks
// that waited: GPU time burnt, not step time. Definitions: docs/analysis.md, "Who waited for whom". Pure; any
// thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_DELAY_COST_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_DELAY_COST_H_

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
  uint32_t causer;  // rank index of who came last
  uint32_t owner;   // into Classes::owners: where they met
  double ns;
  double until;        // when it ended, in nanoseconds after the graph's origin
  double own;          // of 0..1: what the causer's own delay explains; negative: nothing explains the wait
  uint32_t inherited;  // into DelayCost::inherited: where the rest comes from; store::kNone where it waited
                       // for nobody
};

// What a causer itself waited between two meetings: those of waits [first, last) of
// DelayCost::waits_of[rank_index] that ended after `from` and not after `to`.
struct Inherited {
  uint32_t rank_index;
  uint32_t first, last;
  double from, to;
  double ns;
  bool Has(const ExcessWait& wait) const { return wait.until > from && wait.until <= to; }
};

// Ranks of up to this many are told apart in the matrix; of more their hosts are.
inline constexpr size_t kMatrixRanks = 64;

struct DelayCost {
  // Per step, summed over the waiting ranks.
  double waited_ns = 0;
  double unexplained_ns = 0;
  std::vector<double>
      direct_ns;  // by rank index: waiting that its own delay caused at the collectives it came to last
  std::vector<double> passed_on_ns;  // and elsewhere, through those that waited for it
  std::vector<double> suffered_ns;   // by rank index: its own excess waiting

  // Causer by victim: ranks, or hosts where there are more than kMatrixRanks ranks. Row by row; sums to
  // waited - unexplained.
  bool by_host = false;
  std::vector<uint32_t> place_of;  // by rank index: row and column; index of the rank or its host
  size_t places = 0;
  std::vector<double> matrix;

  // What the figures are made of, in an order in which causes come before effects.
  std::vector<ExcessWait> waits;
  std::vector<std::vector<uint32_t>> waits_of;  // by rank index: its own, into waits
  std::vector<Inherited> inherited;
};

// `gains` after Measure().
DelayCost CostDelays(const GraphInput& input, const Gains& gains);

// How one rank's delay reached the others.
struct DelayHop {
  std::vector<uint32_t> rank_indices;  // that it reached here first, ascending
  uint32_t owner = store::kNone;       // where most of it was waited for
  double ns = 0;                       // per step, by these ranks at this hop
};
struct DelayPath {
  double waited_ns = 0;        // per step, for this rank, by all others
  double direct = 0;           // part of it at collectives to which the rank itself came last
  uint32_t victims = 0;        // ranks that waited for it by a thousandth of a step or more
  std::vector<DelayHop> hops;  // first those that met it, then those that met these, ...
};
DelayPath FollowDelay(const DelayCost& cost, const Gains& gains, uint32_t causer);

// "rank 3's kernels -> tp1 (1 rank) -> stage 1 -> all": the path in words. Empty where nobody waited.
std::string PathText(const GraphInput& input, const Gains& gains, const Layout& layout, const DelayPath& path,
                     uint32_t causer);

// What the report keeps of it.
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
  std::vector<Causer> causers;  // most waited for first
};
// `also`: ranks whose path is wanted however little they were waited for.
Waiting SummarizeWaiting(const GraphInput& input, const Gains& gains, const Layout& layout,
                         const std::vector<uint32_t>& also);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_DELAY_COST_H_
