// Captures runs every capture on this node: it finds the capture for each message and event, and keeps a
// process in one capture at a time.
//
// A capture of a user takes the processes of a sample, and those of a capture whose aggregator is away. Every
// process that an Arm names and that was accepted
// gets exactly one CaptureEnd, except after Stop{abort}.
//
// The main thread. The clock, CaptureUplinks and the paths are its only connections to the outside.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CAPTURES_H_
#define LOCKSTEP_DAEMON_CAPTURES_CAPTURES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/time.h"
#include "daemon/captures/capture.h"
#include "daemon/captures/capture_context.h"
#include "daemon/captures/capture_counts.h"
#include "daemon/captures/capture_path.h"
#include "daemon/captures/capture_uplinks.h"
#include "daemon/node/process.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {

class Captures {
 public:
  // `changed` is called when NextDeadline or Busy may have changed. All references outlive this.
  Captures(const Clock& clock, CaptureUplinks& uplinks, CapturePath& client, CapturePath& kineto,
           std::function<void()> changed, CaptureLimits limits = {}, CaptureTime time = CaptureTime::kPresent)
      : context_{.clock = clock,
                 .uplinks = uplinks,
                 .client = client,
                 .kineto = kineto,
                 .limits = limits,
                 .time = time},
        changed_(std::move(changed)) {}

  // Messages from an aggregator.
  void OnArm(UplinkId uplink, const v1::Arm& arm);
  void OnStart(UplinkId uplink, const v1::Start& start);
  void OnStop(UplinkId uplink, const v1::Stop& stop);
  // The stream is connected again: sends it the states of all its captures.
  void OnUplinkBack(UplinkId uplink);
  // The aggregator runs only `running`: its other captures end here and their data is discarded. Returns
  // them.
  std::vector<std::string> EndOthers(UplinkId uplink, const std::set<std::string>& running);
  // The uplink will not return: its captures end and their data is discarded.
  void OnUplinkGone(UplinkId uplink);

  // Events of a process on the path by which it is captured. `why` is continued with "while …".
  void OnClientState(const ProcessId& process, const ring::State& state);
  void OnClientGone(const ProcessId& process, const std::string& why);
  // Returns true if PyTorch's profiler captures the process now, so that events of its client do not count.
  bool ByKineto(const ProcessId& process);
  // EndDrain has put everything but the CaptureEnd into the spool.
  void OnDrained(const ProcessId& process, uint64_t number, uint64_t records);

  // Handles every deadline that has passed. Call it at NextDeadline or more often.
  void Tick();
  std::optional<MonoTime> NextDeadline() const;

  // The daemon is ending: every capture ends now and keeps its data.
  void StopAll();

  // Returns true if any rank of the uplink is between Arm and its end.
  bool Busy(UplinkId uplink) const;
  bool Busy() const { return running() > 0; }
  std::vector<v1::CaptureStatus> Status() const;
  // Samples are counted separately.
  const CaptureCounts& counts() const { return counts_; }
  const CaptureCounts& sample_counts() const { return sample_counts_; }
  // Number of captures that have not ended, including samples.
  size_t running() const;

 private:
  Capture* Find(UplinkId uplink, const std::string& id);
  // Returns null if the aggregator has too many captures.
  Capture* Add(UplinkId uplink, const v1::Arm& arm);
  // Returns the capture in which the process is, or null.
  Capture* CaptureOf(const ProcessId& process);
  // Makes a capture that has the process give it up for `capture`, if it may be taken. Returns the capture
  // that keeps it, or null.
  Capture* Take(const ProcessId& process, const Capture& capture);
  void ArmProcess(Capture& capture, const ProcessId& process, const v1::Arm& arm);

  CaptureContext context_;
  const std::function<void()> changed_;
  std::list<Capture> captures_;  // stable addresses
  uint64_t next_number_ = 1;
  CaptureCounts counts_;
  CaptureCounts sample_counts_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CAPTURES_H_
