#include "daemon/captures/capture_member.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

template <typename Message>
Message MakeMessage(ring::MessageType type) {
  Message message{};
  message.header = {ring::kHandshakeMagic, type, sizeof(Message)};
  return message;
}

}  // namespace

CaptureMember::CaptureMember(const ProcessId& process, const CaptureFacts& capture, CaptureContext& context)
    : process_(process), capture_(capture), context_(context), path_(&context.client) {
  ToProto(process, state_.mutable_process());
}

void CaptureMember::Set(v1::RankState::State state, const std::string& text) {
  state_.set_state(state);
  state_.set_text(text);
  v1::RankStates states;
  states.set_capture(capture_.id);
  *states.add_states() = state_;
  context_.uplinks.SendStates(capture_.uplink, std::move(states));
}

void CaptureMember::Refuse(v1::RankState::State state, const std::string& text) {
  phase_ = Phase::kEnded;
  Set(state, text);
  context_.uplinks.SendEnd(capture_.uplink, process_, capture_.id);
}

void CaptureMember::RefuseAsCaptured(const std::string& text) {
  state_.set_refusal(v1::RankState::CAPTURED);
  Refuse(v1::RankState::FAILED, text);
}

const char* CaptureMember::NotReached() const {
  if (context_.time == CaptureTime::kPast) {
    return "it keeps no operation log, or entered no NCCL operation yet: start it with `lockstep run --mode "
           "nccl`";
  }
  return kineto() ? "it no longer polls for PyTorch's on-demand traces"
                  : "its Lockstep client has disconnected; a PyTorch job can be captured without it: add "
                    "`--via kineto`";
}

void CaptureMember::Arm(const v1::Arm& arm) {
  const auto names = [&](const auto& keys) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const v1::ProcessKey& key) { return FromProto(key) == process_; });
  };
  if (names(arm.kineto())) path_ = &context_.kineto;
  kineto_if_held_ = names(arm.kineto_if_held());
  framework_ = arm.framework();
  if (!path_->Choose(process_, capture_.id, framework_)) {
    return Refuse(v1::RankState::FAILED, NotReached());
  }
  Set(v1::RankState::SEEN);
  arm_ = MakeMessage<ring::Arm>(ring::MessageType::kArm);
  arm_.capture = capture_.number;
  static_assert(v1::RECORDED_ACTIVITIES_USUAL == ring::kDefaultActivities);
  arm_.activities = arm.activities() == 0 ? ring::kDefaultActivities : arm.activities();
  arm_.epoch = path_->BeginDrain(process_, capture_.id, context_.uplinks.SpoolOf(capture_.uplink));
  SendArm();
}

void CaptureMember::SendArm() {
  if (!path_->Send(process_, arm_)) {
    End(v1::RankState::GONE, "it did not accept the request to arm");
  }
}

// A failed client has disabled everything (handshake.h), so client and profiler are never active together.
// Returns false if the member stays failed.
bool CaptureMember::SwitchToKineto(const ring::State& refused) {
  state_.set_refusal(v1::RankState::HELD);
  state_.set_holder(FieldText(refused.holder));
  // After the Start, T0 is too near for a profiler that must warm up first.
  if (!kineto_if_held_ || kineto() || phase_ != Phase::kArming || capture_.plan) return false;
  if (!context_.kineto.Choose(process_, capture_.id, framework_)) return false;
  path_->AbandonDrain(process_);
  path_ = &context_.kineto;
  path_->BeginDrain(process_, capture_.id, context_.uplinks.SpoolOf(capture_.uplink));
  state_.set_went_over(true);
  Set(v1::RankState::SEEN, FieldText(refused.text));
  SendArm();
  return true;
}

void CaptureMember::Start() {
  if (capture_.plan->triggered()) {
    if (kineto()) return StartKineto();
    if (!path_->KnowsTriggers(process_)) {
      return Fail(
          "its client library is older than this daemon and does not support triggers: restart the job");
    }
  }
  if (phase_ == Phase::kArmed) phase_ = Phase::kStarted;
  if (!path_->Send(process_, capture_.plan->ForClient(capture_.number))) {
    End(v1::RankState::GONE, "it did not accept the request to start");
  }
}

void CaptureMember::StartKineto() {
  const StartPlan& plan = *capture_.plan;
  const bool at_step = plan.trigger.begin() == v1::Trigger::AT_STEP;
  bool taken = false;
  switch (plan.kineto_begin) {
    case v1::Start::LATER:
      return;
    case v1::Start::IN_WINDOW: {
      window_ = plan.kineto_window;
      taken = path_->Send(process_, plan.ForKinetoWindow(capture_.number));
      break;
    }
    case v1::Start::BY_ITERATION: {
      if (plan.trigger.end() != v1::Trigger::AFTER_STEPS ||
          (!at_step && plan.trigger.begin() != v1::Trigger::AT_COMMON_STEP)) {
        return Fail(
            "PyTorch's profiler supports only times and numbers of steps: give --duration or --steps alone, "
            "or --start-on-step with --steps");
      }
      KinetoIterations iterations{.multiple = std::max<uint64_t>(plan.kineto_multiple, 1),
                                  .count = plan.trigger.steps()};
      if (at_step) iterations.first = plan.trigger.step();
      taken = path_->StartIterations(process_, iterations, plan.window.end);
      break;
    }
    default:
      return Fail(
          "PyTorch's profiler numbers steps differently from the other ranks: give --steps without "
          "--start-on-step, or --duration");
  }
  phase_ = Phase::kStarted;
  if (!taken) End(v1::RankState::GONE, "it did not accept the request to start");
}

