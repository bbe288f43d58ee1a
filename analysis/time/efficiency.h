// Efficiencies of GPU ranks after POP and TALP, and the share of each dimension of the job's layout in an
// imbalance. Pure; any thread.
#ifndef LOCKSTEP_ANALYSIS_TIME_EFFICIENCY_H_
#define LOCKSTEP_ANALYSIS_TIME_EFFICIENCY_H_

#include <optional>
#include <span>
#include <vector>

#include "analysis/prepare/stages.h"
#include "base/time.h"

namespace lockstep::analysis {

// parallel == load_balance * communication * orchestration. All are null if no rank computes or no time
// passes.
struct Efficiency {
  std::optional<double> parallel;       // mean compute / elapsed
  std::optional<double> load_balance;   // mean compute / most compute
  std::optional<double> communication;  // most compute / most activity
  std::optional<double> orchestration;  // most activity / elapsed
};
// `compute` and `active`: unions per rank of compute kernels, and of all device activity. `elapsed`: of all
// ranks together.
Efficiency EfficiencyOf(std::span<const Nanos> compute, std::span<const Nanos> active, Nanos elapsed);

// Factors of load_balance, which is their product. A dimension that the job lacks, or that was not
// recognised, is null.
struct LoadBalance {
  std::optional<double> stage;   // between pipeline stages
  std::optional<double> data;    // between the replicas of a stage
  std::optional<double> tensor;  // inside tensor groups
};
LoadBalance SplitLoadBalance(std::span<const Nanos> compute, const Layout& layout);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_EFFICIENCY_H_
