// Summary of the host time that a rank loses: at one place of the step or everywhere, now and then or always,
// and the calls that contain it.
#ifndef LOCKSTEP_ANALYSIS_COMPARE_HOST_GAPS_H_
#define LOCKSTEP_ANALYSIS_COMPARE_HOST_GAPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/compare/classes.h"
#include "analysis/compare/pieces.h"
#include "analysis/compare/typical.h"
#include "analysis/replay/graph.h"

namespace lockstep::analysis {

// Nanoseconds are per step.
struct HostGapSummary {
  double total_ns = 0;  // of all given pieces
  // The part inside calls that allocate, free, load modules or block, and the name of the call with most of
  // it.
  double in_calls_ns = 0;
  std::string call;
  double in_loader_ns = 0;  // the part during ranges or operators of the data loader
  // The place of the step that loses most. Its name is the call that ended the gap, or the device work if no
  // call is recorded.
  double worst_ns = 0;
  double worst_peers_ns = 0;  // its peers' time there
  std::string worst_call;
  bool worst_opens = false;       // the call is the step's first one
  bool worst_at_head = false;     // the call is among the first ones of the step
  bool worst_copies = false;      // the call is a copy
  double worst_into_step_ns = 0;  // time of the call after the step's begin, in one of the steps
  bool recorded = true;           // false: no call of the host is known, and gaps are idle time of its device
  uint32_t places = 0;            // number of places that take longer
  double widest_pause_ns = 0;
  struct Stops {
    std::vector<uint32_t> steps;   // used steps with such a pause, ascending
    std::vector<uint32_t> places;  // cells of the pauses
    double ns = 0;
  };
  Stops pauses;      // all single long pauses
  Stops long_stops;  // pauses that are long enough to have a rhythm of their own
};

// `level` and `pauses` are pieces of one rank's host.
HostGapSummary SummarizeHostGaps(const GraphInput& input, const Graph& graph, const Classes& classes,
                                 const TypicalValues& typical, uint32_t rank_index, const Pieces& level,
                                 const Pieces& pauses);

// The period of used steps that recur equally far apart, by more than one step; 0: none. Needs at least three
// such steps, or two if the window has no room for a third one.
uint32_t PeriodOf(const std::vector<uint32_t>& steps, size_t step_count);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_COMPARE_HOST_GAPS_H_
