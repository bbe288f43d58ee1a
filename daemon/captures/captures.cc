#include "daemon/captures/captures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::daemon {

Capture* Captures::Find(UplinkId uplink, const std::string& id) {
  for (Capture& capture : captures_) {
    if (capture.uplink() == uplink && capture.id() == id) return &capture;
  }
  return nullptr;
}

Capture* Captures::CaptureOf(const ProcessId& process) {
  for (Capture& capture : captures_) {
    if (capture.Find(process) != nullptr) return &capture;
  }
  return nullptr;
}

Capture* Captures::Add(UplinkId uplink, const v1::Arm& arm) {
  size_t count = 0;
  auto oldest_ended = captures_.end();
  for (auto it = captures_.begin(); it != captures_.end(); ++it) {
    if (it->uplink() != uplink) continue;
    ++count;
    if (it->ended() && oldest_ended == captures_.end()) oldest_ended = it;
  }
  if (count >= context_.limits.most_captures) {
    if (oldest_ended == captures_.end()) return nullptr;
    captures_.erase(oldest_ended);
  }
  return &captures_.emplace_back(uplink, next_number_++, arm, context_,
                                 arm.sample() ? sample_counts_ : counts_);
}

void Captures::OnArm(UplinkId uplink, const v1::Arm& arm) {
  Capture* capture = Find(uplink, arm.capture());
  if (capture == nullptr) capture = Add(uplink, arm);
  v1::RankStates refused;
  refused.set_capture(arm.capture());
  for (int i = 0; i < std::min(arm.processes_size(), context_.limits.most_processes); ++i) {
    const ProcessId process = FromProto(arm.processes(i));
    if (capture == nullptr) {
      v1::RankState& state = *refused.add_states();
      ToProto(process, state.mutable_process());
      state.set_state(v1::RankState::FAILED);
      state.set_text(
          absl::StrCat("the daemon already runs ", context_.limits.most_captures,
                       " captures of this aggregator, which is the limit: try again when one has ended"));
      continue;
    }
    // A known process means that the Arm was sent again after the stream broke. OnUplinkBack has already sent
    // its state.
    if (!capture->Has(process)) ArmProcess(*capture, process, arm);
  }
  if (capture == nullptr) return context_.uplinks.SendStates(uplink, std::move(refused));
  capture->NoteEnd();
  changed_();
}

Capture* Captures::Take(const ProcessId& process, const Capture& capture) {
  Capture* other = CaptureOf(process);
  if (other == nullptr || capture.sample()) return other;
  if (other->sample()) {
    other->Yield(absl::StrCat("the sample gave way to capture ", capture.id()));
    return nullptr;
  }
  if (context_.uplinks.AwayFor(other->uplink()) < context_.limits.owner_away) return other;
  other->Yield(absl::StrCat("its aggregator was away, and capture ", capture.id(), " took the process"));
  return nullptr;
}

void Captures::ArmProcess(Capture& capture, const ProcessId& process, const v1::Arm& arm) {
  const bool allowed = context_.uplinks.MayCapture(capture.uplink(), process, context_.time);
  Capture* other = allowed ? Take(process, capture) : CaptureOf(process);
  CaptureMember& member = capture.Add(process);
  if (other != nullptr) {
    return member.RefuseAsCaptured(
        absl::StrCat("it is already in capture ", other->id(), ": try again when that capture has ended"));
  }
  if (!allowed) {
    return member.Refuse(v1::RankState::GONE, absl::StrCat("process ", process.pid, " no longer exists"));
  }
  member.Arm(arm);
}

void Captures::OnStart(UplinkId uplink, const v1::Start& start) {
  Capture* capture = Find(uplink, start.capture());
  if (capture == nullptr) return;
  capture->OnStart(start);
  changed_();
}

void Captures::OnStop(UplinkId uplink, const v1::Stop& stop) {
  Capture* capture = Find(uplink, stop.capture());
  if (capture == nullptr) return;
  if (stop.abort()) {
    capture->Abort();
    captures_.remove_if([capture](const Capture& c) { return &c == capture; });
  } else {
    capture->Stop(StoppedBy::kAggregator);
  }
  changed_();
}

void Captures::StopAll() {
  for (Capture& capture : captures_) capture.Stop(StoppedBy::kDaemon);
  changed_();
}

std::vector<std::string> Captures::EndOthers(UplinkId uplink, const std::set<std::string>& running) {
  std::vector<std::string> ended;
  captures_.remove_if([&](Capture& capture) {
    if (capture.uplink() != uplink || running.contains(capture.id())) return false;
    if (!capture.ended()) ended.push_back(capture.id());
    capture.Forget();
    return true;
  });
  changed_();
  return ended;
}

void Captures::OnUplinkBack(UplinkId uplink) {
  for (const Capture& capture : captures_) {
    if (capture.uplink() == uplink) capture.SendStates();
  }
}

void Captures::OnUplinkGone(UplinkId uplink) {
  for (Capture& capture : captures_) {
    if (capture.uplink() == uplink) capture.Abort();
  }
  captures_.remove_if([uplink](const Capture& capture) { return capture.uplink() == uplink; });
  changed_();
}

void Captures::OnClientState(const ProcessId& process, const ring::State& state) {
  Capture* capture = CaptureOf(process);
  if (capture == nullptr) return;
  capture->Find(process)->OnClientState(state);
  changed_();
}

void Captures::OnClientGone(const ProcessId& process, const std::string& why) {
  context_.aborting.erase(process);
  Capture* capture = CaptureOf(process);
  if (capture == nullptr) return;
  capture->Find(process)->OnClientGone(why);
  changed_();
}

bool Captures::ByKineto(const ProcessId& process) {
  Capture* capture = CaptureOf(process);
  if (capture == nullptr) return false;
  const CaptureMember& member = *capture->Find(process);
  return member.running() && member.kineto();
}

void Captures::OnDrained(const ProcessId& process, uint64_t number, uint64_t records) {
  for (Capture& capture : captures_) {
    if (capture.number() == number) capture.OnDrained(process, records);
  }
  changed_();
}

void Captures::Tick() {
  const MonoTime now = context_.clock.Monotonic();
  for (Capture& capture : captures_) capture.Tick(now);
  captures_.remove_if([now](const Capture& capture) { return capture.IsOver(now); });
  changed_();
}

std::optional<MonoTime> Captures::NextDeadline() const {
  std::optional<MonoTime> next;
  for (const Capture& capture : captures_) {
    const std::optional<MonoTime> deadline = capture.NextDeadline();
    if (deadline && (!next || *deadline < *next)) next = deadline;
  }
  return next;
}

bool Captures::Busy(UplinkId uplink) const {
  return std::any_of(captures_.begin(), captures_.end(),
                     [&](const Capture& c) { return c.uplink() == uplink && !c.ended(); });
}

size_t Captures::running() const {
  return static_cast<size_t>(
      std::count_if(captures_.begin(), captures_.end(), [](const Capture& c) { return !c.ended(); }));
}

std::vector<v1::CaptureStatus> Captures::Status() const {
  std::vector<v1::CaptureStatus> all;
  for (const Capture& capture : captures_) all.push_back(capture.Status());
  return all;
}

}  // namespace lockstep::daemon
