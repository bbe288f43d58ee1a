// CaptureUplinks is the connection of Captures to the aggregators.
#ifndef LOCKSTEP_DAEMON_CAPTURES_CAPTURE_UPLINKS_H_
#define LOCKSTEP_DAEMON_CAPTURES_CAPTURE_UPLINKS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/time.h"
#include "daemon/drain/spool.h"
#include "daemon/node/process.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::daemon {

using UplinkId = uint64_t;

// The captures of the present are through living processes. Those of the past may be of processes that have
// left.
enum class CaptureTime : uint8_t { kPresent, kPast };

// Implemented by: AggregatorLinks, and a fake in tests. The main thread. Calls for an uplink that has gone
// have no effect.
class CaptureUplinks {
 public:
  virtual ~CaptureUplinks() = default;
  // Returns true if the process is registered, or for the past remembered, and the uplink may see it.
  virtual bool MayCapture(UplinkId uplink, const ProcessId& process, CaptureTime time) = 0;
  // Returns the time since the uplink lost its aggregator; 0 while it is connected.
  virtual Nanos AwayFor(UplinkId uplink) = 0;
  // Converts by the uplink's current estimate of its aggregator's clock.
  virtual HostTime ToHost(UplinkId uplink, JobTime t) = 0;
  // Returns the spool for the data of captures, or null if the uplink has gone.
  virtual std::shared_ptr<Spool> SpoolOf(UplinkId uplink) = 0;
  virtual void SendStates(UplinkId uplink, v1::RankStates states) = 0;
  // Sends a CaptureEnd for a process that never took part.
  virtual void SendEnd(UplinkId uplink, const ProcessId& process, const std::string& capture) = 0;
  // Drops everything of the capture that waits to be sent.
  virtual void Discard(UplinkId uplink, const std::string& capture) = 0;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CAPTURES_CAPTURE_UPLINKS_H_
