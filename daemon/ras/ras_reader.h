// RasReader adds the view of NCCL's RAS to an answer. It asks on a thread of its own, because RAS may take
// seconds. The thread starts with the first request, and sleeps while there is none.
#ifndef LOCKSTEP_DAEMON_RAS_RAS_READER_H_
#define LOCKSTEP_DAEMON_RAS_RAS_READER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "daemon/node/event_loop.h"
#include "daemon/node/host_access.h"
#include "daemon/ras/ras_query.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

// The main thread, except for what is stated otherwise.
class RasReader {
 public:
  using Targets = google::protobuf::RepeatedPtrField<v1::StackTarget>;
  using Done = std::function<void(v1::NodeProgress)>;

  static constexpr size_t kMostRequests = 4;  // that wait; one more is answered without RAS

  // Both references outlive this.
  RasReader(const HostAccess& access, EventLoop& loop, RasLimits limits = {},
            TcpTableReader table = ReadTcpTable)
      : access_(access), loop_(loop), limits_(limits), table_(std::move(table)) {}
  // Waits for the answer that is being read. Requests that wait are not answered.
  ~RasReader();

  // Asks the RAS of the first of the node's living processes that is among the targets, and calls `done` on
  // the main thread. The caller sees no other process.
  void AddTo(v1::NodeProgress node, const Targets& targets, Done done);

 private:
  struct Request {
    v1::NodeProgress node;
    int process = 0;  // place in `node`
    Done done;
  };

  void Run();                                     // the thread
  v1::RasAnswer Ask(const v1::Rank& rank) const;  // the thread

  const HostAccess& access_;
  EventLoop& loop_;
  const RasLimits limits_;
  const TcpTableReader table_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // thread: main
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_RAS_RAS_READER_H_
