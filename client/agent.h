// The agent is the client's only thread. It keeps the connection to the daemon and executes the daemon's
// requests. It sleeps in poll. While idle, it wakes only to check its own descriptors, at most once per
// second.
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

// LOCKSTEP_PREPARE: whether CUPTI is set up before the first capture. A CUDA graph that was instantiated
// before CUPTI's set-up replays without records of its kernels. The set-up may slow the steps down.
enum class Prepare : uint8_t { kNever, kAtFirstContext };

// LOCKSTEP_REGISTER: when the process becomes a rank of its job. Launchers and loader workers may initialise
// CUDA too, but they create no context.
enum class Registration : uint8_t { kWithContext, kAtOnce };

struct AgentOptions {
  Prepare prepare = Prepare::kNever;
  Registration registration = Registration::kWithContext;
  // Returns whether the process has a CUDA context. The agent calls it every few milliseconds until it
  // returns true. Null counts as true.
  bool (*context_up)() = nullptr;
};

// Called at each attempt to connect. The strings must live as long as the process.
using SocketSearchFn = SocketSearch (*)();

class Agent {
 public:
  constexpr Agent(const Timing& timing, Capture& capture, PythonProfile& python, SocketSearchFn search)
      : timing_(timing), capture_(capture), python_(python), search_(search) {}

  // Call it before the thread runs.
  void SetOptions(const AgentOptions& options) { options_ = options; }

  // ---- the agent's thread ----
  void Run(EntryKind entry);
  // Does one turn: connects, or waits for one message or one due tick. Returns the time to sleep before the
  // next turn.
  Nanos Turn(EntryKind entry);

  // ---- the application's threads ----
  // Call it when the process ends. It asks the agent's thread to finish a running capture, and waits at most
  // `limit`.
  void FinishForExit(Nanos limit);
  // Call it in a child process. It forgets everything that belongs to the parent.
  void ForgetInChild();

 private:
  // Sets up CUPTI when the first context exists.
  void PrepareWhenDue();
  // Returns true if the process is a rank, now and from then on.
  bool IsRank();
  // Tells the daemon once that this process runs, and waits. Returns the time to sleep.
  Nanos WaitForContext(EntryKind entry);
  bool OpenConnection();
  bool Register(EntryKind entry);
  bool TakeWelcome(const ring::Welcome& welcome, const Fd& memfd);
  void Handle(const Message& message);
  void OnArm(const ring::Arm& arm);
  void OnStart(const ring::Start& start);
  void OnStop(const ring::Stop& stop);
  // Called after a tick while the capture waits for its trigger. Reports the changes.
  void FollowTrigger();
  void Fail(const Sentence& why);
  // Begins and ends the Python profile together with the window.
  void FollowPython();
  // Waits for the profile and sends it. Returns false if the connection is lost.
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
  ring::ClientSegment segment_;
  ring::ClientSegment last_segment_;  // the previous one, still mapped
  uint64_t capture_number_ = 0;       // the daemon's number of the capture
  uint32_t daemon_minor_ = 0;         // minor version of the daemon's layout
  ring::Start start_{};
  bool step_agreed_ = false;  // the step came in a second Start
  bool stopped_ = false;      // the daemon ended the window
  ring::Cut cut_ = ring::Cut::kNone;
  uint64_t reported_step_ = 0;
  MonoTime reported_at_;
  MonoTime armed_at_;
  Nanos tick_in_;
  Nanos back_off_;
  bool is_rank_ = false;
  bool registered_ = false;  // the daemon has welcomed this connection
  bool is_refused_ = false;  // the daemon is too old for Presence
  MonoTime started_;         // begin of the wait for a context; zero: not begun
  MonoTime announce_at_;     // no attempt to connect before this time
  std::atomic<bool> exiting_{false};
  std::atomic<bool> capturing_{false};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_AGENT_H_
