#include "daemon/clients/departed_ranks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::daemon {

void DepartedRanks::Add(const RegisteredProcess& process, const std::string& why,
                        std::vector<ring::CommunicatorProgress> communicators, ring::OperationLog log) {
  Remove(process.id);
  if (process.identity.rank < 0) return;
  const HostTime now = clock_.Realtime();
  while (!ranks_.empty() && (ranks_.size() >= kMost || now - ranks_.front().at > kKept)) ranks_.pop_front();
  ranks_.push_back({process, now, why, std::move(communicators), std::move(log)});
  DropLogs();
}

void DepartedRanks::Remove(const ProcessId& process) {
  std::erase_if(ranks_, [&](const DepartedRank& rank) { return rank.process.id == process; });
}

void DepartedRanks::DropLogs() {
  std::map<uid_t, size_t> by_user;
  size_t total = 0;
  for (const DepartedRank& rank : ranks_) {
    by_user[rank.process.uid] += rank.log.operations.size();
    total += rank.log.operations.size();
  }
  while (total > kMostLogged) {
    const auto most = std::max_element(by_user.begin(), by_user.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    const auto oldest = std::find_if(ranks_.begin(), ranks_.end(), [&](const DepartedRank& rank) {
      return rank.process.uid == most->first && !rank.log.operations.empty();
    });
    most->second -= oldest->log.operations.size();
    total -= oldest->log.operations.size();
    oldest->log = {};
  }
}

const DepartedRank* DepartedRanks::Find(const ProcessId& process) const {
  const auto found = std::find_if(ranks_.begin(), ranks_.end(),
                                  [&](const DepartedRank& rank) { return rank.process.id == process; });
  return found == ranks_.end() ? nullptr : &*found;
}

bool DepartedRanks::HasLogSince(Nanos time) const {
  const HostTime now = clock_.Realtime();
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const DepartedRank& rank) {
    return now - rank.at < time && !rank.log.operations.empty();
  });
}

std::vector<v1::Rank> DepartedRanks::WithLog(const RankFilter& filter) const {
  std::vector<v1::Rank> ranks;
  for (const DepartedRank& gone : ranks_) {
    if (gone.log.operations.empty() || !filter.Allows(gone.process)) continue;
    ToProto(gone.process, &ranks.emplace_back());
  }
  return ranks;
}

}  // namespace lockstep::daemon
