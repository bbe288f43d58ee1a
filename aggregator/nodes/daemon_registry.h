// DaemonRegistry holds the connected daemons and the ranks that they report. It also remembers the daemons
// that have left and the jobs that have ended.
//
// Thread-safe. The lock order is: a DaemonSequence, the registry, a connection.
#ifndef LOCKSTEP_AGGREGATOR_NODES_DAEMON_REGISTRY_H_
#define LOCKSTEP_AGGREGATOR_NODES_DAEMON_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "aggregator/nodes/clock.h"
#include "aggregator/nodes/daemon_connection.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::aggregator {

// The numbered messages of one daemon, which last longer than its connection. The lock is held while one of
// them is stored, so that two streams of one daemon never store a message twice.
struct DaemonSequence {
  Mutex mutex;
  uint64_t stored ABSL_GUARDED_BY(mutex) = 0;   // the newest number
  uint64_t durable ABSL_GUARDED_BY(mutex) = 0;  // everything up to it is on disk
  // `stored` is of an earlier process of the aggregator, which may have stored more for captures that it
  // closed.
  bool restored ABSL_GUARDED_BY(mutex) = false;
};

struct SeenJob {
  int32_t world_size = 0;
  JobTime last_seen;  // time when a daemon last reported it or disconnected
};

struct DaemonCounts {
  size_t daemons = 0;  // connected
  size_t ranks = 0;    // of the connected daemons
};

class DaemonRegistry {
 public:
  // `credits` is the number of unacknowledged batches that a daemon may send. `clock` must outlive the
  // registry.
  DaemonRegistry(const JobClock& clock, uint32_t credits, LogSink log)
      : clock_(clock), credits_(credits), log_(std::move(log)) {}

  // The protocol versions that this aggregator speaks.
  static v1::Version Protocol();

  // The calls of a daemon's stream. Connect sends the Register through `connection`, before any other
  // message, and returns it. It closes an older connection of the same daemon. If `refused` is set, the
  // Register was not sent, and the caller must end the stream. `running` has the captures with processes of
  // the daemon's node.
  v1::Register Connect(const v1::DaemonHello& hello, std::shared_ptr<DaemonConnection> connection,
                       v1::RunningCaptures running);
  // Returns false if the connection has ended or another one has replaced it.
  bool IsConnected(const DaemonKey& daemon, const DaemonConnection* connection) const;
  // These three do nothing if another connection has replaced this one.
  void SetRanks(const DaemonKey& daemon, const DaemonConnection* connection, const v1::RankUpdate& ranks);
  void SetHealth(const DaemonKey& daemon, const DaemonConnection* connection, const v1::DaemonHealth& health);
  void Disconnect(const DaemonKey& daemon, const DaemonConnection* connection);

  std::shared_ptr<DaemonSequence> Sequence(const DaemonKey& daemon);
  // Everything of the daemon up to this number is on disk: acknowledges it.
  void Acknowledge(const DaemonKey& daemon, uint64_t through);
  // Returns false if the daemon is not connected; the message is then lost.
  bool Send(const DaemonKey& daemon, const v1::FromAggregator& message) const;

  // Returns the connected daemons with their hosts' names.
  std::map<DaemonKey, std::string> Connected() const;
  // Returns the ranks of the connected daemons.
  std::vector<SeenRank> Ranks() const;
  // Returns the ranks of one connected daemon.
  std::vector<SeenRank> RanksOf(const DaemonKey& daemon) const;
  // Returns the ranks that have left and whose operation logs the connected daemons keep, those of one daemon
  // with the newest last.
  std::vector<SeenRank> Departed() const;
  // Returns the jobs that `name` selects (base/job_name.h), also those of daemons that have left.
  std::set<JobKey> JobsNamed(const std::string& name) const;
  // Appends the connected daemons, each with those of its ranks for which `shown` returns true. `shown` is
  // called with the lock held.
  void AddTo(v1::StatusReply& reply, const std::function<bool(const v1::Rank&)>& shown) const;
  // Returns the last daemon of each node that has none connected but had one within a day.
  std::vector<v1::AbsentDaemon> Absent() const;
  // Returns the last 256 jobs, including ended ones.
  std::map<JobKey, SeenJob> SeenJobs() const;
  DaemonCounts counts() const;
  // Waits until a connected daemon has sent its ranks. Returns false after `at_most`.
  bool WaitForDaemon(Nanos at_most);

  // Connect refuses every daemon from now on.
  void RefuseNew();
  void CloseAll();

 private:
  struct Daemon {
    std::shared_ptr<DaemonConnection> connection;  // null while disconnected
    std::string host_name;
    v1::Version version;
    std::optional<v1::DaemonHealth> health;
    JobTime left;  // time of the disconnect, or when it became known without a connection
    std::vector<v1::Rank> ranks;
    std::vector<v1::Rank> departed;
    bool ranks_received = false;
    JobTime connected;  // 0: never since this process began
    const std::shared_ptr<DaemonSequence> sequence = std::make_shared<DaemonSequence>();
  };

  // Returns the ranks of one of the connected daemons' lists.
  std::vector<SeenRank> Collect(const std::vector<v1::Rank> Daemon::*list) const;
  // Returns null if another connection has replaced this one.
  Daemon* Find(const DaemonKey& daemon, const DaemonConnection* connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteSeen(const std::vector<v1::Rank>& ranks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the daemons that left more than a day ago, and all but the last 1024 others.
  void ForgetAbsent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const JobClock& clock_;
  const uint32_t credits_;
  const LogSink log_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<DaemonKey, Daemon> daemons_ ABSL_GUARDED_BY(mutex_);
  std::map<JobKey, SeenJob> seen_jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NODES_DAEMON_REGISTRY_H_
