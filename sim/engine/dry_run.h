// The whole world in one process, without pacing: every rank's true stamps.
//
// What the ranks under mpiexec do comes out identical (rank/mpi_stamps_test.cc). Truth is the difference of
// two dry runs of one seed, with and without the fault.
#ifndef LOCKSTEP_SIM_ENGINE_DRY_RUN_H_
#define LOCKSTEP_SIM_ENGINE_DRY_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "scenario/scenario.h"
#include "sim/engine/model.h"

namespace lockstep::sim {

// One execution of a call (start to end), push or pop (start == end), or device op. What it was is
// Scenario::ranks[rank].program[op].
struct TrueRecord {
  uint32_t step = 0;
  uint32_t op = 0;
  uint32_t correlation = 0;  // calls and what they launched; 0: none
  VirtualTime start;
  VirtualTime end;
  bool operator==(const TrueRecord&) const = default;
};

struct RankHistory {
  std::vector<TrueRecord> records;       // by (step, op)
  std::vector<VirtualTime> step_starts;  // when the turn's first host op could begin
  VirtualTime end;                       // of the latest record
};

struct WorldHistory {
  std::vector<RankHistory> ranks;
  // Empty, or why the ranks cannot finish (a deadlock): rank, line and operation that nobody answers.
  std::string stuck;
};

// `scenario` must be valid.
WorldHistory DryRun(const scenario::Scenario& scenario, const Knobs& knobs, uint32_t steps);

// Mean distance of the starts of rank 0's turns, the first two left out where there are more than four (they
// fill the launch queue). For loops the period.
Nanos MeanStep(const scenario::Scenario& scenario, const WorldHistory& history);

// What a turn takes: MeanStep of a chain; of a loop, mean time from a turn's origin to the latest end of any
// rank.
Nanos MeanTurn(const scenario::Scenario& scenario, const WorldHistory& history);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_ENGINE_DRY_RUN_H_
