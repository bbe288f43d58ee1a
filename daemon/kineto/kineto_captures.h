// Processes in a capture that are captured by PyTorch's own profiler: the client's part of captures.h, played
// for them by polls.
//
//   Arm ─▶ arming ─(it asks, and is idle)─▶ armed ─(Start: a request lies ready)─▶ offered ─(it says busy)─▶
//   taken ─(T0)─▶ capturing ─(its file is whole)─▶ over
//
// By iterations: offered ─(an answer held the request)─▶ waiting ─(it says busy)─▶ capturing. It is handed
// out once: a profiler that waits for its iteration calls itself idle, and one that has finished between two
// questions would begin anew.
//
// The protocol has no acknowledgement. A request counts as taken when the process calls itself busy after it
// was handed one, or when its file appears; until then it is offered each time the process asks, since an
// answer that comes late is read as the answer to the next question. The start lies so far ahead that two
// questions fit before the profiler must warm up.
//
// States go out as the client's messages do (ring::State), so that Captures need not know how a process is
// reached. The main thread.
#ifndef LOCKSTEP_DAEMON_KINETO_CAPTURES_H_
#define LOCKSTEP_DAEMON_KINETO_CAPTURES_H_

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

// A process that asks for traces, as far as a capture needs to know it.
struct KinetoClient {
  KinetoPoll last;         // the newest it asked
  Nanos interval;          // between its questions; 0: not known yet
  int32_t client_pid = 0;  // in its own pid namespace
  std::string folder;      // where it accepts to write
};

// Implemented by: Daemon, and a fake in tests.
class KinetoPorts {
 public:
  virtual ~KinetoPorts() = default;
  virtual void Offer(const ProcessId& process, std::string config) = 0;
  virtual void Withdraw(const ProcessId& process) = 0;
  // News come as OnFile.
  virtual KinetoFileId WatchFile(KinetoFileSpec spec) = 0;
  virtual void DiscardFile(const KinetoFileId& file, MonoTime until) = 0;
  // To Captures; not from within the call that it answers.
  virtual void TellState(const ProcessId& process, const ring::State& state) = 0;
};

struct KinetoLimits {
  // From the start's message to T0, where the process's rhythm is not known; with it, no more than this.
  Nanos longest_lead = Nanos::Seconds(15);
  Nanos usual_interval = Nanos::Seconds(5);
  // After T1, or after a capture was given up: for processing and writing.
  Nanos wait_for_file = Nanos::Seconds(180);
  // A profiler that is idle again and has left no file in so long leaves none.
  Nanos idle_without_file = Nanos::Seconds(15);
  // The same for a request by iterations, which stays with the profiler until they come.
  Nanos wait_for_iterations = Nanos::Seconds(3600);
  Nanos between_words = Nanos::Seconds(3);  // signs of life while the file is awaited
};

class KinetoCaptures {
 public:
  KinetoCaptures(const Clock& clock, KinetoPorts& ports, KinetoLimits limits = {})
      : clock_(clock), ports_(ports), limits_(limits) {}

  // From here on, until Take or Forget, the process is in that capture. `session` names its file.
  void Choose(const ProcessId& process, KinetoClient client, std::string session, uint32_t framework);
  bool Holds(const ProcessId& process) const { return members_.count(process) != 0; }
  // How far ahead of the start's message T0 must lie for it.
  Nanos Lead(const ProcessId& process) const;

  // As Captures says them to a client.
  bool OnArm(const ProcessId& process, const ring::Arm& message);
  bool OnStart(const ProcessId& process, const ring::Start& message);
  // By its count of iterations instead, which must have come to the first by `give_up`.
  bool OnStartIterations(const ProcessId& process, const KinetoIterations& iterations, HostTime give_up);
  bool OnStop(const ProcessId& process, const ring::Stop& message);

  void OnPoll(const KinetoPoll& poll);
  void OnFile(const ProcessId& process, uint64_t file_number, KinetoFileStage stage);

  // Its part is over.
  struct Taken {
    KinetoFileId file;   // number 0: it was never asked for one
    bool whole = false;  // the file was seen to be
    MonoTime until;      // until then its profiler may still leave one
  };
  Taken Take(const ProcessId& process);
  // Nothing of it is wanted any more.
  void Forget(const ProcessId& process);

  void Tick();
  std::optional<MonoTime> NextDeadline() const;

 private:
  // kWaiting: it was handed a request by iterations, and they have not come.
  enum class Stage : uint8_t { kArming, kArmed, kOffered, kWaiting, kTaken, kCapturing, kOver };
  struct Member {
    KinetoClient client;
    std::string session;
    uint32_t framework = 0;
    uint64_t number = 0;  // of the Arm
    uint32_t activities = 0;
    Stage stage = Stage::kArming;
    bool busy_told = false;
    HostInterval window;  // by iterations: what they must lie in, as far as it is known
    MonoTime t0;
    MonoTime t1;  // by iterations: until when they are waited for, and then since when they run
    std::optional<KinetoIterations> iterations;
    bool offering = false;
    bool handed = false;       // an answer held the request
    bool busy_before = false;  // it was busy before it had been handed one
    uint32_t idle_polls_after_t0 = 0;
    std::optional<MonoTime> idle_since;  // after T1
    KinetoFileId file;
    bool whole = false;
    MonoTime next_word;
  };

  void Tell(const ProcessId& process, const Member& member, ring::ClientState state,
            const std::string& text = "");
  void Fail(const ProcessId& process, Member& member, const std::string& text);
  void StopOffering(const ProcessId& process, Member& member);
  void BeTaken(const ProcessId& process, Member& member);
  void WhileOffered(const ProcessId& process, Member& member, const KinetoPoll& poll);
  void Begin(const ProcessId& process, Member& member);
  void WaitForIteration(const ProcessId& process, Member& member);
  void CaptureIterations(const ProcessId& process, Member& member);
  void WhileRunning(const ProcessId& process, Member& member, const KinetoPoll& poll);
  void TickWaiting(const ProcessId& process, Member& member, MonoTime now);
  void TickOffered(const ProcessId& process, Member& member, MonoTime now);
  // The last moment at which a request is of use.
  static MonoTime Latest(const Member& member) {
    return member.iterations ? member.t1 : member.t0 - kKinetoWarmup - kKinetoTick;
  }

  const Clock& clock_;
  KinetoPorts& ports_;
  const KinetoLimits limits_;
  std::map<ProcessId, Member> members_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_CAPTURES_H_
