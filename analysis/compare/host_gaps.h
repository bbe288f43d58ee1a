// Where a rank's host loses time: at one place of the step or everywhere, now and then or always, and in
// which calls.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_GAPS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_GAPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/pieces.h"
#include "analysis/compare/typical.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// Nanoseconds are per step.
struct HostPicture {
  double total_ns = 0;   // of what is looked at
  double pauses_ns = 0;  // of it, single long stops
  // Of it, inside of calls that allocate, free, load modules or block; the name of the one with most.
  double in_calls_ns = 0;
  std::string call;
  // The one place of the step with most, by the call (or, where no call is recorded, the device work) that
  // ended it.
  double worst_ns = 0;
  double worst_peers_ns = 0;  // what its peers take there
  std::string worst_call;
  bool worst_opens = false;       // it is the step's first call
  bool worst_at_head = false;     // among the first calls of the step
  bool worst_copies = false;      // and copies to the device
  double worst_into_step_ns = 0;  // after the step's begin, in one of the steps
  bool recorded = true;           // else no call of its host is known, and gaps are what its device idled
  uint32_t places = 0;            // that take longer
  double widest_pause_ns = 0;
  struct Stops {
    std::vector<uint32_t> steps;   // used ones with such a stop, ascending
    std::vector<uint32_t> places;  // cells
  };
  Stops pauses;      // all of them
  Stops long_stops;  // those that can be a rhythm of their own
};

// `level` and `pauses` are those of one rank's host.
HostPicture LookAtHost(const GraphInput& input, const Graph& graph, const Classes& classes,
                       const TypicalValues& typical, uint32_t rank_index, const Pieces& level,
                       const Pieces& pauses);

// Used steps that come in one rhythm: at least three of them (two where the window holds no third), equally
// far apart, more than one step. 0: none.
uint32_t PeriodOf(const std::vector<uint32_t>& steps, size_t step_count);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_HOST_GAPS_H_
