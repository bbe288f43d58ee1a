// No capture lasts for ever: what each phase waits for, until when, and what becomes of who does not come.
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "daemon/captures.h"

namespace lockstep::daemon {
namespace {

std::string Seconds(Nanos t) { return absl::StrFormat("%.3g s", t.seconds()); }

}  // namespace

void Captures::NoteEnd(Capture& capture) {
  const bool ended = std::all_of(capture.members.begin(), capture.members.end(),
                                 [](const Member& m) { return m.phase == Phase::kEnded; });
  if (ended) {
    if (!capture.ended_at) capture.ended_at = clock_.Monotonic();
    CountEnd(capture);
  } else {
    capture.ended_at.reset();
  }
}

void Captures::CountEnd(Capture& capture) {
  if (std::exchange(capture.counted, true)) return;
  CaptureCounts& counts = CountsOf(capture);
  counts.took.Observe(*capture.ended_at - capture.begun);
  size_t done = 0;
  for (const Member& member : capture.members) {
    const v1::RankState::State state = member.state.state();
    ++(state == v1::RankState::DONE   ? counts.processes_done
       : state == v1::RankState::GONE ? counts.processes_gone
                                      : counts.processes_failed);
    done += state == v1::RankState::DONE;
  }
  ++(done == 0 ? counts.failed : done == capture.members.size() ? counts.complete : counts.partial);
}

void Captures::TimeOut(Capture& capture, std::initializer_list<Phase> phases, Of of,
                       const std::string& text) {
  for (Member& member : capture.members) {
    if (std::find(phases.begin(), phases.end(), member.phase) == phases.end()) continue;
    if (of != Of::kAll && (of == Of::kKineto) != member.kineto) continue;
    SendStop(capture, member, StopMode::kAbort);
    EndMember(capture, member, v1::RankState::FAILED, text);
  }
}

void Captures::TickCapture(Capture& capture, MonoTime now) {
  if (!capture.arming_over && now >= capture.armed_by) {
    capture.arming_over = true;
    TimeOut(capture, {Phase::kArming}, Of::kClients,
            "it did not arm in time: the process may be stopped, or stuck in a CUDA call");
    TimeOut(capture, {Phase::kArming}, Of::kKineto,
            "it did not arm in time: its profiler is busy (torch.profiler, or another on-demand trace), or "
            "it has stopped asking");
  }
  if (now >= capture.kineto_deadline) {
    capture.kineto_deadline = MonoTime::Max();
    TimeOut(capture, {Phase::kArming, Phase::kArmed, Phase::kStarted, Phase::kWaiting, Phase::kCapturing},
            Of::kKineto,
            absl::StrCat("its profiler left no trace within ", Seconds(limits_.wait_for_kineto),
                         " after the window"));
  }
  if (now < capture.deadline) return;
  if (capture.started) {
    TimeOut(capture, {Phase::kArming, Phase::kArmed, Phase::kStarted, Phase::kWaiting, Phase::kCapturing},
            Of::kClients,
            absl::StrCat("it did not report the end within ", Seconds(limits_.wait_for_done),
                         " after the window"));
  } else {
    TimeOut(capture, {Phase::kArming, Phase::kArmed}, Of::kAll, "the aggregator never sent the start");
  }
  capture.deadline = MonoTime::Max();
}

void Captures::Tick() {
  const MonoTime now = clock_.Monotonic();
  for (Capture& capture : captures_) TickCapture(capture, now);
  captures_.remove_if(
      [&](const Capture& c) { return c.ended_at && now >= *c.ended_at + limits_.keep_ended; });
}

std::optional<MonoTime> Captures::NextDeadline() const {
  std::optional<MonoTime> next;
  const auto consider = [&](MonoTime t) {
    if (!next || t < *next) next = t;
  };
  for (const Capture& capture : captures_) {
    if (capture.ended_at) {
      consider(*capture.ended_at + limits_.keep_ended);
      continue;
    }
    if (!capture.arming_over) consider(capture.armed_by);
    if (capture.deadline != MonoTime::Max()) consider(capture.deadline);
    if (capture.kineto_deadline != MonoTime::Max()) consider(capture.kineto_deadline);
  }
  return next;
}

}  // namespace lockstep::daemon
