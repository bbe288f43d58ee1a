// Why a rank is slow: rules over its excess per kind of unit, each with the numbers it rests on.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CAUSES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CAUSES_H_

#include <optional>
#include <string>
#include <vector>

#include "aggregator/analysis/diagnosis.h"
#include "aggregator/analysis/gains.h"
#include "aggregator/analysis/typical.h"

namespace lockstep::analysis {

struct CauseFinding {
  Cause cause = Cause::kUnknown;
  std::vector<std::string> evidence;
  std::optional<Nanos> late;  // how late it comes into each step, where that is what it costs
};

class CauseRules {
 public:
  CauseRules(const GraphInput& input, const Graph& graph, const Classes& classes, const TypicalValues& typical)
      : in_(input), graph_(graph), classes_(classes), typical_(typical) {}

  // The first kind of unit that explains most of what the rank costs, taken further by its rules.
  CauseFinding Of(uint32_t rank_index, const RankCost& cost) const;

  // How much longer the rank's kernels take than its peers', over all classes that have peers.
  struct KernelRatio {
    double ratio = 1;
    double classes_slower = 0;  // part of the classes, weighted by time, that are slower
    uint32_t classes = 0;
  };
  KernelRatio Kernels(uint32_t rank_index) const;
  KernelRatio Copies(uint32_t rank_index) const { return Compare(rank_index, UnitKind::kCopy); }

 private:
  KernelRatio Compare(uint32_t rank_index, UnitKind kind) const;
  CauseFinding OfKernels(uint32_t rank_index) const;
  CauseFinding OfHost(uint32_t rank_index) const;
  CauseFinding OfCopies(uint32_t rank_index) const;
  std::string CallName(uint32_t unit) const;
  bool LaunchesCopy(uint32_t unit) const;

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const TypicalValues& typical_;
};

// "7.49 ms", "212 us", "980 ns": three significant digits.
std::string LengthText(double ns);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CAUSES_H_
