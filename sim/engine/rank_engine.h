// Runs one rank's program on its virtual clock.
//
// The engine decides every time stamp. It uses neither the wall clock nor MPI. Its owner paces it (RunUntil),
// passes collectives to the other ranks (CollectiveResolver) and observes it (RankObserver). The stamps do
// not depend on the time or the order of the owner's calls. Only one thread may use it.
#ifndef LOCKSTEP_SIM_ENGINE_RANK_ENGINE_H_
#define LOCKSTEP_SIM_ENGINE_RANK_ENGINE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "base/time.h"
#include "sim/engine/model.h"
#include "sim/engine/program.h"

namespace lockstep::sim {

// One execution of an op.
struct OpRun {
  uint32_t step = 0;
  uint32_t op = 0;
  auto operator<=>(const OpRun&) const = default;
};

// Receives events from inside RunUntil and CollectiveDone. It must not call the engine.
class RankObserver {
 public:
  virtual ~RankObserver() = default;
  // The host begins a call and launches its device work.
  virtual void OnCallStart(OpRun run, VirtualTime start) = 0;
  virtual void OnCallEnd(OpRun run, VirtualTime start, VirtualTime end) = 0;
  virtual void OnMark(OpRun run, VirtualTime at) = 0;
  virtual void OnDevice(OpRun run, VirtualTime start, VirtualTime end) = 0;
};

// Implemented by DryRun (whole world in one process) and MpiResolver.
class CollectiveResolver {
 public:
  virtual ~CollectiveResolver() = default;
  // This rank enters the collective, or `message` (a position in scenario::MessagesOf) of a kernel with
  // messages. The engine calls it for each message, and in the order of each Channel. The answer to each call
  // comes later through RankEngine::CollectiveDone. It never comes if a member is gone.
  virtual void Enter(OpRun run, uint32_t message, VirtualTime entry) = 0;
};

class RankEngine {
 public:
  // All references must outlive the engine.
  RankEngine(const Program& program, const Model& model, CollectiveResolver& resolver,
             RankObserver& observer);

  // The host may begin steps below `limit`.
  void AllowSteps(uint32_t limit);

  // Delays `step`, which must not have begun, until `until`. Later iterations of a loop keep their period
  // from there.
  void HoldStep(uint32_t step, VirtualTime until) { holds_[step] = until; }

  // Returns the time of the host's next action. Returns nothing while the host waits for a collective, or
  // after all allowed steps.
  std::optional<VirtualTime> NextHostTime() const;

  // Runs all actions of the host up to `until`, and the device work that follows from them.
  void RunUntil(VirtualTime until);

  // Answers one Enter. `latest` is the latest entry of this rank and of the ranks that it needs. A kernel
  // ends by the latest of the answers to its messages.
  void CollectiveDone(OpRun run, VirtualTime latest);

  // Returns whether all allowed steps are over, on host and device.
  bool Finished() const { return steps_.empty() && next_step_ == limit_; }

 private:
  struct Step {
    std::vector<VirtualTime> base;  // latest end of the node's known predecessors
    std::vector<VirtualTime> start;
    std::vector<VirtualTime> end;
    std::vector<uint32_t> missing;  // number of predecessors that are not known yet; then of open answers
    std::vector<bool> known;
    uint32_t unknown = 0;
  };
  struct Due {
    VirtualTime at;
    uint32_t step;
    uint32_t node;
    auto operator<=>(const Due&) const = default;
  };
  struct Parked {
    OpRun run;
    uint32_t message;
    VirtualTime entry;
  };

  Step& At(uint32_t step) { return steps_[step - (next_step_ - steps_.size())]; }
  void BeginStep();
  void Reach(uint32_t step, uint32_t node, VirtualTime at);
  void Ready(uint32_t step, uint32_t node);
  void ReadyDevice(uint32_t step, uint32_t node);
  void EnterInOrder(OpRun run, uint32_t message, VirtualTime entry);
  void Fire(const Due& due);
  void Resolve(uint32_t step, uint32_t node, VirtualTime start, VirtualTime end);
  void Drain();
  void FollowEdges(uint32_t step, uint32_t node);

  const Program& program_;
  const Model& model_;
  CollectiveResolver& resolver_;
  RankObserver& observer_;
  std::vector<uint32_t> node_of_op_;
  std::vector<uint32_t> start_node_of_call_;  // by op
  std::deque<Step> steps_;                    // in progress: [next_step_ - size, next_step_)
  Step before_;                               // the last finished step, for edges into the next one
  bool have_before_ = false;
  uint32_t next_step_ = 0;
  uint32_t limit_ = 0;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<std::pair<uint32_t, uint32_t>> resolved_;  // (step, node) whose edges must still be followed
  std::vector<uint64_t> channel_next_;                   // next position to enter
  std::map<std::pair<uint32_t, uint64_t>, Parked> parked_;
  std::map<uint32_t, VirtualTime> holds_;  // by step, for steps that have not begun
  Nanos held_;                             // delay of the iterations against their plan
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_ENGINE_RANK_ENGINE_H_
