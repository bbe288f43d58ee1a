// Writes the truth file of a rank (docs/formats/truth.md): the real events, for tests and the demo's verdict.
#ifndef LOCKSTEP_SIM_RANK_TRUTH_H_
#define LOCKSTEP_SIM_RANK_TRUTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cupti/core.h"
#include "sim/engine/dry_run.h"
#include "sim/rank/process_clock.h"

namespace lockstep::sim {

struct Truth {
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::string host;
  uint64_t seed = 1;
  Fault fault;
  Nanos healthy_step;  // from a dry run of this seed without the fault
  Nanos faulty_step;   // from a dry run of this seed with the fault
  StampClock clock;
  bool complete = false;  // false at the start, for the case that the rank is killed
  std::vector<VirtualTime> step_starts;
  const SimLedgerEntry* ledger = nullptr;
  size_t ledger_size = 0;
};

// Writes FOLDER/truth-<rank>.json. The file appears complete or not at all. Returns false and sets errno on
// failure.
bool WriteTruth(const std::string& folder, const Truth& truth);

// Writes FOLDER/<rank>.stamps: a line "step op correlation start end" per record, in virtual nanoseconds.
bool WriteStamps(const std::string& folder, uint32_t rank, const RankHistory& history);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_TRUTH_H_
