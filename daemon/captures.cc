#include "daemon/captures.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

template <typename Message>
Message Make(ring::MessageType type) {
  Message message{};
  message.header = {ring::kHandshakeMagic, type, sizeof(Message)};
  return message;
}

}  // namespace

Captures::Capture* Captures::Find(UplinkId uplink, const std::string& id) {
  for (Capture& capture : captures_) {
    if (capture.uplink == uplink && capture.id == id) return &capture;
  }
  return nullptr;
}

// The capture that the process is in now.
Captures::Member* Captures::FindMember(const ProcessId& process, Capture** capture) {
  for (Capture& c : captures_) {
    for (Member& member : c.members) {
      if (member.process == process && member.phase != Phase::kEnded) {
        *capture = &c;
        return &member;
      }
    }
  }
  return nullptr;
}

void Captures::Set(Capture& capture, Member& member, v1::RankState::State state, const std::string& text) {
  member.state.set_state(state);
  member.state.set_text(text);
  v1::RankStates states;
  states.set_capture(capture.id);
  *states.add_states() = member.state;
  ports_.SendStates(capture.uplink, std::move(states));
}

// Null when the aggregator has as many captures as it may.
Captures::Capture* Captures::Add(UplinkId uplink, const v1::Arm& arm) {
  size_t count = 0;
  auto oldest_ended = captures_.end();
  for (auto it = captures_.begin(); it != captures_.end(); ++it) {
    if (it->uplink != uplink) continue;
    ++count;
    if (it->ended_at && oldest_ended == captures_.end()) oldest_ended = it;
  }
  if (count >= limits_.most_captures) {
    if (oldest_ended == captures_.end()) return nullptr;
    captures_.erase(oldest_ended);
  }
  Capture& capture = captures_.emplace_back();
  capture.id = arm.capture();
  capture.uplink = uplink;
  capture.number = next_number_++;
  capture.sample = arm.sample();
  capture.begun = clock_.Monotonic();
  Nanos timeout(arm.timeout_ns());
  if (timeout <= Nanos()) timeout = limits_.arm_timeout;
  capture.armed_by = clock_.Monotonic() + std::min(timeout, limits_.longest_arm_timeout);
  capture.deadline = capture.armed_by + limits_.wait_for_start;
  return &capture;
}

void Captures::OnArm(UplinkId uplink, const v1::Arm& arm) {
  Capture* capture = Find(uplink, arm.capture());
  if (capture == nullptr) capture = Add(uplink, arm);
  v1::RankStates refused;
  refused.set_capture(arm.capture());
  for (int i = 0; i < std::min(arm.processes_size(), limits_.most_processes); ++i) {
    const ProcessId process = FromProto(arm.processes(i));
    if (capture == nullptr) {
      v1::RankState& state = *refused.add_states();
      ToProto(process, state.mutable_process());
      state.set_state(v1::RankState::FAILED);
      state.set_text(
          absl::StrCat("the daemon has ", limits_.most_captures, " captures of this aggregator already"));
      continue;
    }
    const bool known = std::any_of(capture->members.begin(), capture->members.end(),
                                   [&](const Member& m) { return m.process == process; });
    // The Arm came twice, over a stream that broke in between: OnUplinkBack has told how things are.
    if (!known) ArmProcess(*capture, process, arm);
  }
  if (capture == nullptr) return ports_.SendStates(uplink, std::move(refused));
  NoteEnd(*capture);
}

void Captures::RefuseProcess(Capture& capture, Member& member, v1::RankState::State state,
                             const std::string& text) {
  member.phase = Phase::kEnded;
  Set(capture, member, state, text);
  ports_.SendEnd(capture.uplink, member.process, capture.id);
}

