#include "daemon/captures/start_plan.h"

#include <algorithm>
#include <cstring>

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

// Both enums have the same numbers. A range name that is too long is cut and then never matches; the CLI
// refuses such names.
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

StartPlan::StartPlan(const v1::Start& start, const std::function<HostTime(JobTime)>& to_host)
    : trigger(start.trigger()),
      window{to_host(JobTime(start.t0_ns())), to_host(JobTime(start.t1_ns()))},
      kineto_begin(start.kineto_begin()),
      kineto_window{to_host(JobTime(start.kineto_t0_ns())), to_host(JobTime(start.kineto_t1_ns()))},
      kineto_multiple(start.kineto_multiple()) {}

bool StartPlan::IsPossible(HostTime now, Nanos longest) const {
  const auto within = [longest](Nanos t) { return t > Nanos() && t <= longest; };
  if (!within(window.length()) || window.end - now > longest) return false;
  if (kineto_begin == v1::Start::IN_WINDOW &&
      (!within(kineto_window.length()) || kineto_window.end - now > longest)) {
    return false;
  }
  const bool by_duration = triggered() && trigger.end() == v1::Trigger::AFTER_DURATION;
  return !by_duration || within(Nanos(trigger.duration_ns()));
}

Nanos StartPlan::LongestWait(HostTime now) const {
  // A trigger may open the window at the last moment, so the wait for its end is as long again.
  const Nanos after = triggered() ? std::max(window.length(), Nanos(trigger.duration_ns())) : Nanos();
  return std::max(window.end - now, Nanos()) + after;
}

Nanos StartPlan::LongestKinetoWait(HostTime now) const {
  const Nanos wait = LongestWait(now);
  return kineto_begin == v1::Start::IN_WINDOW ? std::max(wait, kineto_window.end - now) : wait;
}

ring::Start StartPlan::ForClient(uint64_t number) const {
  ring::Start message = MakeStart(number, window);
  if (triggered()) ToClient(trigger, message);
  return message;
}

ring::Start StartPlan::ForKinetoWindow(uint64_t number) const { return MakeStart(number, kineto_window); }

}  // namespace lockstep::daemon
