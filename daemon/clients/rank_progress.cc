#include "daemon/clients/rank_progress.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/job_name.h"
#include "base/log/clean_text.h"
#include "base/rpc/channel.h"
#include "daemon/node/process_activity.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kLongestName = 64;
// Of the operations that have ended, only these newest operations are sent, and the last one that has ended.
// The host may be further ahead of its GPU.
constexpr uint64_t kEndedOperations = 16;
// An answer is one message, so a process with a full table must not take the room of others.
constexpr size_t kMostBytes = rpc::kMaxMessageBytes / 2;
constexpr size_t kMostBytesOfProcess = 256u << 10;
constexpr size_t kMostNetworkOperations = 256;

// The texts come from a rank's memory.
void ToProto(const ring::OperationProgress& from, v1::OperationProgress& to) {
  to.set_position(from.position);
  to.set_number(from.number);
  to.set_function(CleanText(from.function, kLongestName));
  to.set_datatype(CleanText(from.datatype, kLongestName));
  to.set_count(from.count);
  to.set_peer(from.peer);
  to.set_entered_unix_ns(from.entered.ns());
  to.set_launched_unix_ns(from.launched.ns());
  to.set_started_unix_ns(from.started.ns());
  to.set_completed_unix_ns(from.completed.ns());
}

// Returns its position; 0: none has.
uint64_t LastEnded(const ring::CommunicatorProgress& communicator) {
  uint64_t position = 0;
  for (const ring::OperationProgress& operation : communicator.operations) {
    if (operation.completed != HostTime()) position = operation.position;
  }
  return position;
}

// Adds the communicators that fit into `most_bytes`, and counts the operations of the others.
void AddCommunicators(const std::vector<ring::CommunicatorProgress>& read, size_t most_bytes,
                      v1::ProcessProgress& process) {
  size_t bytes = 0;
  uint64_t missing = 0;
  for (const ring::CommunicatorProgress& from : read) {
    v1::CommunicatorProgress to;
    to.set_id(from.communicator);
    to.set_name(CleanText(from.name, kLongestName));
    to.set_rank(from.rank);
    to.set_ranks(from.ranks);
    to.set_reports_launches(from.reports_launches);
    to.set_reports_kernels(from.reports_kernels);
    to.set_operations_entered(from.operations_entered);
    to.set_collectives_entered(from.collectives_entered);
    missing += from.unreadable;
    const uint64_t last_ended = LastEnded(from);
    for (const ring::OperationProgress& operation : from.operations) {
      const bool ended = operation.completed != HostTime();
      if (ended && operation.position != last_ended &&
          from.operations_entered - operation.position >= kEndedOperations)
        continue;
      ToProto(operation, *to.add_operations());
    }
    bytes += to.ByteSizeLong();
    if (bytes <= most_bytes) {
      *process.add_communicators() = std::move(to);
    } else {
      missing += from.operations.size();
    }
  }
  process.set_unreadable(missing);
}

v1::NetworkProgress::Wait ToProto(ring::NetworkWait wait) {
  switch (wait) {
    case ring::NetworkWait::kNone:
      return v1::NetworkProgress::NONE;
    case ring::NetworkWait::kGpu:
      return v1::NetworkProgress::GPU;
    case ring::NetworkWait::kPeer:
      return v1::NetworkProgress::PEER;
    case ring::NetworkWait::kNetwork:
      return v1::NetworkProgress::NETWORK;
    case ring::NetworkWait::kFlush:
      return v1::NetworkProgress::FLUSH;
  }
  return v1::NetworkProgress::NONE;
}

void AddNetwork(const std::vector<ring::NetworkProgress>& read, v1::ProcessProgress& process) {
  const size_t sent = std::min(read.size(), kMostNetworkOperations);
  for (size_t i = 0; i < sent; ++i) {
    v1::NetworkProgress& to = *process.add_network();
    to.set_communicator(read[i].communicator);
    to.set_position(read[i].position);
    to.set_sends(read[i].direction == ring::NetworkDirection::kSend);
    to.set_peer(read[i].peer);
    to.set_channel(read[i].channel);
    to.set_steps(read[i].steps);
    to.set_steps_done(read[i].steps_done);
    to.set_wait(ToProto(read[i].wait));
    to.set_moved_unix_ns(read[i].moved.ns());
  }
  process.set_network_missing(read.size() - sent);
}

bool Selects(const std::string& job, const v1::Rank& rank) {
  return job.empty() || SelectsJob(job, {rank.job(), rank.job_source(), rank.scheduler_job()});
}

}  // namespace

v1::NodeProgress RankProgress::Read(const RankFilter& filter, const std::string& job) const {
  v1::NodeProgress node;
  node.set_node_id(node_.id);
  node.set_host_name(node_.host_name);
  node.set_now_unix_ns(clock_.Realtime().ns());
  using Place = std::tuple<uint32_t, std::string, int32_t>;
  std::set<Place> living;
  std::vector<v1::Rank> ranks = registry_.Ranks(filter);
  const size_t processes = std::max<size_t>(ranks.size() + departed_.ranks().size(), 1);
  const size_t share = std::min(kMostBytesOfProcess, kMostBytes / processes);
  for (v1::Rank& rank : ranks) {
    if (!Selects(job, rank)) continue;
    living.insert({rank.uid(), rank.job(), rank.rank()});
    v1::ProcessProgress& process = *node.add_processes();
    const ProcessId id = FromProto(rank.process());
    if (std::optional<v1::ProcessState> state = ReadActivity(access_, id))
      *process.mutable_state() = *std::move(state);
    if (const std::shared_ptr<DaemonSegment> segment = clients_.SegmentOf(id)) {
      AddCommunicators(segment->Progress(), share, process);
      AddNetwork(segment->Network(), process);
    }
    *process.mutable_rank() = std::move(rank);
  }
  for (const DepartedRank& gone : departed_.ranks()) {
    if (!filter.Allows(gone.process)) continue;
    v1::Rank rank;
    ToProto(gone.process, &rank);
    if (!Selects(job, rank) || living.contains({rank.uid(), rank.job(), rank.rank()})) continue;
    v1::ProcessProgress& process = *node.add_processes();
    process.set_gone_unix_ns(gone.at.ns());
    process.set_gone_reason(gone.why);
    AddCommunicators(gone.communicators, share, process);
    *process.mutable_rank() = std::move(rank);
  }
  return node;
}

}  // namespace lockstep::daemon
