// How the members of a capture are started: by a time, by their client's trigger, or by their profiler's
// count of iterations.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "daemon/captures.h"

namespace lockstep::daemon {
namespace {

ring::Start MakeStart(uint64_t capture, const HostInterval& window) {
  ring::Start message{};
  message.header = {ring::kHandshakeMagic, ring::MessageType::kStart, sizeof(message)};
  message.capture = capture;
  message.t0_realtime_ns = window.start.ns();
  message.t1_realtime_ns = window.end.ns();
  return message;
}

// The enums of both have the same numbers. A longer range than fits is cut, and then found nowhere: the CLI
// refuses it.
void ToClient(const v1::Trigger& trigger, ring::Start& start) {
  start.begin = static_cast<ring::Begin>(trigger.begin());
  start.end = static_cast<ring::End>(trigger.end());
  start.step = trigger.step();
  start.steps = trigger.steps();
  start.duration_ns = trigger.duration_ns();
  std::memcpy(start.range, trigger.range().data(), std::min(trigger.range().size(), sizeof(start.range)));
}
static_assert(static_cast<int>(ring::Begin::kAtStep) == v1::Trigger::AT_STEP &&
              static_cast<int>(ring::Begin::kAtRange) == v1::Trigger::AT_RANGE &&
              static_cast<int>(ring::Begin::kAtProfilerStart) == v1::Trigger::AT_PROFILER_START &&
              static_cast<int>(ring::Begin::kReportStep) == v1::Trigger::AT_COMMON_STEP);
static_assert(static_cast<int>(ring::End::kAfterDuration) == v1::Trigger::AFTER_DURATION &&
              static_cast<int>(ring::End::kAfterSteps) == v1::Trigger::AFTER_STEPS &&
              static_cast<int>(ring::End::kAtRangeEnd) == v1::Trigger::AT_RANGE_END &&
              static_cast<int>(ring::End::kAtProfilerStop) == v1::Trigger::AT_PROFILER_STOP);

}  // namespace

void Captures::OnStart(UplinkId uplink, const v1::Start& start) {
  Capture* capture = Find(uplink, start.capture());
  // The second of two Starts names the step that all ranks begin at; any other came twice.
  const bool step_agreed = capture != nullptr && capture->trigger.begin() == v1::Trigger::AT_COMMON_STEP &&
                           start.trigger().begin() == v1::Trigger::AT_STEP;
  if (capture == nullptr || (capture->started && !step_agreed)) return;
  capture->started = true;
  capture->trigger = start.trigger();
  capture->kineto_begin = start.kineto_begin();
  capture->kineto_multiple = start.kineto_multiple();
  capture->kineto_window = {ports_.ToHost(uplink, JobTime(start.kineto_t0_ns())),
                            ports_.ToHost(uplink, JobTime(start.kineto_t1_ns()))};
  capture->window = {ports_.ToHost(uplink, JobTime(start.t0_ns())),
                     ports_.ToHost(uplink, JobTime(start.t1_ns()))};
  const Nanos length = capture->window.end - capture->window.start;
  const Nanos ahead = capture->window.end - clock_.Realtime();
  if (!Possible(*capture)) {
    for (Member& member : capture->members) {
      if (member.phase == Phase::kEnded || member.phase == Phase::kDraining) continue;
      SendStop(*capture, member, StopMode::kAbort);
      EndMember(*capture, member, v1::RankState::FAILED,
                absl::StrFormat("the window is impossible: %.3g s long, ending in %.3g s", length.seconds(),
                                ahead.seconds()));
    }
    return;
  }
  // A trigger's begin may come at the last moment, and its end is waited for as long again.
  const Nanos after = capture->trigger.begin() == v1::Trigger::AT_T0
                          ? Nanos()
                          : std::max(length, Nanos(capture->trigger.duration_ns()));
  const MonoTime end = clock_.Monotonic() + std::max(ahead, Nanos()) + after;
  capture->deadline = end + limits_.wait_for_done;
  const MonoTime kineto_end = clock_.Monotonic() + (capture->kineto_window.end - clock_.Realtime());
  capture->kineto_deadline =
      (capture->kineto_begin == v1::Start::IN_WINDOW ? std::max(end, kineto_end) : end) +
      limits_.wait_for_kineto;
  for (Member& member : capture->members) {
    const bool waits = step_agreed && member.phase == Phase::kWaiting && !member.kineto;
    if (member.phase == Phase::kArmed || waits) SendStart(*capture, member);
  }
}

bool Captures::Possible(const Capture& capture) const {
  const auto within = [this](Nanos t) { return t > Nanos() && t <= limits_.longest_window; };
  const Nanos length = capture.window.end - capture.window.start;
  if (!within(length) || capture.window.end - clock_.Realtime() > limits_.longest_window) return false;
  if (capture.kineto_begin == v1::Start::IN_WINDOW &&
      (!within(capture.kineto_window.length()) ||
       capture.kineto_window.end - clock_.Realtime() > limits_.longest_window)) {
    return false;
  }
  const bool by_duration =
      capture.trigger.begin() != v1::Trigger::AT_T0 && capture.trigger.end() == v1::Trigger::AFTER_DURATION;
  return !by_duration || within(Nanos(capture.trigger.duration_ns()));
}

void Captures::SendStart(Capture& capture, Member& member) {
  ring::Start message = MakeStart(capture.number, capture.window);
  if (capture.trigger.begin() != v1::Trigger::AT_T0) {
    if (member.kineto) return StartKineto(capture, member);
    if (!ports_.KnowsTriggers(member.process)) {
      return RefuseStart(capture, member,
                         "its client library is older than this daemon and knows no other begin than a time: "
                         "restart the job");
    }
    ToClient(capture.trigger, message);
  }
  if (member.phase == Phase::kArmed) member.phase = Phase::kStarted;
  if (!ports_.SendToClient(member.process, message)) {
    EndMember(capture, member, v1::RankState::GONE, "it did not take the request to start");
  }
}

void Captures::RefuseStart(Capture& capture, Member& member, const char* why) {
  SendStop(capture, member, StopMode::kAbort);
  EndMember(capture, member, v1::RankState::FAILED, why);
}

void Captures::StartKineto(Capture& capture, Member& member) {
  const v1::Trigger& trigger = capture.trigger;
  const bool at_step = trigger.begin() == v1::Trigger::AT_STEP;
  bool taken = false;
  switch (capture.kineto_begin) {
    case v1::Start::LATER:
      return;
    case v1::Start::IN_WINDOW: {
      member.window = capture.kineto_window;
      taken = ports_.SendToClient(member.process, MakeStart(capture.number, capture.kineto_window));
      break;
    }
    case v1::Start::BY_ITERATION: {
      if (trigger.end() != v1::Trigger::AFTER_STEPS ||
          (!at_step && trigger.begin() != v1::Trigger::AT_COMMON_STEP)) {
        return RefuseStart(capture, member,
                           "PyTorch's profiler begins at a time, or counts steps and ends by them: give "
                           "--duration or --steps alone, or "
                           "--start-on-step with --steps");
      }
      KinetoIterations iterations{.multiple = std::max<uint64_t>(capture.kineto_multiple, 1),
                                  .count = trigger.steps()};
      if (at_step) iterations.first = trigger.step();
      taken = ports_.StartIterations(member.process, iterations, capture.window.end);
      break;
    }
    default:
      return RefuseStart(capture, member,
                         "PyTorch's profiler counts steps of its own, and the other ranks' carry numbers: "
                         "give --steps without "
                         "--start-on-step, or --duration");
  }
  member.phase = Phase::kStarted;
  if (!taken) EndMember(capture, member, v1::RankState::GONE, "it did not take the request to start");
}

}  // namespace lockstep::daemon
