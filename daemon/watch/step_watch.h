// StepWatch follows the operation logs of this node's ranks, and passes on each training step as it ends. It
// works only while an aggregator follows the steps (FollowSteps in proto/lockstep/v1/ingest.proto). It wakes
// no rank.
//
// The main thread.
#ifndef LOCKSTEP_DAEMON_WATCH_STEP_WATCH_H_
#define LOCKSTEP_DAEMON_WATCH_STEP_WATCH_H_

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/time.h"
#include "daemon/clients/client_server.h"
#include "daemon/loop/event_loop.h"
#include "daemon/node/process.h"
#include "daemon/node/registry.h"
#include "daemon/watch/step_rows.h"
#include "lockstep/v1/ingest.pb.h"
#include "wire/ring/log_cursor.h"

namespace lockstep::daemon {

class StepWatch {
 public:
  using Sink = std::function<void(const std::vector<v1::ProcessSteps>&)>;

  // All references outlive this.
  StepWatch(EventLoop& loop, const Clock& clock, const Registry& registry, const ClientServer& clients)
      : loop_(loop), clock_(clock), registry_(registry), clients_(clients) {}
  ~StepWatch() { Stop(); }
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  // From now on calls `sink` with the steps of all ranks that end. The ranks' logs of the time before tell
  // how their steps are found. A second call has no effect.
  void Start(Sink sink);
  // Forgets everything.
  void Stop();

 private:
  // The logs are read so often while steps end, and less often while none does.
  static constexpr Nanos kShortestPause = Nanos::Millis(500);
  static constexpr Nanos kLongestPause = Nanos::Seconds(4);
  // A collective counts as ended if no further channel of it has started within this time.
  static constexpr Nanos kSettling = Nanos::Millis(20);

  struct Rank {
    uint64_t incarnation = 0;  // of the segment
    ring::LogCursor cursor;
    StepRows rows;
  };

  void Look();
  // Adds the steps of a rank that have ended since the last look. Returns true if its log has grown.
  bool LookAt(const v1::Rank& rank, Rank& state, const DaemonSegment& segment,
              std::vector<v1::ProcessSteps>& all);

  EventLoop& loop_;
  const Clock& clock_;
  const Registry& registry_;
  const ClientServer& clients_;
  Sink sink_;       // null while it does not work
  HostTime since_;  // the start
  std::optional<EventLoop::TimerId> timer_;
  Nanos pause_ = kShortestPause;
  std::map<ProcessId, Rank> ranks_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_WATCH_STEP_WATCH_H_
