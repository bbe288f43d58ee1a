#include "daemon/captures/capture.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::daemon {
namespace {

using Phase = CaptureMember::Phase;

std::string Seconds(Nanos t) { return absl::StrFormat("%.3g s", t.seconds()); }

MonoTime ArmedBy(const v1::Arm& arm, const CaptureContext& context) {
  Nanos timeout(arm.timeout_ns());
  if (timeout <= Nanos()) timeout = context.limits.arm_timeout;
  return context.clock.Monotonic() + std::min(timeout, context.limits.longest_arm_timeout);
}

}  // namespace

Capture::Capture(UplinkId uplink, uint64_t number, const v1::Arm& arm, CaptureContext& context,
                 CaptureCounts& counts)
    : facts_{.id = arm.capture(), .uplink = uplink, .number = number, .plan = std::nullopt},
      context_(context),
      counts_(counts),
      sample_(arm.sample()),
      begun_(context.clock.Monotonic()),
      armed_by_(ArmedBy(arm, context)),
      deadline_(armed_by_ + context.limits.wait_for_start) {}

CaptureMember& Capture::Add(const ProcessId& process) {
  return members_.emplace_back(process, facts_, context_);
}

bool Capture::Has(const ProcessId& process) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const CaptureMember& m) { return m.process() == process; });
}

CaptureMember* Capture::Find(const ProcessId& process) {
  for (CaptureMember& member : members_) {
    if (member.process() == process && !member.ended()) return &member;
  }
  return nullptr;
}

void Capture::OnStart(const v1::Start& start) {
  // The second Start names the step at which all ranks begin. Any other repeated Start is a duplicate.
  const bool step_agreed = facts_.plan && facts_.plan->trigger.begin() == v1::Trigger::AT_COMMON_STEP &&
                           start.trigger().begin() == v1::Trigger::AT_STEP;
  if (facts_.plan && !step_agreed) return;
  facts_.plan.emplace(start, [this](JobTime t) { return context_.uplinks.ToHost(facts_.uplink, t); });
  const StartPlan& plan = *facts_.plan;
  const HostTime now = context_.clock.Realtime();
  if (!plan.IsPossible(now, context_.limits.longest_window)) {
    for (CaptureMember& member : members_) {
      if (!member.running()) continue;
      member.Fail(absl::StrFormat("the window is invalid: it is %.3g s long and ends in %.3g s",
                                  (plan.window.end - plan.window.start).seconds(),
                                  (plan.window.end - now).seconds()));
    }
    return;
  }
  const MonoTime mono = context_.clock.Monotonic();
  deadline_ = mono + plan.LongestWait(now) + context_.limits.wait_for_done;
  kineto_deadline_ = mono + plan.LongestKinetoWait(now) + context_.limits.wait_for_kineto;
  for (CaptureMember& member : members_) {
    const bool waits = step_agreed && member.phase() == Phase::kWaiting && !member.kineto();
    if (member.phase() == Phase::kArmed || waits) member.Start();
  }
}

void Capture::OnDrained(const ProcessId& process, uint64_t records) {
  if (CaptureMember* member = Find(process)) member->OnDrained(records);
  NoteEnd();
}

void Capture::Stop(StoppedBy by) {
  // The members stop first: they compare the time with the requested end.
  for (CaptureMember& member : members_) member.Stop(by);
  if (facts_.plan) {
    HostInterval& window = facts_.plan->window;
    window.end = std::max(window.start, std::min(window.end, context_.clock.Realtime()));
  }
  deadline_ = std::min(deadline_, context_.clock.Monotonic() + context_.limits.wait_for_done);
}

void Capture::Abort() {
  for (CaptureMember& member : members_) {
    if (!member.ended()) member.Abandon();
  }
  if (!counted_) ++counts_.aborted;
}

void Capture::Forget() {
  Abort();
  context_.uplinks.Discard(facts_.uplink, facts_.id);
}

