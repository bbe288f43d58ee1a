#include "daemon/ras/ras_reader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/node/process.h"
#include "daemon/node/process_traits.h"
#include "daemon/ras/ras_place.h"

namespace lockstep::daemon {

RasReader::~RasReader() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void RasReader::AddTo(v1::NodeProgress node, const Targets& targets, Done done) {
  const auto is_target = [&](const v1::ProcessProgress& process) {
    const ProcessId id = FromProto(process.rank().process());
    return process.gone_unix_ns() == 0 &&
           std::any_of(targets.begin(), targets.end(), [&](const v1::StackTarget& target) {
             return target.node_id() == node.node_id() && FromProto(target.process()) == id;
           });
  };
  const auto found = std::find_if(node.processes().begin(), node.processes().end(), is_target);
  if (found == node.processes().end()) return done(std::move(node));
  const int process = static_cast<int>(found - node.processes().begin());
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  {
    MutexLock lock(&mutex_);
    if (requests_.size() < kMostRequests) {
      requests_.push_back({std::move(node), process, std::move(done)});
      changed_.SignalAll();
      return;
    }
  }
  node.mutable_processes(process)->mutable_ras()->set_problem(
      "the daemon had no time left for it: ask again");
  done(std::move(node));
}

void RasReader::Run() {
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
    v1::ProcessProgress& process = *request->node.mutable_processes(request->process);
    *process.mutable_ras() = Ask(process.rank());
    loop_.Post([request] { request->done(std::move(request->node)); });
  }
}

v1::RasAnswer RasReader::Ask(const v1::Rank& rank) const {
  const int32_t pid = rank.process().pid();
  const absl::StatusOr<RasPlace> place = RasPlaceOf(EnvironmentLines(access_, pid));
  v1::RasAnswer answer;
  if (place.ok()) {
    answer = AskRas(*place, rank.uid(), limits_, table_);
  } else {
    answer.set_problem(std::string(place.status().message()));
  }
  const int32_t inner = PidInItsNamespace(access_, pid);
  answer.set_pid(inner == 0 ? pid : inner);
  return answer;
}

}  // namespace lockstep::daemon
