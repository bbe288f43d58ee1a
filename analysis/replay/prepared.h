// The common inputs of all analyses of a capture: matched collectives, clocks, steps, waits.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_PREPARED_H_
#define LOCKSTEP_ANALYSIS_REPLAY_PREPARED_H_

#include <vector>

#include "analysis/prepare/call_names.h"
#include "analysis/prepare/collectives.h"
#include "analysis/prepare/launches.h"
#include "analysis/prepare/steps.h"
#include "analysis/replay/graph.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"

namespace lockstep::analysis {

// Read-only after construction; any thread. `capture` must be Finish()ed and must outlive it.
class Prepared {
 public:
  // `threads`: 0 for as many as the machine has. `disk` takes large tables and outlives this; null: they stay
  // in memory. The result depends on neither.
  explicit Prepared(const capture::Capture& capture, unsigned threads = 0, capture::DiskRows* disk = nullptr);

  const capture::Capture& capture;
  unsigned threads;
  capture::DiskRows* disk;
  capture::Matches matches;
  capture::ClockModel clock;
  std::vector<CallIndex> calls;  // by rank index
  Steps steps;
  CollectiveTimes times;
  CallNames names;

  // The result points into this object.
  GraphInput input() const { return {capture, matches, clock, times, steps, calls, &names, threads, disk}; }
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_PREPARED_H_
