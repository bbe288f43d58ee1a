#include "aggregator/nodes/progress_requests.h"

#include <utility>

namespace lockstep::aggregator {
namespace {

constexpr int kMostStacks = 64;  // of all nodes
constexpr int kMostRas = 64;     // of all jobs

}  // namespace

v1::ProgressReply ProgressRequests::Ask(const v1::ProgressRequest& asked, Nanos at_most) {
  std::map<DaemonKey, std::string> awaited = daemons_.Connected();
  v1::FromAggregator message;
  message.mutable_read_progress()->set_native_stacks(asked.native_stacks());
  for (const v1::StackTarget& target : asked.stacks()) {
    if (message.read_progress().stacks_size() == kMostStacks) break;
    *message.mutable_read_progress()->add_stacks() = target;
  }
  for (const v1::StackTarget& target : asked.ras()) {
    if (message.read_progress().ras_size() == kMostRas) break;
    *message.mutable_read_progress()->add_ras() = target;
  }
  {
    MutexLock lock(&mutex_);
    message.mutable_read_progress()->set_request(next_++);
    open_[message.read_progress().request()].awaited = awaited;
  }
  // A daemon that has gone meanwhile counts as silent.
  for (const auto& [daemon, host] : awaited) daemons_.Send(daemon, message);
  MutexLock lock(&mutex_);
  const auto open = open_.find(message.read_progress().request());
  changed_.WaitFor(&mutex_, at_most, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || open->second.awaited.empty();
  });
  v1::ProgressReply reply = std::move(open->second.reply);
  for (const auto& [daemon, host] : open->second.awaited) reply.add_silent_hosts(host);
  open_.erase(open);
  return reply;
}

void ProgressRequests::OnAnswer(const DaemonKey& daemon, const v1::ProgressAnswer& answer) {
  MutexLock lock(&mutex_);
  const auto open = open_.find(answer.request());
  // A daemon may answer only once, and only for itself.
  if (open == open_.end() || open->second.awaited.erase(daemon) == 0) return;
  v1::NodeProgress& node = *open->second.reply.add_nodes();
  node = answer.node();
  node.set_node_id(daemon.node_id);
  changed_.SignalAll();
}

void ProgressRequests::Stop() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  changed_.SignalAll();
}

}  // namespace lockstep::aggregator
