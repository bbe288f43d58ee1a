// When a capture's ranks begin: at a time, at a step that all can still meet, or by their profilers' count of
// iterations.
#include <algorithm>

#include "aggregator/captures/capture_session.h"

namespace lockstep::ingest {
namespace {

constexpr Nanos kTriggerTimeout = Nanos::Seconds(60);  // where the request names none
// Steps between the iterations that several ranks may begin at (docs/kineto.md).
constexpr uint32_t kKinetoMultiple = 100;

}  // namespace

Nanos CaptureSession::TriggerTimeout() const {
  const int64_t asked = request_.trigger().timeout_ns();
  return asked > 0 ? Nanos(asked) : kTriggerTimeout;
}

void CaptureSession::Start() {
  const std::vector<DaemonKey> daemons = Daemons(Of::kArmed);
  Nanos p99;
  for (const DaemonKey& daemon : daemons) p99 = std::max(p99, env_.round_trip_p99(daemon.node_id));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    phase_ = Phase::kCapturing;
    if (stopping_ || daemons.empty()) return;
    kineto_begin_ = ChooseKinetoBegin();
    // A trigger is looked for at once, whoever may need longer to begin.
    const Nanos lead = triggered() ? env_.limits.least_lead : LongestLead();
    t0_ = std::max(env_.clock->Now() + std::max(lead, p99 * 4), JobTime(request_.start_at_unix_ns()));
    t1_ = t0_ + (triggered() ? TriggerTimeout() : Nanos(request_.duration_ns()));
  }
  for (const DaemonKey& daemon : daemons) SendDown(daemon, StartMessage());
}

Nanos CaptureSession::LongestLead() const {
  Nanos lead = env_.limits.least_lead;
  // Who needs longest to begin with the others decides for all.
  for (const Process& process : processes_) {
    if (process.armed)
      lead = std::max(lead, std::min(Nanos(process.state.lead_ns()), env_.limits.longest_lead));
  }
  return lead;
}

CaptureSession::Ways CaptureSession::ArmedWays() const {
  Ways ways;
  for (const Process& process : processes_) {
    if (process.armed) ++(process.kineto ? ways.kineto : ways.clients);
  }
  return ways;
}

v1::Start::KinetoBegin CaptureSession::ChooseKinetoBegin() const {
  if (ArmedWays().clients == 0) return v1::Start::BY_ITERATION;
  switch (request_.trigger().begin()) {
    case v1::Trigger::AT_COMMON_STEP:
      return v1::Start::LATER;
    case v1::Trigger::AT_STEP:
      return v1::Start::NOT_BY_NUMBER;
    default:
      return v1::Start::BY_ITERATION;
  }
}

JobInterval CaptureSession::WindowOfSteps(Nanos ahead) const {
  // Steps are not equally long.
  constexpr int64_t kSlackPart = 5;
  constexpr Nanos kSlack = Nanos::Millis(500);
  const JobTime start = env_.clock->Now() + ahead;
  JobTime end = start;
  // One step more on the clients' side: the device runs behind its host.
  const uint64_t behind = *common_step_ + request_.trigger().steps() + 1;
  for (const Process& process : processes_) {
    if (process.kineto || process.state.state() != v1::RankState::WAITING || process.state.step() >= behind)
      continue;
    end = std::max(end, process.step_told + Nanos(process.state.step_ns()) *
                                                static_cast<int64_t>(behind - process.state.step()));
  }
  return {start, end + (end - env_.clock->Now()) / kSlackPart + kSlack};
}

std::optional<uint64_t> CaptureSession::CommonStep(Nanos ahead) const {
  // Besides the one that runs: the lead-in step, and one for a step that takes less long than the last did.
  constexpr uint64_t kSpare = 3;
  std::optional<uint64_t> common;
  for (const Process& process : processes_) {
    if (process.kineto || process.state.state() != v1::RankState::WAITING || process.state.step_ns() == 0)
      continue;
    const Nanos since = env_.clock->Now() - process.step_told + ahead;
    const auto passed = static_cast<uint64_t>(std::max<int64_t>(since.ns(), 0) / process.state.step_ns());
    common = std::max(common.value_or(0), process.state.step() + passed + kSpare);
  }
  return common;
}

void CaptureSession::AgreeOnStep(const Emit& emit) {
  if (request_.trigger().begin() != v1::Trigger::AT_COMMON_STEP || t1_ == JobTime()) return;
  const MonoTime until = MonoNow() + (t1_ - env_.clock->Now());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ArmedWays().clients == 0) return;
  }
  WaitFor(emit, until, [this] {
    return stopping_ || std::all_of(processes_.begin(), processes_.end(), [](const Process& p) {
             const bool lost =
                 p.state.state() == v1::RankState::FAILED || p.state.state() == v1::RankState::GONE;
             const bool waits = p.armed && !p.kineto && !p.ended && !lost;
             return !waits || p.state.step_ns() > 0;
           });
  });
  const std::vector<DaemonKey> daemons = Daemons(Of::kArmed);
  Nanos ahead = env_.limits.least_lead;
  for (const DaemonKey& daemon : daemons) ahead = std::max(ahead, env_.round_trip_p99(daemon.node_id) * 4);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    if (ArmedWays().kineto > 0) ahead = std::max(ahead, LongestLead());
    common_step_ = CommonStep(ahead);
    if (!common_step_) return;
    if (kineto_begin_ == v1::Start::LATER) {
      kineto_begin_ = v1::Start::IN_WINDOW;
      kineto_window_ = WindowOfSteps(ahead);
    }
    // The wait for it begins anew.
    t1_ = env_.clock->Now() + TriggerTimeout();
  }
  for (const DaemonKey& daemon : daemons) SendDown(daemon, StartMessage());
}

v1::FromAggregator CaptureSession::StartMessage() const {
  v1::FromAggregator message;
  v1::Start& start = *message.mutable_start();
  start.set_capture(id_);
  start.set_t0_ns(t0_.ns());
  start.set_t1_ns(t1_.ns());
  if (triggered()) {
    *start.mutable_trigger() = request_.trigger();
    start.set_kineto_begin(kineto_begin_);
    start.set_kineto_t0_ns(kineto_window_.start.ns());
    start.set_kineto_t1_ns(kineto_window_.end.ns());
    // They count alike, and ask at different times: what comes next for one may have passed for another.
    start.set_kineto_multiple(ArmedWays().kineto > 1 ? kKinetoMultiple : 1);
  }
  if (common_step_) {
    start.mutable_trigger()->set_begin(v1::Trigger::AT_STEP);
    start.mutable_trigger()->set_step(*common_step_);
  }
  return message;
}

}  // namespace lockstep::ingest