void CaptureMember::SendStop(StopMode mode) {
  auto message = MakeMessage<ring::Stop>(ring::MessageType::kStop);
  message.capture = capture_.number;
  message.abort = mode == StopMode::kAbort ? 1 : 0;
  if (mode == StopMode::kAbort) context_.aborting.insert(process_);
  // A failure means that the client has gone, which the socket also reports.
  path_->Send(process_, message);
}

void CaptureMember::Stop(StoppedBy by) {
  const bool daemon = by == StoppedBy::kDaemon;
  if (phase_ == Phase::kArming || phase_ == Phase::kArmed) {
    Fail(daemon ? "the daemon ended before the capture began" : "the capture was stopped before it began");
  } else if (running()) {
    // The end of a triggered window is not known.
    const bool passed = !capture_.plan->triggered() && context_.clock.Realtime() >= capture_.plan->window.end;
    if (daemon && !passed) state_.set_cut("its daemon was stopped inside the window");
    // The next state of a client that waits shows whether its trigger came meanwhile: done or idle.
    SendStop(StopMode::kKeep);
  }
}

void CaptureMember::Fail(const std::string& text) {
  SendStop(StopMode::kAbort);
  End(v1::RankState::FAILED, text);
}

void CaptureMember::Abandon() {
  if (running()) SendStop(StopMode::kAbort);
  path_->AbandonDrain(process_);
  context_.uplinks.Discard(capture_.uplink, capture_.id);
  phase_ = Phase::kEnded;
}

void CaptureMember::End(v1::RankState::State state, const std::string& text) {
  phase_ = Phase::kDraining;
  Set(state, text);
  path_->EndDrain(process_, capture_.number,
                  window_.value_or(capture_.plan ? capture_.plan->window : HostInterval()));
}

void CaptureMember::OnClientState(const ring::State& state) {
  // The message is for an abandoned capture, or invalid.
  if (state.capture != capture_.number || !running()) return;
  switch (state.state) {
    case ring::ClientState::kArmed:
      if (phase_ != Phase::kArming) return;
      phase_ = Phase::kArmed;
      // Messages arrive in order, so the client has by now ended the capture that was aborted before.
      if (context_.aborting.erase(process_) > 0) path_->RestartDrain(process_);
      state_.set_lead_ns(path_->Lead(process_).ns());
      Set(v1::RankState::ARMED);
      if (capture_.plan) Start();
      return;
    case ring::ClientState::kCapturing:
      // PyTorch's profiler works long after T1. The aggregator is informed of its progress.
      if (phase_ == Phase::kCapturing && kineto())
        return Set(v1::RankState::CAPTURING, FieldText(state.text));
      if (phase_ != Phase::kStarted && phase_ != Phase::kWaiting) return;
      phase_ = Phase::kCapturing;
      state_.set_late_ns(std::max<int64_t>(state.late_ns, 0));
      Set(v1::RankState::CAPTURING);
      return;
    case ring::ClientState::kDone:
      if (phase_ != Phase::kStarted && phase_ != Phase::kWaiting && phase_ != Phase::kCapturing) return;
      state_.set_records(state.records);
      state_.set_outside_window(state.outside_window);
      if (state.t0_realtime_ns > 0 && state.t0_realtime_ns <= state.t1_realtime_ns) {
        window_ = {HostTime(state.t0_realtime_ns), HostTime(state.t1_realtime_ns)};
      }
      if (state.cut == ring::Cut::kProgramEnded) state_.set_cut("its program ended inside the window");
      if (state.cut == ring::Cut::kEndMissed || state.cut == ring::Cut::kTaken)
        state_.set_cut(FieldText(state.text));
      End(v1::RankState::DONE, FieldText(state.text));
      return;
    case ring::ClientState::kWaiting:
      if (phase_ != Phase::kStarted && phase_ != Phase::kWaiting) return;
      phase_ = Phase::kWaiting;
      state_.set_step(state.step);
      state_.set_step_ns(std::max<int64_t>(state.step_ns, 0));
      Set(v1::RankState::WAITING);
      return;
    case ring::ClientState::kFailed: {
      if (state.refusal == ring::Refusal::kHeld && SwitchToKineto(state)) return;
      const std::string why = FieldText(state.text);
      End(v1::RankState::FAILED, why.empty() ? "the client gave no reason" : why);
      return;
    }
    case ring::ClientState::kIdle:
      if (phase_ == Phase::kWaiting) {
        End(v1::RankState::FAILED, "the capture was stopped before its trigger came");
      }
      // The text says why the profiler is not armed yet.
      if (phase_ == Phase::kArming && kineto()) Set(v1::RankState::SEEN, FieldText(state.text));
      return;
  }
}

void CaptureMember::OnClientGone(const std::string& why) {
  if (!running()) return;
  static constexpr const char* kWhile[] = {"arming", "armed", "starting", "waiting", "capturing"};
  End(v1::RankState::GONE, absl::StrCat(why, " while ", kWhile[static_cast<int>(phase_)]));
}

void CaptureMember::OnDrained(uint64_t records) {
  if (phase_ != Phase::kDraining) return;
  phase_ = Phase::kEnded;
  // A client that failed or died sent no count, so the number of drained records is used.
  if (state_.state() != v1::RankState::DONE) state_.set_records(records);
}

}  // namespace lockstep::daemon