void Captures::GiveWay(Capture& sample, const std::string& to) {
  std::vector<Member*> leaving;
  for (Member& member : sample.members) {
    if (member.phase == Phase::kEnded) continue;
    if (member.phase != Phase::kDraining) SendStop(sample, member, StopMode::kAbort);
    ports_.AbandonDrain(sample.uplink, member.process, sample.id);
    member.state.set_refusal(v1::RankState::CAPTURED);
    leaving.push_back(&member);
  }
  // Abandoning took away all that waited to be sent of the sample, ends included.
  for (Member& member : sample.members) {
    const bool left = std::find(leaving.begin(), leaving.end(), &member) != leaving.end();
    if (!left) ports_.SendEnd(sample.uplink, member.process, sample.id);
    if (left)
      RefuseProcess(sample, member, v1::RankState::FAILED,
                    absl::StrCat("the sample gave way to capture ", to));
  }
  NoteEnd(sample);
}

void Captures::ArmProcess(Capture& capture, const ProcessId& process, const v1::Arm& arm) {
  Capture* other = nullptr;
  bool busy = FindMember(process, &other) != nullptr;
  if (busy && other->sample && !capture.sample && ports_.MayCapture(capture.uplink, process)) {
    GiveWay(*other, capture.id);
    busy = false;
  }
  Member& member = capture.members.emplace_back();
  member.process = process;
  ToProto(process, member.state.mutable_process());
  if (busy) {
    member.state.set_refusal(v1::RankState::CAPTURED);
    return RefuseProcess(
        capture, member, v1::RankState::FAILED,
        absl::StrCat("it is in capture ", other->id, " already: try again when that has ended"));
  }
  if (!ports_.MayCapture(capture.uplink, process)) {
    return RefuseProcess(capture, member, v1::RankState::GONE,
                         absl::StrCat("process ", process.pid, " is not here any more"));
  }
  const auto names = [&](const auto& keys) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const v1::ProcessKey& key) { return FromProto(key) == process; });
  };
  member.kineto = names(arm.kineto());
  member.kineto_if_held = names(arm.kineto_if_held());
  member.framework = arm.framework();
  if (!ports_.ChoosePath(capture.uplink, process, capture.id,
                         member.kineto ? std::optional<uint32_t>(arm.framework()) : std::nullopt)) {
    return RefuseProcess(
        capture, member, v1::RankState::FAILED,
        member.kineto ? "it does not ask for PyTorch's on-demand traces any more"
                      : "Lockstep's client in it is not connected any more: --via kineto may reach it");
  }
  Set(capture, member, v1::RankState::SEEN);
  member.arm = Make<ring::Arm>(ring::MessageType::kArm);
  member.arm.capture = capture.number;
  member.arm.activities = arm.activities() == 0 ? ring::kDefaultActivities : arm.activities();
  member.arm.epoch = ports_.BeginDrain(capture.uplink, process, capture.id);
  if (!ports_.SendToClient(process, member.arm)) {
    EndMember(capture, member, v1::RankState::GONE, "it did not take the request to arm");
  }
}

// A client that has failed has nothing on (handshake.h), so the two ways never meet in the process. False: it
// stays failed.
bool Captures::GoOver(Capture& capture, Member& member, const ring::State& refused) {
  member.state.set_refusal(v1::RankState::HELD);
  member.state.set_holder(FieldText(refused.holder));
  // Once the start is set it is too near for a profiler that has yet to warm up.
  if (!member.kineto_if_held || member.kineto || member.phase != Phase::kArming || capture.started)
    return false;
  if (!ports_.GoOverToKineto(capture.uplink, member.process, capture.id, member.framework)) return false;
  member.kineto = true;
  member.state.set_went_over(true);
  Set(capture, member, v1::RankState::SEEN, FieldText(refused.text));
  if (!ports_.SendToClient(member.process, member.arm)) {
    EndMember(capture, member, v1::RankState::GONE, "it did not take the request to arm");
  }
  return true;
}

void Captures::SendStop(const Capture& capture, const Member& member, StopMode mode) {
  auto message = Make<ring::Stop>(ring::MessageType::kStop);
  message.capture = capture.number;
  message.abort = mode == StopMode::kAbort ? 1 : 0;
  if (mode == StopMode::kAbort) unsettled_.insert(member.process);
  // Failing means that it is gone, which the socket tells.
  ports_.SendToClient(member.process, message);
}

