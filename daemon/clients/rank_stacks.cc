#include "daemon/clients/rank_stacks.h"

#include <chrono>
#include <memory>
#include <utility>

#include "daemon/node/process.h"

namespace lockstep::daemon {
namespace {

constexpr char kNoTime[] = "the daemon had no time left for it: ask again";

}  // namespace

void RankStacks::AddTo(v1::NodeProgress node, const Targets& targets, StackKinds kinds, Done done) {
  auto request = std::make_shared<Request>();
  for (int i = 0; i < node.processes_size() && request->processes.size() < kMostStacks; ++i) {
    if (IsLivingTarget(node.processes(i), node.node_id(), targets)) request->processes.push_back(i);
  }
  if (request->processes.empty()) return done(std::move(node));
  request->node = std::move(node);
  request->done = std::move(done);
  request->kinds = kinds;
  const bool added = thread_.Add({.run = [this, request] { Read(*request); },
                                  .done = [request] { request->done(std::move(request->node)); }});
  if (added) return;
  for (const int i : request->processes)
    *request->node.mutable_processes(i)->mutable_stacks() = StacksWithProblem(kNoTime, kinds);
  request->done(std::move(request->node));
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
