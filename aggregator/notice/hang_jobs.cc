#include "aggregator/notice/hang_jobs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "capture/model/kernel_name.h"

namespace lockstep::aggregator {
namespace {

using analysis::HangRank;

// The stamp comes from a rank's memory. A stamp in the future has the age 0.
Nanos AgeOf(int64_t stamp_ns, int64_t now_ns) {
  return stamp_ns <= 0 || stamp_ns > now_ns ? Nanos() : Nanos(now_ns - stamp_ns);
}

analysis::HangOperation OperationOf(const v1::OperationProgress& from, int64_t now_ns) {
  analysis::HangOperation operation;
  operation.position = from.position();
  operation.number = from.number();
  operation.function = from.function();
  operation.datatype = from.datatype();
  operation.count = from.count();
  operation.peer = from.peer();
  operation.entered_ago = AgeOf(from.entered_unix_ns(), now_ns);
  operation.launched = from.launched_unix_ns() != 0;
  operation.started = from.started_unix_ns() != 0;
  operation.completed = from.completed_unix_ns() != 0;
  if (operation.started) operation.started_ago = AgeOf(from.started_unix_ns(), now_ns);
  if (operation.completed) operation.completed_ago = AgeOf(from.completed_unix_ns(), now_ns);
  return operation;
}

analysis::HangCommunicator CommunicatorOf(const v1::CommunicatorProgress& from, int64_t now_ns) {
  analysis::HangCommunicator communicator;
  communicator.id = from.id();
  communicator.name = from.name();
  communicator.rank = from.rank();
  communicator.ranks = from.ranks();
  communicator.reports_launches = from.reports_launches();
  communicator.reports_kernels = from.reports_kernels();
  communicator.collectives_entered = from.collectives_entered();
  for (const v1::OperationProgress& operation : from.operations())
    communicator.operations.push_back(OperationOf(operation, now_ns));
  return communicator;
}

analysis::HangTransfer TransferOf(const v1::NetworkProgress& from, int64_t now_ns) {
  using Wait = analysis::HangTransfer::Wait;
  using Direction = analysis::HangTransfer::Direction;
  analysis::HangTransfer transfer;
  transfer.communicator = from.communicator();
  transfer.position = from.position();
  transfer.direction = from.sends() ? Direction::kSend : Direction::kReceive;
  transfer.peer = from.peer();
  transfer.channel = from.channel();
  transfer.steps = from.steps();
  transfer.steps_done = from.steps_done();
  switch (from.wait()) {
    case v1::NetworkProgress::GPU:
      transfer.wait = Wait::kGpu;
      break;
    case v1::NetworkProgress::PEER:
      transfer.wait = Wait::kPeer;
      break;
    case v1::NetworkProgress::NETWORK:
      transfer.wait = Wait::kNetwork;
      break;
    case v1::NetworkProgress::FLUSH:
      transfer.wait = Wait::kFlush;
      break;
    default:
      transfer.wait = Wait::kNone;
      break;
  }
  transfer.moved_ago = AgeOf(from.moved_unix_ns(), now_ns);
  return transfer;
}

HangRank::Life LifeOf(const v1::ProcessProgress& process) {
  if (process.gone_unix_ns() != 0) return HangRank::Life::kEnded;
  if (!process.has_state()) return HangRank::Life::kUnknown;
  const std::string& state = process.state().state();
  if (state == "T" || state == "t") return HangRank::Life::kStopped;
  return state == "Z" || state == "X" ? HangRank::Life::kEnded : HangRank::Life::kRunning;
}

struct EarlierLook {
  int64_t now_ns = 0;
  v1::ProcessState state;
  v1::PythonStack python;
};
using NodeProcess = std::tuple<std::string, int32_t, uint64_t>;  // node, pid, start
using EarlierLooks = std::map<NodeProcess, EarlierLook>;

NodeProcess NameOf(const v1::NodeProgress& node, const v1::ProcessProgress& process) {
  return {node.node_id(), process.rank().process().pid(), process.rank().process().start_ticks()};
}

EarlierLooks LooksOf(const v1::ProgressReply* before) {
  EarlierLooks looks;
  if (before == nullptr) return looks;
  for (const v1::NodeProgress& node : before->nodes()) {
    for (const v1::ProcessProgress& process : node.processes()) {
      if (process.has_state()) {
        looks[NameOf(node, process)] = {node.now_unix_ns(), process.state(), process.stacks().python()};
      }
    }
  }
  return looks;
}

void SetActivity(const v1::NodeProgress& node, const v1::ProcessProgress& process, const EarlierLooks& looks,
                 HangRank& rank) {
  const auto look = looks.find(NameOf(node, process));
  if (look == looks.end() || !process.has_state()) return;
  const double elapsed = static_cast<double>(node.now_unix_ns() - look->second.now_ns);
  const v1::ProcessState& before = look->second.state;
  const double used = static_cast<double>(process.state().cpu_ns() - before.cpu_ns());
  if (elapsed > 0 && used >= 0) rank.cpu_share = used / elapsed;
  const double bytes = static_cast<double>(process.state().transferred_bytes()) -
                       static_cast<double>(before.transferred_bytes());
  if (elapsed > 0 && bytes >= 0 && before.transferred_bytes() != 0)
    rank.transfer_rate = bytes / elapsed * 1e9;
}

bool HasMoved(const v1::NodeProgress& node, const v1::ProcessProgress& process, const EarlierLooks& looks) {
  const auto look = looks.find(NameOf(node, process));
  if (look == looks.end() || look->second.python.frames().empty() ||
      process.stacks().python().frames().empty())
    return false;
  const auto& before = look->second.python.frames();
  const auto& now = process.stacks().python().frames();
  return !std::equal(before.begin(), before.end(), now.begin(), now.end(),
                     [](const v1::PythonFrame& a, const v1::PythonFrame& b) {
                       return a.line() == b.line() && a.function() == b.function() && a.file() == b.file();
                     });
}

std::string ReadableName(const std::string& symbol) {
  const std::string readable = capture::DemangledKernelName(symbol);
  return readable.empty() ? symbol : readable;
}

analysis::HangStacks StacksOf(const v1::ProcessStacks& from) {
  analysis::HangStacks stacks;
  for (const v1::PythonFrame& frame : from.python().frames())
    stacks.python.frames.push_back({frame.file(), frame.line(), frame.function()});
  stacks.python.more = from.python().more();
  stacks.python_problem = from.python().problem();
  for (const v1::NativeStack& native : from.native()) {
    analysis::HangStack& to = stacks.native.emplace_back();
    to.thread = native.thread();
    to.more = native.more();
    for (const v1::NativeFrame& frame : native.frames())
      to.frames.push_back({frame.file(), 0, ReadableName(frame.symbol())});
  }
  stacks.native_problem = from.native_problem();
  return stacks;
}

HangRank RankOf(const v1::NodeProgress& node, const v1::ProcessProgress& process, const EarlierLooks& looks) {
  HangRank rank;
  rank.rank = RankId(process.rank().rank());
  rank.host = node.host_name();
  rank.local_rank = process.rank().local_rank();
  rank.pid = process.rank().process().pid();
  rank.life = LifeOf(process);
  rank.end_reason = process.gone_reason().empty() ? "it waits for its parent" : process.gone_reason();
  rank.ended_ago = AgeOf(process.gone_unix_ns(), node.now_unix_ns());
  SetActivity(node, process, looks, rank);
  rank.wait_channel = process.state().wait_channel();
  if (process.has_stacks()) rank.stacks = StacksOf(process.stacks());
  rank.moved = HasMoved(node, process, looks);
  rank.unreadable = process.unreadable();
  for (const v1::CommunicatorProgress& communicator : process.communicators())
    rank.communicators.push_back(CommunicatorOf(communicator, node.now_unix_ns()));
  for (const v1::NetworkProgress& network : process.network())
    rank.transfers.push_back(TransferOf(network, node.now_unix_ns()));
  rank.missing_transfers = process.network_missing();
  return rank;
}

bool HasEnded(const HangRank& rank) { return rank.life == HangRank::Life::kEnded; }

// A rank that was started again, perhaps on another node, replaces the one that has ended. Returns false if
// no rank lives.
bool KeepLatest(analysis::HangJob& job) {
  std::set<RankId> living;
  for (const HangRank& rank : job.ranks) {
    if (!HasEnded(rank)) living.insert(rank.rank);
  }
  std::erase_if(job.ranks,
                [&](const HangRank& rank) { return HasEnded(rank) && living.contains(rank.rank); });
  return !living.empty();
}

}  // namespace

std::vector<analysis::HangJob> HangJobsOf(const v1::ProgressReply& now, const v1::ProgressReply* before) {
  const EarlierLooks looks = LooksOf(before);
  std::map<std::pair<uint32_t, std::string>, analysis::HangJob> by_name;  // by user and name
  for (const v1::NodeProgress& node : now.nodes()) {
    for (const v1::ProcessProgress& process : node.processes()) {
      const v1::Rank& rank = process.rank();
      if (rank.rank() < 0) continue;
      analysis::HangJob& job = by_name[{rank.uid(), rank.job()}];
      job.job = rank.job();
      job.uid = rank.uid();
      job.world_size = std::max(job.world_size, rank.world_size());
      job.ranks.push_back(RankOf(node, process, looks));
    }
  }
  std::vector<analysis::HangJob> jobs;
  for (auto& [name, job] : by_name) {
    if (!KeepLatest(job)) continue;
    std::sort(job.ranks.begin(), job.ranks.end(),
              [](const HangRank& a, const HangRank& b) { return a.rank < b.rank; });
    jobs.push_back(std::move(job));
  }
  return jobs;
}

std::vector<v1::StackTarget> StackTargetsOf(const v1::ProgressReply& look, uint32_t uid,
                                            const std::string& job, const std::set<RankId>& ranks) {
  std::vector<v1::StackTarget> targets;
  for (const v1::NodeProgress& node : look.nodes()) {
    for (const v1::ProcessProgress& process : node.processes()) {
      const v1::Rank& rank = process.rank();
      if (process.gone_unix_ns() != 0 || rank.uid() != uid || rank.job() != job) continue;
      if (!ranks.contains(RankId(rank.rank()))) continue;
      v1::StackTarget& target = targets.emplace_back();
      target.set_node_id(node.node_id());
      *target.mutable_process() = rank.process();
    }
  }
  return targets;
}

}  // namespace lockstep::aggregator
