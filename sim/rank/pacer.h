// Paces the engine with the wall clock.
#ifndef LOCKSTEP_SIM_RANK_PACER_H_
#define LOCKSTEP_SIM_RANK_PACER_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "sim/cupti/core.h"
#include "sim/engine/rank_engine.h"
#include "sim/rank/mpi_world.h"
#include "sim/rank/process_clock.h"
#include "sim/rank/rank_recorder.h"

namespace lockstep::sim {

enum class PacerEnd : uint8_t { kFinished, kGaveUp };

// Only one thread may use it. All references must outlive it.
class Pacer {
 public:
  struct Options {
    std::optional<uint32_t> steps;  // without a value, runs until asked to stop
    // If one rank is later than this, all ranks wait at their next step but one until the job is in time
    // again. Without a value, no rank waits.
    std::optional<Nanos> hold_when_late;
    std::function<bool()> stop_asked;
  };
  Pacer(uint32_t rank, RankEngine& engine, MpiResolver& resolver, StepVote& vote,
        const RankRecorder& recorder, const SimCore& cupti, const StampClock& clock, Options options);

  // Returns after the last step is over and every record is delivered. After a request to stop, it returns
  // kGaveUp if other ranks no longer answer.
  PacerEnd Run();

 private:
  void CastVotes();
  void HoldSteps();
  void WarnWhenBehind(VirtualTime now);
  void Sleep(bool moved);
  VirtualTime Now() const { return clock_.FromWall(MachineMonotonic()); }

  const uint32_t rank_;
  RankEngine& engine_;
  MpiResolver& resolver_;
  StepVote& vote_;
  const RankRecorder& recorder_;
  const SimCore& cupti_;
  const StampClock& clock_;
  const Options options_;
  uint32_t votes_ = 0;
  int64_t nap_ns_ = 0;
  std::optional<MonoTime> stop_asked_at_;
  std::optional<MonoTime> warned_at_;
  std::optional<MonoTime> held_at_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_PACER_H_
