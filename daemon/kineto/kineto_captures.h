// KinetoCaptures runs the processes of a capture that PyTorch's own profiler records. For captures.h it plays
// the role of their client, by means of their polls.
//
//   Arm ─▶ arming ─(polls while idle)─▶ armed ─(Start: a request is offered)─▶ offered ─(polls as busy)─▶
//   taken ─(T0)─▶ capturing ─(its file is whole)─▶ over
//
// By iterations: offered ─(an answer held the request)─▶ waiting ─(polls as busy)─▶ capturing. Such a request
// is handed out only once. A profiler that waits for its iteration reports that it is idle, and one that
// finished between two polls would begin again.
//
// The protocol has no acknowledgement. A request counts as taken when the process reports busy after it
// received the request, or when its file appears. Until then every poll is answered with the request, because
// the client reads a late answer as the answer to its next poll. T0 leaves time for two polls before the
// profiler must warm up.
//
// State changes are sent as the client's messages (ring::State), so that Captures treats both kinds of
// process alike. The main thread.
#ifndef LOCKSTEP_DAEMON_KINETO_KINETO_CAPTURES_H_
#define LOCKSTEP_DAEMON_KINETO_KINETO_CAPTURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/time.h"
#include "daemon/kineto/kineto_config.h"
#include "daemon/kineto/kineto_files.h"
#include "daemon/kineto/kineto_server.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {

// A process that polls for traces: the data that a capture needs.
struct KinetoClient {
  KinetoPoll last;         // the newest poll
  Nanos interval;          // between its polls; 0: not known yet
  int32_t client_pid = 0;  // in its own pid namespace
  std::string folder;      // it accepts to write here
};

// Implemented by: KinetoCapturePath, and a fake in tests.
class KinetoPorts {
 public:
  virtual ~KinetoPorts() = default;
  virtual void Offer(const ProcessId& process, std::string config) = 0;
  virtual void Withdraw(const ProcessId& process) = 0;
  // Stage changes arrive through OnFile.
  virtual KinetoFileId WatchFile(KinetoFileSpec spec) = 0;
  virtual void DiscardFile(const KinetoFileId& file, MonoTime until) = 0;
  // Forwards a state to Captures. The call is posted, because Captures may be the caller.
  virtual void SendState(const ProcessId& process, const ring::State& state) = 0;
};

struct KinetoLimits {
  // Time from the Start message to T0 if the process's poll interval is not known; otherwise the upper limit.
  Nanos longest_lead = Nanos::Seconds(15);
  Nanos usual_interval = Nanos::Seconds(5);
  // Time for processing and writing, counted from T1 or from the end of an abandoned capture.
  Nanos wait_for_file = Nanos::Seconds(180);
  // A profiler that has been idle this long without leaving a file will not leave one.
  Nanos idle_without_file = Nanos::Seconds(15);
  // Like wait_for_file, for a request by iterations: the profiler keeps it until they come.
  Nanos wait_for_iterations = Nanos::Seconds(3600);
  Nanos progress_interval = Nanos::Seconds(3);  // between progress messages while the file is awaited
};

class KinetoCaptures {
 public:
  KinetoCaptures(const Clock& clock, KinetoPorts& ports, KinetoLimits limits = {})
      : clock_(clock), ports_(ports), limits_(limits) {}

  // Puts the process into a capture until Take or Forget. `session` becomes part of its file's name.
  void Choose(const ProcessId& process, KinetoClient client, std::string session, uint32_t framework);
  bool Holds(const ProcessId& process) const { return members_.count(process) != 0; }
  // Returns the time that must lie between the Start message and T0 for this process.
  Nanos Lead(const ProcessId& process) const;

  // The messages that Captures sends to a client. They return false if the process is not in a capture.
  bool OnArm(const ProcessId& process, const ring::Arm& message);
  bool OnStart(const ProcessId& process, const ring::Start& message);
  // Like OnStart, with a count of iterations instead of a window. The first must come before `give_up`.
  bool OnStartIterations(const ProcessId& process, const KinetoIterations& iterations, HostTime give_up);
  bool OnStop(const ProcessId& process, const ring::Stop& message);

  void OnPoll(const KinetoPoll& poll);
  void OnFile(const ProcessId& process, uint64_t file_number, KinetoFileStage stage);

  // Ends the process's part in the capture and returns its file.
  struct FileResult {
    KinetoFileId file;   // number 0: it was never offered a request
    bool whole = false;  // the whole file has been seen
    MonoTime until;      // its profiler may still write a file until then
  };
  FileResult Take(const ProcessId& process);
  // Ends the process's part and discards its file.
  void Forget(const ProcessId& process);

  void Tick();
  std::optional<MonoTime> NextDeadline() const;

 private:
  // kWaiting: it received a request by iterations, and they have not come yet.
  enum class Stage : uint8_t { kArming, kArmed, kOffered, kWaiting, kTaken, kCapturing, kFinished };
  struct Member {
    KinetoClient client;
    std::string session;
    uint32_t framework = 0;
    uint64_t number = 0;  // number of the capture, from the Arm message
    uint32_t activities = 0;
    Stage stage = Stage::kArming;
    bool busy_reported = false;
    HostInterval window;  // by iterations: limits of the recording as far as known
    MonoTime t0;
    MonoTime t1;  // by iterations: end of the wait for them, then the time at which they began
    std::optional<KinetoIterations> iterations;
    bool offering = false;
    bool delivered = false;    // an answer to a poll held the request
    bool busy_before = false;  // it was busy before it received the request
    uint32_t idle_polls_after_t0 = 0;
    std::optional<MonoTime> idle_since;  // after T1
    KinetoFileId file;
    bool whole = false;
    MonoTime next_progress;
  };

  void SendState(const ProcessId& process, const Member& member, ring::ClientState state,
                 const std::string& text = "");
  void Fail(const ProcessId& process, Member& member, const std::string& text);
  void StopOffering(const ProcessId& process, Member& member);
  void MarkTaken(const ProcessId& process, Member& member);
  void OnPollWhileOffered(const ProcessId& process, Member& member, const KinetoPoll& poll);
  void Begin(const ProcessId& process, Member& member);
  void WaitForIteration(const ProcessId& process, Member& member);
  void CaptureIterations(const ProcessId& process, Member& member);
  void OnPollWhileRunning(const ProcessId& process, Member& member, const KinetoPoll& poll);
  void TickWaiting(const ProcessId& process, Member& member, MonoTime now);
  void TickOffered(const ProcessId& process, Member& member, MonoTime now);
  // Returns the last time at which a request is useful.
  static MonoTime Latest(const Member& member) {
    return member.iterations ? member.t1 : member.t0 - kKinetoWarmup - kKinetoTick;
  }

  const Clock& clock_;
  KinetoPorts& ports_;
  const KinetoLimits limits_;
  std::map<ProcessId, Member> members_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_KINETO_CAPTURES_H_
