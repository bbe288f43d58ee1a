// The distributed view: how much of each rank's communication hides behind its computation, how much of it is
// transfer and how much waiting for others, and what each operation costs (torch-tb-profiler's distributed
// view).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_DISTRIBUTED_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_DISTRIBUTED_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// How communication is found and cut.
enum class CommunicationRule : uint8_t {
  kLockstep,     // communication kernels; waiting as analysis/collectives.h tells it
  kTensorBoard,  // tensorboard_rules.h; transfer is the end of each operation, as long as the shortest among
                 // the ranks. Needs frames
};

struct CommunicationStep {
  RankId rank;
  bool mean = false;            // over the rank's steps
  std::optional<int64_t> step;  // nullopt: the mean, or outside of all steps
  // Disjoint, and sum to `length`. Computation and communication: where only that goes on. Zero outside of
  // steps.
  Nanos computation, overlap, communication, other;
  Nanos length;
  // Disjoint, and sum to all communication, hidden or not.
  Nanos transfer, wait, unsplit;
};

struct CommunicationOp {
  RankId rank = kNoRank;  // kNoRank: all
  std::string_view name;
  uint64_t calls = 0;
  std::optional<int64_t> bytes;  // nullopt where any call's are unknown
  Nanos latency;
  // Of the calls of which it is known; nullopt: of none.
  std::optional<Nanos> transfer, wait;
};

struct Distributed {
  std::vector<CommunicationStep> steps;  // by rank: the mean, then each step in order, then what lies in none
  std::vector<CommunicationOp> ops;      // by rank, the longest first
  bool withheld = false;  // kTensorBoard: ranks have different numbers of operations, so none are compared
};

struct DistributedInput {
  const store::Capture& capture;
  const align::Matches& matches;
  const align::ClockModel& clock;
  const analysis::Steps& steps;
};

enum class OpRanks : uint8_t { kTogether, kEach };

// Texts point into the capture, or live as long as the program.
Distributed DistributedOf(const DistributedInput& input, CommunicationRule rule, OpRanks op_ranks);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_DISTRIBUTED_H_
