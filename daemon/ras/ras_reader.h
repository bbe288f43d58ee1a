// RasReader adds the view of NCCL's RAS to an answer. It asks on a thread of its own, because RAS may take
// seconds.
#ifndef LOCKSTEP_DAEMON_RAS_RAS_READER_H_
#define LOCKSTEP_DAEMON_RAS_RAS_READER_H_

#include <cstddef>
#include <functional>

#include "daemon/loop/event_loop.h"
#include "daemon/loop/work_thread.h"
#include "daemon/node/host_access.h"
#include "daemon/node/progress_targets.h"
#include "daemon/ras/ras_query.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

// The main thread, except for what is stated otherwise.
class RasReader {
 public:
  using Targets = ProgressTargets;
  using Done = std::function<void(v1::NodeProgress)>;

  static constexpr size_t kMostRequests = 4;  // that wait; one more is answered without RAS

  // Both references outlive this. Its end waits for the answer that is being read. Requests that wait are not
  // answered.
  RasReader(const HostAccess& access, EventLoop& loop, RasLimits limits = {},
            TcpTableReader table = ReadTcpTable)
      : access_(access), limits_(limits), table_(std::move(table)), thread_(loop, kMostRequests) {}

  // Asks the RAS of the first of the node's living processes that is among the targets, and calls `done` on
  // the main thread. The caller sees no other process.
  void AddTo(v1::NodeProgress node, const Targets& targets, Done done);

 private:
  v1::RasAnswer Ask(const v1::Rank& rank) const;  // the work thread

  const HostAccess& access_;
  const RasLimits limits_;
  const TcpTableReader table_;
  WorkThread thread_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_RAS_RAS_READER_H_
