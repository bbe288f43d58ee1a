// Our one thread: keeps the connection to the daemon and runs what it asks for. It sleeps in poll; while idle
// it wakes only to look after its own descriptors, never more often than once a second.
#ifndef LOCKSTEP_CLIENT_AGENT_H_
#define LOCKSTEP_CLIENT_AGENT_H_

#include <atomic>
#include <cstdint>

#include "base/socket_path.h"
#include "client/capture.h"
#include "client/connection.h"
#include "client/descriptor.h"
#include "client/identity.h"
#include "client/python/python_profile.h"
#include "client/record/timing.h"
#include "wire/ring/client_segment.h"

namespace lockstep::client {

// Whether CUPTI is set up before anybody asks for a capture: LOCKSTEP_PREPARE. A CUDA graph that was
// instantiated before replays without records of its kernels; being set up may cost the steps something.
enum class Prepare : uint8_t { kNever, kAtFirstContext };

struct AgentOptions {
  Prepare prepare = Prepare::kNever;
  // Has the process made a CUDA context? Called every few milliseconds until it says so; null: as if it had.
  bool (*context_up)() = nullptr;
};

// Read anew at each attempt to connect. The strings live as long as the process.
using SocketSearchFn = SocketSearch (*)();

class Agent {
 public:
  constexpr Agent(const Timing& timing, Capture& capture, PythonProfile& python, SocketSearchFn search)
      : timing_(timing), capture_(capture), python_(python), search_(search) {}

  // Before the thread runs.
  void SetOptions(const AgentOptions& options) { options_ = options; }

  // ---- the thread ----
  void Run(EntryKind entry);
  // One turn of it: connects, or waits for one message or one due tick. Returns how long to sleep before the
  // next turn.
  Nanos Turn(EntryKind entry);

  // ---- the application's threads ----
  // The process ends: asks our thread to finish what it captures and waits for it, at most `limit`.
  void FinishForExit(Nanos limit);
  // In a child process: forgets everything that belongs to the parent.
  void ForgetInChild();

 private:
  // Sets CUPTI up when the first context is there.
  void PrepareWhenDue();
  bool Connect(EntryKind entry);
  bool TakeWelcome(const ring::Welcome& welcome, int memfd);
  void Handle(const Message& message);
  void OnArm(const ring::Arm& arm);
  void OnStart(const ring::Start& start);
  void OnStop(const ring::Stop& stop);
  // A capture that looks for its trigger, after a tick: tells what has changed.
  void FollowTrigger();
  void Fail(const Sentence& why);
  // Begins and ends the Python profile with the window.
  void FollowPython();
  // Waits for it and sends it. False: the connection is lost.
  bool SendPythonProfile();
  void FinishCapture();
  void Lost();
  bool SendState(ring::ClientState state, const ring::State& fields);
  Nanos WaitForMessage() const;

  const Timing& timing_;
  Capture& capture_;
  PythonProfile& python_;
  SocketSearchFn search_;
  AgentOptions options_;
  Connection connection_;
  Descriptor memfd_;
  ring::ClientSegment segment_;
  ring::ClientSegment last_segment_;  // the one before, still mapped
  uint64_t capture_number_ = 0;       // the daemon's
  uint32_t daemon_minor_ = 0;         // its layout's
  ring::Start start_{};
  bool step_agreed_ = false;  // the step to begin at came in a second Start
  bool stopped_ = false;      // the end came from outside
  uint64_t told_step_ = 0;
  MonoTime told_at_;
  MonoTime armed_at_;
  Nanos tick_in_;
  Nanos back_off_;
  std::atomic<bool> exiting_{false};
  std::atomic<bool> capturing_{false};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_AGENT_H_
