#include "daemon/ras/ras_reader.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/node/process.h"
#include "daemon/node/process_traits.h"
#include "daemon/ras/ras_place.h"

namespace lockstep::daemon {

void RasReader::AddTo(v1::NodeProgress node, const Targets& targets, Done done) {
  const auto found = std::find_if(
      node.processes().begin(), node.processes().end(),
      [&](const v1::ProcessProgress& process) { return IsLivingTarget(process, node.node_id(), targets); });
  if (found == node.processes().end()) return done(std::move(node));
  const int process = static_cast<int>(found - node.processes().begin());
  // Both parts of the work share the answer.
  const auto answer = std::make_shared<v1::NodeProgress>(std::move(node));
  v1::ProcessProgress& asked = *answer->mutable_processes(process);
  const auto shared_done = std::make_shared<Done>(std::move(done));
  const bool added = thread_.Add({.run = [this, answer, &asked] { *asked.mutable_ras() = Ask(asked.rank()); },
                                  .done = [answer, shared_done] { (*shared_done)(std::move(*answer)); }});
  if (added) return;
  asked.mutable_ras()->set_problem("the daemon had no time left for it: ask again");
  (*shared_done)(std::move(*answer));
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
