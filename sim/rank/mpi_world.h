// MPI for ranks that must not occupy a core while they wait. It uses only nonblocking calls and short sleeps.
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

// Initialises MPI on construction and finalises it on destruction. A process has one, on one thread.
class MpiWorld {
 public:
  MpiWorld(int* argc, char*** argv);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  uint32_t rank() const { return rank_; }
  uint32_t size() const { return size_; }

  // Sends from rank 0 to all ranks.
  void Broadcast(void* data, size_t bytes) const;
  void Barrier() const;
  // Returns the lowest rank on which `failed` is true, else size(). Only that rank reports the error.
  uint32_t FirstFailed(bool failed) const;
  // Skips MPI_Finalize, which would wait for ranks that no longer answer.
  void Abandon() { abandoned_ = true; }

 private:
  void Wait(MPI_Request request) const;
  uint32_t rank_ = 0;
  uint32_t size_ = 1;
  bool abandoned_ = false;
};

// A vote of all ranks on the last step. At the start of each step, every rank votes whether to stop. The step
// after the next begins only if no rank wants to stop. It begins no earlier than the latest `hold_until` of
// the ranks.
class StepVote {
 public:
  struct Vote {
    bool stop = false;
    VirtualTime hold_until;  // 0 means no delay
  };
  struct Hold {
    uint32_t step = 0;
    VirtualTime until;
  };
  StepVote();
  ~StepVote();
  // Called at the start of each step, in order.
  void Cast(const Vote& mine);
  // Returns the first step that may not begin yet.
  uint32_t Limit();
  // Returns the steps allowed by Limit that must wait. Each is returned once.
  std::vector<Hold> TakeHolds() { return std::exchange(holds_, {}); }
  bool stopping() const { return stopped_; }
  bool waiting() const { return !open_.empty(); }

 private:
  // The two requests: to stop, and the time in virtual nanoseconds. The maximum over the ranks counts.
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

// Runs each collective as a real MPI operation that carries entry times.
class MpiResolver final : public CollectiveResolver {
 public:
  // All ranks must construct it, because it creates a communicator per group.
  explicit MpiResolver(const Program& program);
  ~MpiResolver() override;
  void Enter(OpRun run, uint32_t message, VirtualTime entry) override;
  // Passes completed operations from MPI to the engine. Returns whether one had completed.
  bool Progress(RankEngine& engine);
  bool waiting() const { return !open_.empty(); }

 private:
  struct Operation {
    OpRun run;
    MPI_Request request;
    int64_t mine;
    int64_t theirs;
    bool answers;  // whether the engine waits for its completion
  };
  struct Answer {
    OpRun run;
    VirtualTime latest;
  };
  Operation& Open(OpRun run, VirtualTime entry, bool answers);
  void EnterGroup(const scenario::Op& op, OpRun run, VirtualTime entry);
  void EnterPair(uint32_t group, const scenario::Message& message, OpRun run, VirtualTime entry);

  const Program& program_;
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::vector<MPI_Comm> groups_;
  std::deque<Operation> open_;  // MPI holds pointers to its elements, which therefore never move
  std::deque<Answer> answers_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_MPI_WORLD_H_