void Capture::Yield(const std::string& reason) {
  std::vector<CaptureMember*> leaving;
  for (CaptureMember& member : members_) {
    if (member.ended()) continue;
    member.Abandon();
    leaving.push_back(&member);
  }
  // Abandon removed everything of the capture that waited to be sent, including the CaptureEnds.
  for (CaptureMember& member : members_) {
    if (std::find(leaving.begin(), leaving.end(), &member) == leaving.end()) {
      context_.uplinks.SendEnd(facts_.uplink, member.process(), facts_.id);
    } else {
      member.RefuseAsCaptured(reason);
    }
  }
  NoteEnd();
}

void Capture::NoteEnd() {
  const bool ended = std::all_of(members_.begin(), members_.end(),
                                 [](const CaptureMember& member) { return member.ended(); });
  if (ended) {
    if (!ended_at_) ended_at_ = context_.clock.Monotonic();
    CountEnd();
  } else {
    ended_at_.reset();
  }
}

void Capture::CountEnd() {
  if (std::exchange(counted_, true)) return;
  counts_.took.Observe(*ended_at_ - begun_);
  size_t done = 0;
  for (const CaptureMember& member : members_) {
    const v1::RankState::State state = member.state().state();
    ++(state == v1::RankState::DONE   ? counts_.processes_done
       : state == v1::RankState::GONE ? counts_.processes_gone
                                      : counts_.processes_failed);
    done += state == v1::RankState::DONE;
  }
  ++(done == 0 ? counts_.failed : done == members_.size() ? counts_.complete : counts_.partial);
}

void Capture::TimeOut(Phase last, Of of, const std::string& text) {
  for (CaptureMember& member : members_) {
    if (member.phase() > last || (of != Of::kAll && (of == Of::kKineto) != member.kineto())) continue;
    member.Fail(text);
  }
}

void Capture::Tick(MonoTime now) {
  if (!arming_over_ && now >= armed_by_) {
    arming_over_ = true;
    TimeOut(Phase::kArming, Of::kClients,
            "it did not arm in time: the process may be stopped, or stuck in a CUDA call");
    TimeOut(Phase::kArming, Of::kKineto,
            "it did not arm in time: its profiler is busy (torch.profiler, or another on-demand trace), or "
            "it no longer polls");
  }
  if (now >= kineto_deadline_) {
    kineto_deadline_ = MonoTime::Max();
    TimeOut(Phase::kCapturing, Of::kKineto,
            absl::StrCat("its profiler left no trace within ", Seconds(context_.limits.wait_for_kineto),
                         " after the window"));
  }
  if (now < deadline_) return;
  if (facts_.plan) {
    TimeOut(Phase::kCapturing, Of::kClients,
            absl::StrCat("it did not report the end within ", Seconds(context_.limits.wait_for_done),
                         " after the window"));
  } else {
    TimeOut(Phase::kArmed, Of::kAll, "the aggregator never sent the start");
  }
  deadline_ = MonoTime::Max();
}

std::optional<MonoTime> Capture::NextDeadline() const {
  if (ended_at_) return *ended_at_ + context_.limits.keep_ended;
  const MonoTime next = std::min({arming_over_ ? MonoTime::Max() : armed_by_, deadline_, kineto_deadline_});
  return next == MonoTime::Max() ? std::nullopt : std::optional(next);
}

bool Capture::IsOver(MonoTime now) const {
  return ended_at_ && now >= *ended_at_ + context_.limits.keep_ended;
}

void Capture::SendStates() const {
  if (members_.empty()) return;
  v1::RankStates states;
  states.set_capture(facts_.id);
  for (const CaptureMember& member : members_) *states.add_states() = member.state();
  context_.uplinks.SendStates(facts_.uplink, std::move(states));
}

v1::CaptureStatus Capture::Status() const {
  v1::CaptureStatus status;
  status.set_capture(facts_.id);
  status.set_phase(ended_at_ ? "ended" : facts_.plan ? "capturing" : "arming");
  if (facts_.plan) status.set_started_unix_ns(facts_.plan->window.start.ns());
  for (const CaptureMember& member : members_) {
    *status.add_states() = member.state();
    status.set_records(status.records() + member.state().records());
  }
  return status;
}

}  // namespace lockstep::daemon
