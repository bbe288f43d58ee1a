// Runs all ranks in one process without pacing and returns every rank's true time stamps.
//
// The ranks under mpiexec have identical stamps (rank/mpi_stamps_test.cc). The true effect of a fault is the
// difference of two dry runs with the same seed, with and without the fault.
#ifndef LOCKSTEP_SIM_ENGINE_DRY_RUN_H_
#define LOCKSTEP_SIM_ENGINE_DRY_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "scenario/scenario.h"
#include "sim/engine/model.h"

namespace lockstep::sim {

// One execution of a call (start to end), a push or pop (start == end), or a device op. The op itself is
// Scenario::ranks[rank].program[op].
struct TrueRecord {
  uint32_t step = 0;
  uint32_t op = 0;
  uint32_t correlation = 0;  // of a call and its device work; 0 means none
  VirtualTime start;
  VirtualTime end;
  bool operator==(const TrueRecord&) const = default;
};

struct RankHistory {
  std::vector<TrueRecord> records;       // sorted by (step, op)
  std::vector<VirtualTime> step_starts;  // earliest possible start of the iteration's first host op
  VirtualTime end;                       // end of the latest record
};

struct WorldHistory {
  std::vector<RankHistory> ranks;
  // Empty, or the reason why the ranks cannot finish (a deadlock): rank, line, and the operation without an
  // answer.
  std::string stuck;
};

// `scenario` must be valid.
WorldHistory DryRun(const scenario::Scenario& scenario, const ModelSettings& settings, uint32_t steps);

// Returns the mean distance between the starts of rank 0's iterations. It skips the first two of more than
// four iterations, because they fill the launch queue. For a loop it returns the period.
Nanos MeanStep(const scenario::Scenario& scenario, const WorldHistory& history);

// Returns the mean duration of an iteration. For a chain it is the mean distance between the iterations'
// latest ends on any rank, without the first two of more than four iterations. Hosts may run ahead of it. For
// a loop it is the mean time to the iteration's latest end on any rank. It counts from the iteration's
// origin, or from the end of the iterations before, if that is later: an iteration is not charged for the
// delay of those before it.
Nanos MeanIteration(const scenario::Scenario& scenario, const WorldHistory& history);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_ENGINE_DRY_RUN_H_
