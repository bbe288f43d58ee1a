#include "aggregator/nodes/daemon_registry.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/job_name.h"

namespace lockstep::aggregator {
namespace {

constexpr uint32_t kProtocolMin = 1;
constexpr uint32_t kProtocolMax = 1;
// Disconnected daemons that may return. The captures of one that is away for longer have ended.
constexpr size_t kMostAbsent = 1024;
constexpr Nanos kAbsentFor = Nanos::Seconds(86400);
// Bounded, because users choose the names of jobs.
constexpr size_t kMostSeenJobs = 256;

}  // namespace

v1::Version DaemonRegistry::Protocol() {
  v1::Version version;
  version.set_protocol_min(kProtocolMin);
  version.set_protocol_max(kProtocolMax);
  return version;
}

v1::Register DaemonRegistry::Connect(const v1::DaemonHello& hello,
                                     std::shared_ptr<DaemonConnection> connection,
                                     v1::RunningCaptures running) {
  v1::Register reply;
  *reply.mutable_version() = Protocol();
  if (hello.version().protocol_min() > kProtocolMax || hello.version().protocol_max() < kProtocolMin) {
    reply.set_refused(absl::StrFormat(
        "this aggregator supports protocols %u to %u and the daemon %u to %u: install the same version of "
        "Lockstep on both",
        kProtocolMin, kProtocolMax, hello.version().protocol_min(), hello.version().protocol_max()));
    log_(LogLevel::kWarning, "daemon_refused", {{"host", hello.host_name()}, {"reason", reply.refused()}});
    return reply;
  }
  if (hello.node_id().empty()) {
    reply.set_refused("the daemon names no node: give it --node-id");
    return reply;
  }
  const DaemonKey key{hello.node_id(), hello.session()};
  const std::shared_ptr<DaemonSequence> sequence = Sequence(key);
  std::shared_ptr<DaemonConnection> replaced;
  {
    MutexLock in_order(&sequence->mutex);
    MutexLock lock(&mutex_);
    if (closing_) {
      reply.set_refused("the aggregator is ending");
      return reply;
    }
    Daemon& daemon = daemons_[key];
    reply.set_acked_sequence(sequence->durable);
    reply.set_credits(credits_);
    *reply.mutable_running() = std::move(running);
    v1::FromAggregator message;
    *message.mutable_register_() = reply;
    connection->Send(message);
    replaced = std::exchange(daemon.connection, std::move(connection));
    daemon.host_name = hello.host_name();
    daemon.version = hello.version();
    daemon.connected = clock_.Now();
  }
  if (replaced != nullptr) replaced->Close();
  log_(LogLevel::kInfo, "daemon_connected",
       {{"host", hello.host_name()}, {"node", hello.node_id()}, {"version", hello.version().program()}});
  return reply;
}

DaemonRegistry::Daemon* DaemonRegistry::Find(const DaemonKey& key, const DaemonConnection* connection) {
  const auto it = daemons_.find(key);
  return it != daemons_.end() && it->second.connection.get() == connection ? &it->second : nullptr;
}

bool DaemonRegistry::IsConnected(const DaemonKey& key, const DaemonConnection* connection) const {
  MutexLock lock(&mutex_);
  const auto it = daemons_.find(key);
  return it != daemons_.end() && it->second.connection.get() == connection;
}

void DaemonRegistry::SetRanks(const DaemonKey& key, const DaemonConnection* connection,
                              const v1::RankUpdate& ranks) {
  MutexLock lock(&mutex_);
  Daemon* const daemon = Find(key, connection);
  if (daemon == nullptr) return;
  NoteSeen(daemon->ranks);
  daemon->ranks.assign(ranks.ranks().begin(), ranks.ranks().end());
  daemon->departed.assign(ranks.departed().begin(), ranks.departed().end());
  NoteSeen(daemon->ranks);
  daemon->ranks_received = true;
  changed_.SignalAll();
}

void DaemonRegistry::SetHealth(const DaemonKey& key, const DaemonConnection* connection,
                               const v1::DaemonHealth& health) {
  MutexLock lock(&mutex_);
  if (Daemon* const daemon = Find(key, connection)) daemon->health = health;
}

void DaemonRegistry::Disconnect(const DaemonKey& key, const DaemonConnection* connection) {
  std::string host;
  {
    MutexLock lock(&mutex_);
    Daemon* const daemon = Find(key, connection);
    if (daemon == nullptr) return;
    daemon->connection = nullptr;
    daemon->left = clock_.Now();
    host = daemon->host_name;
    NoteSeen(daemon->ranks);
    ForgetAbsent();
  }
  log_(LogLevel::kInfo, "daemon_left", {{"host", host}, {"node", key.node_id}});
}

void DaemonRegistry::ForgetAbsent() {
  std::vector<std::pair<JobTime, DaemonKey>> absent;
  for (const auto& [key, daemon] : daemons_) {
    if (daemon.connection == nullptr) absent.emplace_back(daemon.left, key);
  }
  std::sort(absent.begin(), absent.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const JobTime now = clock_.Now();
  for (size_t i = 0; i < absent.size(); ++i) {
    if (i >= kMostAbsent || now - absent[i].first > kAbsentFor) daemons_.erase(absent[i].second);
  }
}

std::shared_ptr<DaemonSequence> DaemonRegistry::Sequence(const DaemonKey& key) {
  MutexLock lock(&mutex_);
  const auto [daemon, is_new] = daemons_.try_emplace(key);
  // One that an earlier process of the aggregator knew has a day to come.
  if (is_new) daemon->second.left = clock_.Now();
  return daemon->second.sequence;
}

void DaemonRegistry::Acknowledge(const DaemonKey& key, uint64_t through) {
  {
    const std::shared_ptr<DaemonSequence> sequence = Sequence(key);
    MutexLock in_order(&sequence->mutex);
    sequence->durable = std::max(sequence->durable, through);
  }
  v1::FromAggregator ack;
  ack.mutable_ack()->set_through(through);
  ack.mutable_ack()->set_credits(credits_);
  Send(key, ack);
}

bool DaemonRegistry::Send(const DaemonKey& key, const v1::FromAggregator& message) const {
  std::shared_ptr<DaemonConnection> connection;
  {
    MutexLock lock(&mutex_);
    const auto it = daemons_.find(key);
    if (it != daemons_.end()) connection = it->second.connection;
  }
  return connection != nullptr && connection->Send(message);
}

std::map<DaemonKey, std::string> DaemonRegistry::Connected() const {
  MutexLock lock(&mutex_);
  std::map<DaemonKey, std::string> hosts;
  for (const auto& [key, daemon] : daemons_) {
    if (daemon.connection != nullptr) hosts.emplace(key, daemon.host_name);
  }
  return hosts;
}

std::vector<SeenRank> DaemonRegistry::Collect(const std::vector<v1::Rank> Daemon::*list) const {
  MutexLock lock(&mutex_);
  std::vector<SeenRank> out;
  for (const auto& [key, daemon] : daemons_) {
    if (daemon.connection == nullptr) continue;
    for (const v1::Rank& rank : daemon.*list) out.push_back({key, daemon.host_name, rank});
  }
  return out;
}

std::vector<SeenRank> DaemonRegistry::Ranks() const { return Collect(&Daemon::ranks); }

std::vector<SeenRank> DaemonRegistry::RanksOf(const DaemonKey& daemon) const {
  MutexLock lock(&mutex_);
  std::vector<SeenRank> out;
  const auto found = daemons_.find(daemon);
  if (found == daemons_.end() || found->second.connection == nullptr) return out;
  for (const v1::Rank& rank : found->second.ranks) out.push_back({daemon, found->second.host_name, rank});
  return out;
}

std::vector<SeenRank> DaemonRegistry::Departed() const { return Collect(&Daemon::departed); }

std::set<JobKey> DaemonRegistry::JobsNamed(const std::string& name) const {
  MutexLock lock(&mutex_);
  std::set<JobKey> jobs;
  for (const auto& [key, daemon] : daemons_) {
    for (const v1::Rank& rank : daemon.ranks) {
      if (SelectsJob(name, {rank.job(), rank.job_source(), rank.scheduler_job()}))
        jobs.insert({rank.job(), rank.uid()});
    }
  }
  return jobs;
}

void DaemonRegistry::AddTo(v1::StatusReply& reply, const std::function<bool(const v1::Rank&)>& shown) const {
  MutexLock lock(&mutex_);
  for (const auto& [key, daemon] : daemons_) {
    if (daemon.connection == nullptr) continue;
    v1::DaemonStatus& status = *reply.add_daemons();
    status.set_node_id(key.node_id);
    status.set_host_name(daemon.host_name);
    status.set_version(daemon.version.program());
    *status.mutable_protocol() = daemon.version;
    if (daemon.health) *status.mutable_health() = *daemon.health;
    status.set_connected_ns(daemon.connected.ns());
    for (const v1::Rank& rank : daemon.ranks) {
      if (shown(rank)) *status.add_ranks() = rank;
    }
  }
}

std::vector<v1::AbsentDaemon> DaemonRegistry::Absent() const {
  std::vector<v1::AbsentDaemon> out;
  MutexLock lock(&mutex_);
  std::map<std::string, const Daemon*> last;  // by node
  for (const auto& entry : daemons_) {
    const Daemon*& known = last[entry.first.node_id];
    const bool newer = known == nullptr || entry.second.connection != nullptr ||
                       (known->connection == nullptr && entry.second.left > known->left);
    if (newer) known = &entry.second;
  }
  for (const auto& entry : last) {
    const Nanos away = clock_.Now() - entry.second->left;
    if (entry.second->connection != nullptr || entry.second->connected == JobTime() || away > kAbsentFor)
      continue;
    v1::AbsentDaemon& absent = out.emplace_back();
    absent.set_node_id(entry.first);
    absent.set_host_name(entry.second->host_name);
    absent.set_away_ns(away.ns());
  }
  return out;
}

void DaemonRegistry::NoteSeen(const std::vector<v1::Rank>& ranks) {
  for (const v1::Rank& rank : ranks) {
    SeenJob& seen = seen_jobs_[{rank.job(), rank.uid()}];
    seen.world_size = std::max(seen.world_size, rank.world_size());
    seen.last_seen = clock_.Now();
  }
  while (seen_jobs_.size() > kMostSeenJobs) {
    seen_jobs_.erase(std::min_element(seen_jobs_.begin(), seen_jobs_.end(), [](const auto& a, const auto& b) {
      return a.second.last_seen < b.second.last_seen;
    }));
  }
}

std::map<JobKey, SeenJob> DaemonRegistry::SeenJobs() const {
  MutexLock lock(&mutex_);
  return seen_jobs_;
}

DaemonCounts DaemonRegistry::counts() const {
  MutexLock lock(&mutex_);
  DaemonCounts counts;
  for (const auto& daemon : daemons_) {
    if (daemon.second.connection == nullptr) continue;
    ++counts.daemons;
    counts.ranks += daemon.second.ranks.size();
  }
  return counts;
}

bool DaemonRegistry::WaitForDaemon(Nanos at_most) {
  MutexLock lock(&mutex_);
  return changed_.WaitFor(&mutex_, at_most, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::any_of(daemons_.begin(), daemons_.end(), [](const auto& d) {
      return d.second.connection != nullptr && d.second.ranks_received;
    });
  });
}

void DaemonRegistry::RefuseNew() {
  MutexLock lock(&mutex_);
  closing_ = true;
}

void DaemonRegistry::CloseAll() {
  std::vector<std::shared_ptr<DaemonConnection>> connections;
  {
    MutexLock lock(&mutex_);
    for (auto& [key, daemon] : daemons_) {
      if (daemon.connection != nullptr) connections.push_back(daemon.connection);
    }
  }
  for (const auto& connection : connections) connection->Close();
}

}  // namespace lockstep::aggregator
