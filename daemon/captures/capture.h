// Capture is one capture on this node, from Arm until a while after its last process has ended
// (ARCHITECTURE.md, decision 5).
//
// It keeps the members, passes the start and the stop to them, and gives each phase a deadline. A capture
// therefore always ends. The main thread.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CAPTURE_H_
#define LOCKSTEP_DAEMON_CAPTURES_CAPTURE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "base/time.h"
#include "daemon/captures/capture_context.h"
#include "daemon/captures/capture_counts.h"
#include "daemon/captures/capture_member.h"
#include "daemon/node/process.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::daemon {

class Capture {
 public:
  // `counts` receives the capture's result. Both references outlive this.
  Capture(UplinkId uplink, uint64_t number, const v1::Arm& arm, CaptureContext& context,
          CaptureCounts& counts);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Adds a process. The caller arms or refuses the member, and calls NoteEnd after the last one.
  CaptureMember& Add(const ProcessId& process);
  // Returns true if the process is or was a member.
  bool Has(const ProcessId& process) const;
  // Returns the process's member that has not ended, or null.
  CaptureMember* Find(const ProcessId& process);

  void OnStart(const v1::Start& start);
  void OnDrained(const ProcessId& process, uint64_t records);
  // Stops the members, which keep their data. Those that have not started fail.
  void Stop(StoppedBy by);
  // Ends all members and discards their data. The capture is then of no further use.
  void Abort();
  // All processes leave this capture because of `reason`, and its data is discarded.
  void Yield(const std::string& reason);
  // Ends all members and drops everything that waits to be sent. The capture is then of no further use.
  void Forget();
  // Notes whether all members have ended. The first time, it counts the result.
  void NoteEnd();

  // Handles every deadline that has passed.
  void Tick(MonoTime now);
  // Returns the time of the next Tick, or of the capture's removal if it has ended.
  std::optional<MonoTime> NextDeadline() const;
  // Returns true if the capture ended so long ago that no aggregator will ask for its result.
  bool IsOver(MonoTime now) const;

  // Sends the states of all members to the aggregator.
  void SendStates() const;
  v1::CaptureStatus Status() const;

  const std::string& id() const { return facts_.id; }
  UplinkId uplink() const { return facts_.uplink; }
  uint64_t number() const { return facts_.number; }
  bool sample() const { return sample_; }
  bool ended() const { return ended_at_.has_value(); }

 private:
  enum class Of : uint8_t { kAll, kClients, kKineto };
  // Fails the members that have not gone beyond phase `last`.
  void TimeOut(CaptureMember::Phase last, Of of, const std::string& text);
  void CountEnd();

  CaptureFacts facts_;
  CaptureContext& context_;
  CaptureCounts& counts_;
  const bool sample_;
  std::list<CaptureMember> members_;
  const MonoTime begun_;
  const MonoTime armed_by_;
  MonoTime deadline_;  // of the current phase: to arm, to receive a Start, or to be done
  MonoTime kineto_deadline_ = MonoTime::Max();
  bool arming_over_ = false;
  std::optional<MonoTime> ended_at_;
  bool counted_ = false;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CAPTURE_H_
