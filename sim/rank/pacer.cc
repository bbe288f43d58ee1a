#include "sim/rank/pacer.h"

#include <time.h>

#include <algorithm>
#include <cstdio>

namespace lockstep::sim {
namespace {

constexpr Nanos kAhead = Nanos::Millis(1);
constexpr Nanos kBehind = Nanos::Millis(50);
constexpr Nanos kWarnEvery = Nanos::Seconds(5);
// mpiexec kills a process that has not ended about one second after the signal.
constexpr Nanos kGrace = Nanos::Millis(700);
// Length of a sleep while MPI has an open operation. It grows from short to long, so that eight waiting ranks
// leave two cores free.
constexpr int64_t kShortestNapNs = 50'000, kLongestNapNs = 500'000;
constexpr int64_t kIdleNapNs = 20'000'000;
constexpr uint32_t kNoLimit = 0xFFFFFFFF;

}  // namespace

Pacer::Pacer(uint32_t rank, RankEngine& engine, MpiResolver& resolver, StepVote& vote,
             const RankRecorder& recorder, const SimCore& cupti, const StampClock& clock, Options options)
    : rank_(rank),
      engine_(engine),
      resolver_(resolver),
      vote_(vote),
      recorder_(recorder),
      cupti_(cupti),
      clock_(clock),
      options_(std::move(options)) {}

PacerEnd Pacer::Run() {
  const uint32_t last = options_.steps.value_or(kNoLimit);
  VirtualTime finished_at;
  while (true) {
    bool moved = resolver_.Progress(engine_);
    const uint32_t limit = std::min(vote_.Limit(), last);
    HoldSteps();
    engine_.AllowSteps(limit);
    const VirtualTime now = Now();
    WarnWhenBehind(now);
    engine_.RunUntil(now + kAhead);
    CastVotes();
    cupti_.pump(MachineMonotonic().ns());
    const bool over = engine_.Finished() && (limit == last || vote_.stopping());
    if (over && finished_at == VirtualTime()) finished_at = recorder_.latest_end();
    if (over && Now() >= finished_at && votes_ == recorder_.steps_begun()) {
      cupti_.pump(MachineMonotonic().ns());
      return PacerEnd::kFinished;
    }
    if (options_.stop_asked() && !stop_asked_at_) stop_asked_at_ = MachineMonotonic();
    if (stop_asked_at_ && MachineMonotonic() - *stop_asked_at_ > kGrace) return PacerEnd::kGaveUp;
    Sleep(moved);
  }
}

void Pacer::CastVotes() {
  for (; votes_ < recorder_.steps_begun(); ++votes_) {
    StepVote::Vote vote{.stop = options_.stop_asked()};
    const VirtualTime now = Now();
    if (options_.hold_when_late && now - recorder_.history().step_starts[votes_] > *options_.hold_when_late)
      vote.hold_until = now;
    vote_.Cast(vote);
  }
}

void Pacer::HoldSteps() {
  for (const StepVote::Hold& hold : vote_.TakeHolds()) {
    engine_.HoldStep(hold.step, hold.until);
    const MonoTime wall = MachineMonotonic();
    if (rank_ != 0 || (held_at_ && wall - *held_at_ < kWarnEvery)) continue;
    held_at_ = wall;
    fprintf(stderr,
            "lockstep-sim-rank: the machine is too slow for these ranks, so step %u is delayed; "
            "--time-scale 2 doubles the time\n",
            hold.step);
  }
}

void Pacer::WarnWhenBehind(VirtualTime now) {
  const std::optional<VirtualTime> next = engine_.NextHostTime();
  if (!next || now - *next <= kBehind) return;
  const MonoTime wall = MachineMonotonic();
  if (warned_at_ && wall - *warned_at_ < kWarnEvery) return;
  warned_at_ = wall;
  fprintf(stderr,
          "lockstep-sim-rank %u: %.0f ms behind the wall clock; stamps stay correct, but records are late; "
          "--time-scale 2 doubles the time\n",
          rank_, (now - *next).millis());
}

void Pacer::Sleep(bool moved) {
  int64_t ns = kIdleNapNs;
  if (const std::optional<VirtualTime> next = engine_.NextHostTime())
    ns = std::min(ns, (*next - kAhead - Now()).ns());
  if (resolver_.waiting() || vote_.waiting()) {
    nap_ns_ = moved ? kShortestNapNs : std::clamp(nap_ns_ * 3 / 2, kShortestNapNs, kLongestNapNs);
    ns = std::min(ns, nap_ns_);
  }
  if (ns <= 0) return;
  const timespec t{0, ns};
  nanosleep(&t, nullptr);
}

}  // namespace lockstep::sim
