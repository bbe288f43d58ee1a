#include "daemon/clients/rank_stacks.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "daemon/node/process.h"

namespace lockstep::daemon {
namespace {

constexpr char kNoTime[] = "the daemon had no time left for it: ask again";

bool IsTarget(const v1::NodeProgress& node, const v1::ProcessProgress& process,
              const RankStacks::Targets& targets) {
  const ProcessId id = FromProto(process.rank().process());
  return std::any_of(targets.begin(), targets.end(), [&](const v1::StackTarget& target) {
    return target.node_id() == node.node_id() && FromProto(target.process()) == id;
  });
}

}  // namespace

RankStacks::~RankStacks() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void RankStacks::AddTo(v1::NodeProgress node, const Targets& targets, StackKinds kinds, Done done) {
  Request request;
  for (int i = 0; i < node.processes_size() && request.processes.size() < kMostStacks; ++i) {
    const v1::ProcessProgress& process = node.processes(i);
    if (process.gone_unix_ns() == 0 && IsTarget(node, process, targets)) request.processes.push_back(i);
  }
  if (request.processes.empty()) return done(std::move(node));
  request.node = std::move(node);
  request.done = std::move(done);
  request.kinds = kinds;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  {
    MutexLock lock(&mutex_);
    if (requests_.size() < kMostRequests) {
      requests_.push_back(std::move(request));
      changed_.SignalAll();
      return;
    }
  }
  for (const int i : request.processes)
    *request.node.mutable_processes(i)->mutable_stacks() = StacksWithProblem(kNoTime, kinds);
  request.done(std::move(request.node));
}

void RankStacks::Run() {
  while (true) {
    auto request = std::make_shared<Request>();
    {
      MutexLock lock(&mutex_);
      changed_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !requests_.empty();
      });
      if (stopping_) return;
      *request = std::move(requests_.front());
      requests_.pop_front();
    }
    Read(*request);
    loop_.Post([request] { request->done(std::move(request->node)); });
  }
}

void RankStacks::Read(Request& request) const {
  const auto begin = std::chrono::steady_clock::now();
  for (const int i : request.processes) {
    v1::ProcessProgress& process = *request.node.mutable_processes(i);
    if (std::chrono::steady_clock::now() - begin > std::chrono::nanoseconds(kWithin.ns())) {
      *process.mutable_stacks() = StacksWithProblem(kNoTime, request.kinds);
      continue;
    }
    const ProcessId id = FromProto(process.rank().process());
    *process.mutable_stacks() = access_.ReadStacks(id.pid, id.start_ticks, request.kinds);
  }
}

}  // namespace lockstep::daemon
