// MPI for ranks that must not burn a core while they wait: everything nonblocking, with short sleeps.
#ifndef LOCKSTEP_SIM_RANK_MPI_WORLD_H_
#define LOCKSTEP_SIM_RANK_MPI_WORLD_H_

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "base/time.h"
#include "scenario/scenario.h"
#include "sim/engine/rank_engine.h"

namespace lockstep::sim {

// Initialised on construction, finalised on destruction. One per process, one thread.
class MpiWorld {
 public:
  MpiWorld(int* argc, char*** argv);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }

  // From rank 0 to all.
  void Broadcast(void* data, size_t bytes) const;
  void Barrier() const;
  // Did something fail on any rank? Then the lowest rank it failed on (the others leave the talking to it),
  // else size().
  uint32_t FirstFailed(bool failed) const;
  // Leave without MPI_Finalize, which would wait for ranks that no longer answer.
  void Abandon() { abandoned_ = true; }

 private:
  void Wait(MPI_Request request) const;
  uint32_t rank_ = 0;
  uint32_t size_ = 1;
  bool abandoned_ = false;
};

// Ranks agree on the last step: each says at the beginning of a step whether it wants to end, and the step
// after the next begins only when all have said no. That step begins nowhere before the latest time that one
// of them asked for.
class StepVote {
 public:
  struct Wish {
    bool stop = false;
    VirtualTime hold_until;  // 0: does not mind
  };
  struct Hold {
    uint32_t step = 0;
    VirtualTime until;
  };
  StepVote();
  ~StepVote();
  // At the beginning of each step, in order.
  void Cast(const Wish& mine);
  // Steps below this may begin.
  uint32_t Limit();
  // Those of the steps that Limit has let begin that are to wait, each told once.
  std::vector<Hold> TakeHolds() { return std::exchange(holds_, {}); }
  bool stopping() const { return stopped_; }
  bool waiting() const { return !open_.empty(); }

 private:
  // What is asked for: to stop, and the time in virtual nanoseconds. The greatest counts.
  using Votes = std::array<int64_t, 2>;
  struct Ballot {
    MPI_Request request;
    Votes mine;
    Votes all;
  };
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::deque<Ballot> open_;
  std::vector<Hold> holds_;
  uint32_t limit_ = 2;
  bool stopped_ = false;
};

// Each collective as a real MPI operation that carries entry times.
class MpiResolver final : public CollectiveResolver {
 public:
  // Collective over the world: makes a communicator per group.
  MpiResolver(const Program& program);
  ~MpiResolver() override;
  void Enter(OpRun run, VirtualTime entry) override;
  // Asks MPI what has completed and tells the engine. True when something had.
  bool Progress(RankEngine& engine);
  bool waiting() const { return !open_.empty(); }

 private:
  struct Operation {
    OpRun run;
    MPI_Request request;
    int64_t mine;
    int64_t theirs;
    bool answers;  // its completion is what the engine waits for
  };
  struct Answer {
    OpRun run;
    VirtualTime latest;
  };
  Operation& Open(OpRun run, VirtualTime entry, bool answers);
  void EnterGroup(const scenario::Op& op, OpRun run, VirtualTime entry);
  void EnterPair(const scenario::Op& op, OpRun run, VirtualTime entry);

  const Program& program_;
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::vector<MPI_Comm> groups_;
  std::deque<Operation> open_;  // MPI holds addresses into it: elements never move
  std::deque<Answer> answers_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_MPI_WORLD_H_