void Captures::OnStop(UplinkId uplink, const v1::Stop& stop) {
  Capture* capture = Find(uplink, stop.capture());
  if (capture == nullptr) return;
  if (stop.abort()) return Abort(*capture);
  StopCapture(*capture, "the capture was stopped before it began");
}

void Captures::StopAll() {
  for (Capture& capture : captures_) StopCapture(capture, "the daemon was ended before the capture began");
}

void Captures::StopCapture(Capture& capture, const char* why_not_begun) {
  if (capture.started) {
    capture.window.end = std::max(capture.window.start, std::min(capture.window.end, clock_.Realtime()));
  }
  capture.deadline = std::min(capture.deadline, clock_.Monotonic() + limits_.wait_for_done);
  for (Member& member : capture.members) {
    if (member.phase == Phase::kArming || member.phase == Phase::kArmed) {
      SendStop(capture, member, StopMode::kAbort);
      EndMember(capture, member, v1::RankState::FAILED, why_not_begun);
    } else if (member.phase == Phase::kWaiting) {
      // It says itself whether its trigger has come meanwhile: done or idle.
      SendStop(capture, member, StopMode::kKeep);
    } else if (member.phase == Phase::kStarted || member.phase == Phase::kCapturing) {
      SendStop(capture, member, StopMode::kKeep);
    }
  }
}

void Captures::Abort(Capture& capture) {
  for (Member& member : capture.members) {
    if (member.phase == Phase::kEnded) continue;
    if (member.phase != Phase::kDraining) SendStop(capture, member, StopMode::kAbort);
    ports_.AbandonDrain(capture.uplink, member.process, capture.id);
    member.phase = Phase::kEnded;
  }
  if (!capture.counted) ++CountsOf(capture).aborted;
  captures_.remove_if([&](const Capture& c) { return &c == &capture; });
}

void Captures::OnUplinkBack(UplinkId uplink) {
  for (const Capture& capture : captures_) {
    if (capture.uplink != uplink || capture.members.empty()) continue;
    v1::RankStates states;
    states.set_capture(capture.id);
    for (const Member& member : capture.members) *states.add_states() = member.state;
    ports_.SendStates(uplink, std::move(states));
  }
}

void Captures::OnUplinkGone(UplinkId uplink) {
  std::vector<Capture*> gone;
  for (Capture& capture : captures_) {
    if (capture.uplink == uplink) gone.push_back(&capture);
  }
  for (Capture* capture : gone) Abort(*capture);
}

void Captures::OnClientState(const ProcessId& process, const ring::State& state) {
  Capture* capture = nullptr;
  Member* member = FindMember(process, &capture);
  // An answer to a capture that was given up, or nonsense.
  if (member == nullptr || state.capture != capture->number || member->phase == Phase::kDraining) return;
  switch (state.state) {
    case ring::ClientState::kArmed:
      if (member->phase != Phase::kArming) return;
      member->phase = Phase::kArmed;
      // Its messages are in order: by now it has ended what it was told to abort before.
      if (unsettled_.erase(process) > 0) ports_.RestartDrain(process);
      member->state.set_lead_ns(ports_.Lead(process).ns());
      Set(*capture, *member, v1::RankState::ARMED);
      if (capture->started) SendStart(*capture, *member);
      return;
    case ring::ClientState::kCapturing:
      // PyTorch's profiler works long after T1; the aggregator hears that it does.
      if (member->phase == Phase::kCapturing && member->kineto) {
        return Set(*capture, *member, v1::RankState::CAPTURING, FieldText(state.text));
      }
      if (member->phase != Phase::kStarted && member->phase != Phase::kWaiting) return;
      member->phase = Phase::kCapturing;
      member->state.set_late_ns(std::max<int64_t>(state.late_ns, 0));
      Set(*capture, *member, v1::RankState::CAPTURING);
      return;
    case ring::ClientState::kDone:
      if (member->phase != Phase::kStarted && member->phase != Phase::kWaiting &&
          member->phase != Phase::kCapturing)
        return;
      member->state.set_records(state.records);
      member->state.set_outside_window(state.outside_window);
      if (state.t0_realtime_ns > 0 && state.t0_realtime_ns <= state.t1_realtime_ns) {
        member->window = {HostTime(state.t0_realtime_ns), HostTime(state.t1_realtime_ns)};
      }
      EndMember(*capture, *member, v1::RankState::DONE, FieldText(state.text));
      return;
    case ring::ClientState::kWaiting:
      if (member->phase != Phase::kStarted && member->phase != Phase::kWaiting) return;
      member->phase = Phase::kWaiting;
      member->state.set_step(state.step);
      member->state.set_step_ns(std::max<int64_t>(state.step_ns, 0));
      Set(*capture, *member, v1::RankState::WAITING);
      return;
    case ring::ClientState::kFailed: {
      if (state.refusal == ring::Refusal::kHeld && GoOver(*capture, *member, state)) return;
      const std::string why = FieldText(state.text);
      EndMember(*capture, *member, v1::RankState::FAILED, why.empty() ? "the client gave no reason" : why);
      return;
    }
    case ring::ClientState::kIdle:
      if (member->phase == Phase::kWaiting) {
        EndMember(*capture, *member, v1::RankState::FAILED,
                  "the capture was stopped before its trigger came");
      }
      // What keeps it from being armed.
      if (member->phase == Phase::kArming && member->kineto)
        Set(*capture, *member, v1::RankState::SEEN, FieldText(state.text));
      return;
  }
}

