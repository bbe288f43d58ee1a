// Every capture on this node, from Arm to the last CaptureEnd: architecture.md, decision 5.
//
//   Arm ─▶ arming ─(client: armed)─▶ armed ─(Start)─▶ started ─(client: capturing)─▶ capturing
//                                                                   └─(client: done)─▶ draining ─(rings
//                                                                   empty)─▶ ended
//
// A client that cannot be armed since another tool holds CUPTI gives way to PyTorch's profiler before the
// start, where the Arm allows it: one way per process, and the capture goes on as if that way had been
// chosen.
//
// A process that fails, dies or does not answer in time goes from wherever it is to draining, with the
// reason: what it captured is kept. So every process that an Arm names and that was accepted gets exactly one
// CaptureEnd (Stop{abort} excepted). Each waiting has a deadline; a capture always ends.
//
// The main thread. Time and everything outside come in through CapturePorts.
#ifndef LOCKSTEP_DAEMON_CAPTURES_H_
#define LOCKSTEP_DAEMON_CAPTURES_H_

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics/histogram.h"
#include "base/time.h"
#include "daemon/kineto/kineto_config.h"
#include "daemon/node/process.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {

using UplinkId = uint64_t;

// Implemented by: Daemon, and a fake in tests.
class CapturePorts {
 public:
  virtual ~CapturePorts() = default;
  // False when the process is not connected (any more) or does not take messages.
  virtual bool SendToClient(const ProcessId& process, const ring::Arm& message) = 0;
  virtual bool SendToClient(const ProcessId& process, const ring::Start& message) = 0;
  virtual bool SendToClient(const ProcessId& process, const ring::Stop& message) = 0;
  // The start of a process that goes through PyTorch's profiler, where that counts iterations instead of
  // looking at the clock.
  virtual bool StartIterations(const ProcessId& process, const KinetoIterations& iterations,
                               HostTime give_up) = 0;

  // The process is about to be armed: through PyTorch's profiler if `framework` is set (v1::FrameworkActivity
  // bits), else through its client. The calls below go that way until its drain has ended. False: that way
  // does not lead there.
  virtual bool ChoosePath(UplinkId uplink, const ProcessId& process, const std::string& capture,
                          std::optional<uint32_t> framework) = 0;
  // The same for a process whose client was chosen and cannot be armed: it leaves that way, with all that
  // came by it, for PyTorch's profiler. False: that way does not lead there, and nothing has changed.
  virtual bool GoOverToKineto(UplinkId uplink, const ProcessId& process, const std::string& capture,
                              uint32_t framework) = 0;
  // From Start to T0, for the process to begin with it.
  virtual Nanos Lead(const ProcessId& process) = 0;
  // Here, and within what the uplink may see.
  virtual bool MayCapture(UplinkId uplink, const ProcessId& process) = 0;
  // Its client is new enough to look for the begin and end of a window itself.
  virtual bool KnowsTriggers(const ProcessId& process) = 0;
  // See Drainer. Begin returns the epoch; OnDrained follows End.
  virtual uint64_t BeginDrain(UplinkId uplink, const ProcessId& process, const std::string& capture) = 0;
  virtual void EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) = 0;
  // Throws away what came since Begin.
  virtual void RestartDrain(const ProcessId& process) = 0;
  virtual void AbandonDrain(UplinkId uplink, const ProcessId& process, const std::string& capture) = 0;

  // A CaptureEnd of a process that never took part.
  virtual void SendEnd(UplinkId uplink, const ProcessId& process, const std::string& capture) = 0;

  virtual void SendStates(UplinkId uplink, v1::RankStates states) = 0;
  // By the uplink's present estimate of its aggregator's clock.
  virtual HostTime ToHost(UplinkId uplink, JobTime t) = 0;
};

struct CaptureLimits {
  Nanos arm_timeout = Nanos::Seconds(10);  // where the Arm names none
  Nanos longest_arm_timeout = Nanos::Seconds(600);
  Nanos wait_for_start = Nanos::Seconds(120);  // beyond the arm timeout
  Nanos wait_for_done = Nanos::Seconds(15);    // beyond T1
  // The same for PyTorch's profiler, which processes and writes all it has before a byte can be had.
  Nanos wait_for_kineto = Nanos::Seconds(200);
  Nanos keep_ended = Nanos::Seconds(60);  // so that a returning aggregator hears how it ended
  Nanos longest_window = Nanos::Seconds(24 * 3600);
  // Of one aggregator, which may be any user's: more processes in one Arm are passed over, more captures
  // refused.
  int most_processes = 4096;
  size_t most_captures = 32;
};

// How captures ended, since the daemon started. Each counts once, whatever comes after its end.
struct CaptureCounts {
  uint64_t complete = 0;  // every process of it here is done
  uint64_t partial = 0;
  uint64_t failed = 0;   // none is
  uint64_t aborted = 0;  // nothing of it was wanted any more
  uint64_t processes_done = 0;
  uint64_t processes_failed = 0;
  uint64_t processes_gone = 0;
  metrics::DurationHistogram took;  // from the Arm to the last process's end; not of those aborted
};

