#include "daemon/node/registry.h"

#include <algorithm>
#include <utility>

namespace lockstep::daemon {

const RegisteredProcess& Registry::Add(RegisteredProcess process) {
  if (const RegisteredProcess* known = Find(process.id)) {
    process.paths.kineto = process.paths.kineto || known->paths.kineto;
    // The job or rank may have changed: then the entry moves to its new name.
    if (NameOf(*known) != NameOf(process)) Erase(process.id);
  }
  const RankName name = NameOf(process);
  auto [it, fresh] = histories_.try_emplace(name);
  if (fresh) history_order_.push_back(name);
  History& history = it->second;
  if (history.last_gone == process.id && history.last_gone_incarnation != 0) {
    process.incarnation = history.last_gone_incarnation;
  } else if (history.living.empty()) {
    process.incarnation = ++history.incarnation;
  } else {
    process.incarnation = history.incarnation;
  }
  history.living[process.id] = process.incarnation;
  RegisteredProcess& entry = processes_[process.id];
  entry = std::move(process);
  ForgetOldHistories();
  return entry;
}

bool Registry::AddKineto(RegisteredProcess process) {
  if (RegisteredProcess* known = Find(process.id)) return !std::exchange(known->paths.kineto, true);
  process.paths = {.client = false, .kineto = true};
  Add(std::move(process));
  return true;
}

bool Registry::RemoveKineto(const ProcessId& id) {
  RegisteredProcess* process = Find(id);
  if (process == nullptr || !std::exchange(process->paths.kineto, false)) return false;
  if (!process->paths.client) Erase(id);
  return true;
}

void Registry::Remove(const ProcessId& id) {
  RegisteredProcess* process = Find(id);
  if (process == nullptr) return;
  if (!process->paths.kineto) return Erase(id);
  process->paths.client = false;
  process->client_version.clear();
  process->cupti_version = 0;
  process->cupti_holder.clear();
}

void Registry::Erase(const ProcessId& id) {
  const auto it = processes_.find(id);
  if (it == processes_.end()) return;
  const auto history = histories_.find(NameOf(it->second));
  if (history != histories_.end()) {
    history->second.living.erase(id);
    history->second.last_gone = id;
    history->second.last_gone_incarnation = it->second.incarnation;
  }
  processes_.erase(it);
}

RegisteredProcess* Registry::Find(const ProcessId& id) {
  const auto it = processes_.find(id);
  return it == processes_.end() ? nullptr : &it->second;
}

void Registry::ForgetOldHistories() {
  size_t looked_at = 0;
  while (history_order_.size() > kMostHistories && looked_at++ < history_order_.size()) {
    const RankName name = history_order_.front();
    history_order_.pop_front();
    const auto it = histories_.find(name);
    if (it != histories_.end() && !it->second.living.empty()) {
      history_order_.push_back(name);
    } else if (it != histories_.end()) {
      histories_.erase(it);
    }
  }
}

bool Registry::HasPid(int32_t pid) const {
  const auto found = processes_.lower_bound(ProcessId{pid, 0});
  return found != processes_.end() && found->first.pid == pid && found->second.paths.client;
}

bool Registry::HasProfiledPid(int32_t pid) const {
  const auto found = processes_.lower_bound(ProcessId{pid, 0});
  return found != processes_.end() && found->first.pid == pid && found->second.paths.kineto;
}

std::vector<v1::Rank> Registry::Ranks(const RankFilter& filter) const {
  std::vector<v1::Rank> ranks;
  for (const auto& [id, process] : processes_) {
    if (filter.Allows(process)) ToProto(process, &ranks.emplace_back());
  }
  std::sort(ranks.begin(), ranks.end(), [](const v1::Rank& a, const v1::Rank& b) {
    return std::make_tuple(a.uid(), std::cref(a.job()), a.rank(), a.process().pid()) <
           std::make_tuple(b.uid(), std::cref(b.job()), b.rank(), b.process().pid());
  });
  return ranks;
}

void ToProto(const RegisteredProcess& process, v1::Rank* rank) {
  ToProto(process.id, rank->mutable_process());
  rank->set_uid(process.uid);
  rank->set_rank(process.identity.rank);
  rank->set_world_size(process.identity.world_size);
  rank->set_local_rank(process.identity.local_rank);
  rank->set_job(process.identity.job);
  rank->set_scheduler_job(process.identity.scheduler_job);
  rank->set_job_by_scheduler(process.identity.job_by_scheduler);
  rank->set_rank_source(process.identity.rank_source);
  rank->set_job_source(process.identity.job_source);
  rank->set_program(process.program);
  rank->set_client_version(process.client_version);
  rank->set_incarnation(process.incarnation);
  rank->set_cupti_version(process.cupti_version);
  rank->set_via(process.paths.client ? "cupti" : "kineto");
  rank->set_kineto(process.paths.kineto);
  rank->set_cupti_holder(process.cupti_holder);
}

}  // namespace lockstep::daemon
