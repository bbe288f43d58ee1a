// What the hub tells of itself.
#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "aggregator/ingest/hub.h"
#include "base/job_name.h"

namespace lockstep::ingest {
namespace {

// Whoever starts jobs names them.
constexpr size_t kMostSeenJobs = 256;

}  // namespace

void Hub::FillClock(const Exchanges& exchanges, v1::DaemonStatus& status) {
  constexpr size_t kNewest = 64;
  const store::ClockExchange* best = nullptr;
  size_t seen = 0;
  for (auto e = exchanges.rbegin(); e != exchanges.rend() && seen < kNewest; ++e, ++seen) {
    if (best == nullptr || RoundTrip(*e) < RoundTrip(*best)) best = &*e;
  }
  if (best == nullptr) return;
  status.set_clock_offset_ns(((best->t1.ns() - best->t2.ns()) + (best->t4.ns() - best->t3.ns())) / 2);
  status.set_clock_bound_ns(std::max<int64_t>(RoundTrip(*best).ns() / 2, 1));
}

v1::StatusReply Hub::Status(const std::string& job, const Caller& caller) const {
  const auto shown = [&](const std::string& name, uid_t owner) {
    return caller.MayUse(owner) && (job.empty() || name == job);
  };
  v1::StatusReply reply;
  reply.mutable_version()->set_protocol_min(kProtocolMin);
  reply.mutable_version()->set_protocol_max(kProtocolMax);
  std::vector<std::shared_ptr<CaptureSession>> sessions = Sessions();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // Whole jobs, as a capture takes them: on some nodes a rank may not know the scheduler's name for its
    // job.
    std::set<std::pair<std::string, uint32_t>> meant;
    for (const auto& [key, daemon] : daemons_) {
      for (const v1::Rank& rank : daemon.ranks) {
        if (MeansJob(job, {rank.job(), rank.job_source(), rank.scheduler_job()}))
          meant.insert({rank.job(), rank.uid()});
      }
    }
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
        const bool asked = job.empty() || meant.contains({rank.job(), rank.uid()});
        if (caller.MayUse(rank.uid()) && asked) *status.add_ranks() = rank;
      }
      if (const auto it = clocks_.find(key.node_id); it != clocks_.end()) FillClock(it->second, status);
    }
    for (const FinishedCapture& capture : finished_) {
      if (shown(capture.status.job(), capture.uid)) *reply.add_captures() = capture.status;
    }
  }
  for (const auto& session : sessions) {
    if (session->purpose() == Purpose::kSample) continue;
    if (shown(session->selection().job, session->selection().uid)) *reply.add_captures() = session->Status();
  }
  return reply;
}

std::vector<v1::AbsentDaemon> Hub::Absent() const {
  constexpr Nanos kRemembered = Nanos::Seconds(86400);
  std::vector<v1::AbsentDaemon> out;
  std::lock_guard<std::mutex> lock(mutex_);
  std::map<std::string, const Daemon*> last;  // by node
  for (const auto& entry : daemons_) {
    const Daemon*& known = last[entry.first.node_id];
    const bool newer = known == nullptr || entry.second.connection != nullptr ||
                       (known->connection == nullptr && entry.second.left > known->left);
    if (newer) known = &entry.second;
  }
  for (const auto& entry : last) {
    const Nanos away = clock_.Now() - entry.second->left;
    if (entry.second->connection != nullptr || entry.second->left == JobTime() || away > kRemembered)
      continue;
    v1::AbsentDaemon& absent = out.emplace_back();
    absent.set_node_id(entry.first);
    absent.set_host_name(entry.second->host_name);
    absent.set_away_ns(away.ns());
  }
  return out;
}

HubStats Hub::stats() const {
  std::lock_guard<std::mutex> lock(mutex_);
  HubStats stats = counts_;
  for (const auto& daemon : daemons_) {
    if (daemon.second.connection == nullptr) continue;
    ++stats.daemons;
    stats.ranks += daemon.second.ranks.size();
  }
  stats.captures_running =
      static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(), [](const auto& s) {
        return s.second->purpose() == Purpose::kCapture;
      }));
  return stats;
}

std::vector<RunningCapture> Hub::Running() const {
  std::vector<RunningCapture> out;
  for (const auto& session : Sessions()) {
    if (session->purpose() == Purpose::kSample) continue;
    const Selection& selection = session->selection();
    out.push_back({session->Status(), selection.uid, selection.world_size, selection.missing_ranks.size()});
  }
  return out;
}

void Hub::NoteSeen(const std::vector<v1::Rank>& ranks) {
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

std::map<JobKey, SeenJob> Hub::SeenJobs() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return seen_jobs_;
}

}  // namespace lockstep::ingest