void Captures::OnClientGone(const ProcessId& process, const std::string& why) {
  unsettled_.erase(process);
  Capture* capture = nullptr;
  Member* member = FindMember(process, &capture);
  if (member == nullptr || member->phase == Phase::kDraining) return;
  static constexpr const char* kWhile[] = {"arming", "armed", "starting", "waiting", "capturing"};
  EndMember(*capture, *member, v1::RankState::GONE,
            absl::StrCat(why, " while ", kWhile[static_cast<int>(member->phase)]));
}

// What is in the rings goes into the spool, the CaptureEnd after it.
void Captures::EndMember(Capture& capture, Member& member, v1::RankState::State state,
                         const std::string& text) {
  member.phase = Phase::kDraining;
  Set(capture, member, state, text);
  ports_.EndDrain(member.process, capture.number, member.window.value_or(capture.window));
}

void Captures::OnDrained(const ProcessId& process, uint64_t number, uint64_t records) {
  for (Capture& capture : captures_) {
    if (capture.number != number) continue;
    for (Member& member : capture.members) {
      if (member.process != process || member.phase != Phase::kDraining) continue;
      member.phase = Phase::kEnded;
      // A client that failed or died did not count; what was drained is what there is.
      if (member.state.state() != v1::RankState::DONE) member.state.set_records(records);
    }
    NoteEnd(capture);
    return;
  }
}

bool Captures::Busy(UplinkId uplink) const {
  return std::any_of(captures_.begin(), captures_.end(),
                     [&](const Capture& c) { return c.uplink == uplink && !c.ended_at; });
}

bool Captures::Busy() const {
  return std::any_of(captures_.begin(), captures_.end(),
                     [](const Capture& c) { return !c.ended_at.has_value(); });
}

size_t Captures::running() const {
  return static_cast<size_t>(
      std::count_if(captures_.begin(), captures_.end(), [](const Capture& c) { return !c.ended_at; }));
}

std::vector<v1::CaptureStatus> Captures::Status() const {
  std::vector<v1::CaptureStatus> all;
  for (const Capture& capture : captures_) {
    v1::CaptureStatus& status = all.emplace_back();
    status.set_capture(capture.id);
    status.set_phase(capture.ended_at ? "ended" : capture.started ? "capturing" : "arming");
    status.set_started_unix_ns(capture.window.start.ns());
    for (const Member& member : capture.members) {
      *status.add_states() = member.state;
      status.set_records(status.records() + member.state.records());
    }
  }
  return all;
}

}  // namespace lockstep::daemon