class Captures {
 public:
  Captures(const Clock& clock, CapturePorts& ports, CaptureLimits limits = {})
      : clock_(clock), ports_(ports), limits_(limits) {}

  // From an aggregator.
  void OnArm(UplinkId uplink, const v1::Arm& arm);
  void OnStart(UplinkId uplink, const v1::Start& start);
  void OnStop(UplinkId uplink, const v1::Stop& stop);
  // Its stream is back: it hears the state of everything again.
  void OnUplinkBack(UplinkId uplink);
  // It will not come back: its captures end, and nothing of them is kept.
  void OnUplinkGone(UplinkId uplink);

  // From a client.
  void OnClientState(const ProcessId& process, const ring::State& state);
  void OnClientGone(const ProcessId& process, const std::string& why);

  // From the drainer.
  void OnDrained(const ProcessId& process, uint64_t number, uint64_t records);

  // Deals with every deadline that has passed. To be called at NextDeadline, or more often.
  void Tick();
  std::optional<MonoTime> NextDeadline() const;

  // The daemon is ending: every capture ends now and keeps what it has.
  void StopAll();

  // Some rank of the uplink is between Arm and its end.
  bool Busy(UplinkId uplink) const;
  bool Busy() const;
  std::vector<v1::CaptureStatus> Status() const;
  // Samples are counted by themselves.
  const CaptureCounts& counts() const { return counts_; }
  const CaptureCounts& sample_counts() const { return sample_counts_; }
  // Those that have not ended, samples included.
  size_t running() const;

 private:
  // kWaiting: started, and its trigger has not come.
  enum class Phase : uint8_t { kArming, kArmed, kStarted, kWaiting, kCapturing, kDraining, kEnded };

  struct Member {
    ProcessId process;
    Phase phase = Phase::kArming;
    v1::RankState state;
    std::optional<HostInterval> window;  // its own, where a trigger opened it
    bool kineto = false;
    bool kineto_if_held = false;
    uint32_t framework = 0;
    ring::Arm arm{};  // as it was sent
  };
  struct Capture {
    std::string id;
    UplinkId uplink = 0;
    uint64_t number = 0;  // of ring::Arm
    bool sample = false;
    std::vector<Member> members;
    MonoTime deadline;  // of the phase: to arm, to get a Start, to be done
    MonoTime kineto_deadline = MonoTime::Max();
    MonoTime armed_by;
    bool arming_over = false;
    bool started = false;
    v1::Trigger trigger;  // AT_T0 where there is none
    v1::Start::KinetoBegin kineto_begin = v1::Start::BY_ITERATION;
    HostInterval kineto_window;  // IN_WINDOW
    uint64_t kineto_multiple = 1;
    HostInterval window;
    MonoTime begun;
    std::optional<MonoTime> ended_at;
    bool counted = false;
  };

  Capture* Find(UplinkId uplink, const std::string& id);
  Capture* Add(UplinkId uplink, const v1::Arm& arm);
  Member* FindMember(const ProcessId& process, Capture** capture);
  void RefuseProcess(Capture& capture, Member& member, v1::RankState::State state, const std::string& text);
  // All processes of a sample leave it, and nothing of it is kept.
  void GiveWay(Capture& sample, const std::string& to);
  void ArmProcess(Capture& capture, const ProcessId& process, const v1::Arm& arm);
  bool GoOver(Capture& capture, Member& member, const ring::State& refused);
  bool Possible(const Capture& capture) const;
  void SendStart(Capture& capture, Member& member);
  // With a trigger.
  void StartKineto(Capture& capture, Member& member);
  void RefuseStart(Capture& capture, Member& member, const char* why);
  enum class StopMode : uint8_t { kKeep, kAbort };
  void SendStop(const Capture& capture, const Member& member, StopMode mode);
  void EndMember(Capture& capture, Member& member, v1::RankState::State state, const std::string& text);
  void Set(Capture& capture, Member& member, v1::RankState::State state, const std::string& text = "");
  void StopCapture(Capture& capture, const char* why_not_begun);
  void Abort(Capture& capture);
  void NoteEnd(Capture& capture);
  void CountEnd(Capture& capture);
  CaptureCounts& CountsOf(const Capture& capture) { return capture.sample ? sample_counts_ : counts_; }
  void TickCapture(Capture& capture, MonoTime now);
  enum class Of : uint8_t { kAll, kClients, kKineto };
  void TimeOut(Capture& capture, std::initializer_list<Phase> phases, Of of, const std::string& text);

  const Clock& clock_;
  CapturePorts& ports_;
  const CaptureLimits limits_;
  std::list<Capture> captures_;  // stable addresses
  // Told to abort, and not heard of since: they may still write records of that capture.
  std::set<ProcessId> unsettled_;
  uint64_t next_number_ = 1;
  CaptureCounts counts_;
  CaptureCounts sample_counts_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_H_
