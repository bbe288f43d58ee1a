// CaptureMember runs one process through a capture.
//
//   Arm ─▶ arming ─(client: armed)─▶ armed ─(Start)─▶ started ─(client: capturing)─▶ capturing
//                                                                   └─(client: done)─▶ draining ─(rings
//                                                                   empty)─▶ ended
//
// If another tool holds CUPTI, the client cannot be armed. Before the start, and if the Arm permits it,
// PyTorch's profiler then takes over the process. The member continues as if the profiler had been chosen at
// first.
//
// A process that fails, dies or does not answer in time goes to draining with the reason; its records are
// kept. The member sends each change of its state to the aggregator. The main thread.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CAPTURE_MEMBER_H_
#define LOCKSTEP_DAEMON_CAPTURES_CAPTURE_MEMBER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "daemon/captures/capture_context.h"
#include "daemon/node/process.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {

// The aggregator stops a capture for the user. The daemon stops it because it ends.
enum class StoppedBy : uint8_t { kAggregator, kDaemon };

class CaptureMember {
 public:
  // kWaiting: the member is started, and its trigger has not come.
  enum class Phase : uint8_t { kArming, kArmed, kStarted, kWaiting, kCapturing, kDraining, kEnded };

  // Both references outlive this. The caller then calls Arm or one of the Refuse functions.
  CaptureMember(const ProcessId& process, const CaptureFacts& capture, CaptureContext& context);

  // Arms the process in the way that `arm` names for it.
  void Arm(const v1::Arm& arm);
  // Ends the member without data, and sends its CaptureEnd.
  void Refuse(v1::RankState::State state, const std::string& text);
  // Like Refuse, because the process belongs to another capture.
  void RefuseAsCaptured(const std::string& text);
  // Starts the process by the capture's plan.
  void Start();
  // Stops the process, which keeps its data. A process that has not started fails. If the daemon is the one
  // that stops, a process that still records has not recorded the whole window.
  void Stop(StoppedBy by);
  // Stops the process and ends the member with this failure. Its data is kept.
  void Fail(const std::string& text);
  // Ends the member and discards its data. No CaptureEnd is sent.
  void Abandon();

  // Events of the process and of its drain. Those that do not fit the phase are ignored.
  void OnClientState(const ring::State& state);
  void OnClientGone(const std::string& why);
  void OnDrained(uint64_t records);

  const ProcessId& process() const { return process_; }
  Phase phase() const { return phase_; }
  bool ended() const { return phase_ == Phase::kEnded; }
  // Returns true before the drain.
  bool running() const { return phase_ < Phase::kDraining; }
  // Returns true if PyTorch's profiler captures the process.
  bool kineto() const { return context_.time == CaptureTime::kPresent && path_ == &context_.kineto; }
  const v1::RankState& state() const { return state_; }

 private:
  enum class StopMode : uint8_t { kKeep, kAbort };

  // Says why the path cannot reach the process.
  const char* NotReached() const;

  bool SwitchToKineto(const ring::State& refused);
  void SendArm();
  // Starts a member through PyTorch's profiler by the capture's trigger.
  void StartKineto();
  void SendStop(StopMode mode);
  // Moves the records in the rings to the spool, followed by the CaptureEnd.
  void End(v1::RankState::State state, const std::string& text);
  void Set(v1::RankState::State state, const std::string& text = "");

  const ProcessId process_;
  const CaptureFacts& capture_;
  CaptureContext& context_;
  Phase phase_ = Phase::kArming;
  v1::RankState state_;
  std::optional<HostInterval> window_;  // the process's own window, if it differs from the capture's
  CapturePath* path_;
  bool kineto_if_held_ = false;
  uint32_t framework_ = 0;
  ring::Arm arm_{};  // as it was sent
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CAPTURE_MEMBER_H_
