// What every analysis of a capture starts from: matched collectives, clocks, steps, waits.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_PREPARED_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_PREPARED_H_

#include <vector>

#include "analysis/prepare/call_names.h"
#include "analysis/prepare/collectives.h"
#include "analysis/prepare/launches.h"
#include "analysis/prepare/steps.h"
#include "analysis/replay/graph.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"

namespace lockstep::analysis {

// Read-only once made; any thread. `capture` must be Finish()ed and outlive it.
class Prepared {
 public:
  // `threads`: 0 for as many as the machine has; the result is the same for any number.
  explicit Prepared(const store::Capture& capture, unsigned threads = 0);

  const store::Capture& capture;
  unsigned threads;
  align::Matches matches;
  align::ClockModel clock;
  std::vector<CallIndex> calls;  // by rank index
  Steps steps;
  CollectiveTimes times;
  CallNames names;

  // Points into this object.
  GraphInput input() const { return {capture, matches, clock, times, steps, calls, &names, threads}; }
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_PREPARED_H_
