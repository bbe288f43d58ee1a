// The distributed view: per rank, the communication hidden behind computation, the transfer, the waiting for
// other ranks, and the cost of each operation (torch-tb-profiler's distributed view).
#ifndef LOCKSTEP_VIEWS_DEVICE_DISTRIBUTED_H_
#define LOCKSTEP_VIEWS_DEVICE_DISTRIBUTED_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// The rule that finds and splits communication.
enum class CommunicationRule : uint8_t {
  kLockstep,     // communication kernels, split as in analysis/prepare/collectives.h
  kTensorBoard,  // as in tensorboard_rules.h; transfer is the last part of each operation, as long as the
                 // shortest one among the ranks. Needs frames
};

struct CommunicationStep {
  RankId rank;
  bool mean = false;            // this row is the mean of the rank's steps
  std::optional<int64_t> step;  // nullopt: the mean, or communication outside of all steps
  // These are disjoint and sum to `length`. `computation` and `communication` hold the time in which only
  // that runs. All are zero outside of steps.
  Nanos computation, overlap, communication, other;
  Nanos length;
  // These are disjoint and sum to all communication, hidden or not.
  Nanos transfer, wait, unsplit;
};

struct CommunicationOp {
  RankId rank = kNoRank;  // kNoRank: all ranks
  std::string_view name;
  uint64_t calls = 0;
  std::optional<int64_t> bytes;  // nullopt: the bytes of a call are unknown
  Nanos latency;
  // Sums over the calls for which they are known; nullopt: for no call.
  std::optional<Nanos> transfer, wait;
};

struct Distributed {
  std::vector<CommunicationStep>
      steps;  // by rank: the mean, each step in order, then communication outside of all steps
  std::vector<CommunicationOp> ops;  // by rank, longest first
  bool withheld =
      false;  // kTensorBoard: the ranks have different numbers of operations, so these are not compared
};

struct DistributedInput {
  const capture::Capture& capture;
  const capture::Matches& matches;
  const capture::ClockModel& clock;
  const analysis::Steps& steps;
};

enum class OpRanks : uint8_t { kTogether, kEach };

// Texts point into the capture, or are literals.
Distributed DistributedOf(const DistributedInput& input, CommunicationRule rule, OpRanks op_ranks);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_DISTRIBUTED_H_
