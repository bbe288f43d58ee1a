#include "report/paging.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "report/text_layout.h"

namespace lockstep::report {
namespace {

// More hosts are not named.
constexpr size_t kMostHosts = 4;
constexpr size_t kMostRanks = 3;

bool IsUnknown(const std::string& cause) {
  return cause == "unknown" || cause == "victim" || cause == "common";
}

template <typename T>
bool Has(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

template <typename T>
void AddNew(const T& value, std::vector<T>& values) {
  if (!Has(values, value)) values.push_back(value);
}

}  // namespace

void Pager::AddSharedLoss(const std::string& kind) {
  is_input_ = is_input_ || kind == "input";
  if (kind == "exposed_transfer")
    AddTeams({Team::kTraining, Team::kNetwork});
  else
    AddTeams({Team::kTraining});
}

void Pager::AddUnexplained() {
  if (first_.empty()) is_first_known_ = false;
  are_all_known_ = false;
  AddTeams({Team::kTraining});
}

void Pager::AddStraggler(const StragglerRow& straggler) {
  is_input_ = is_input_ || straggler.cause == "data_loader";
  if (first_.empty()) is_first_known_ = !IsUnknown(straggler.cause);
  are_all_known_ = are_all_known_ && !IsUnknown(straggler.cause);
  const std::vector<Team> teams = TeamsFor(straggler.cause);
  AddTeams(teams);
  for (const Team team : teams) {
    if (team != Team::kHardware && team != Team::kCluster) continue;
    if (straggler.cause == "common") continue;  // no host is to blame
    for (const std::string& host : straggler.hosts) AddNew(host, places_[team].hosts);
    if (!straggler.hosts.empty()) continue;
    for (const RankId rank : straggler.ranks) AddNew(rank, places_[team].ranks_of_unnamed_hosts);
  }
}

std::string Pager::Teams() const {
  std::string text;
  for (const Team team : first_) absl::StrAppend(&text, text.empty() ? "" : " and ", TextOf(team));
  for (const Team team : next_) {
    if (!Has(first_, team)) absl::StrAppend(&text, "; if they find nothing, ", TextOf(team));
  }
  return text;
}

std::string Pager::Text() const {
  if (!is_first_known_) return Teams() + " (the cause is not known)";
  if (!are_all_known_ || first_.empty()) return Teams();
  const Team asleep = first_[0] == Team::kTraining ? Team::kHardware : Team::kTraining;
  if (Has(first_, asleep) || Has(next_, asleep)) return Teams();
  return Teams() + ". Not " + NameOf(asleep);
}

void Pager::AddTeams(const std::vector<Team>& teams) {
  for (const Team team : teams) AddNew(team, team == teams[0] ? first_ : next_);
}

// Returns the team to wake first, then those to ask if it finds nothing.
std::vector<Pager::Team> Pager::TeamsFor(const std::string& cause) {
  for (const std::string_view hardware : {"gpu_clock", "gpu_memory", "slow_link", "copy"}) {
    if (cause == hardware) return {Team::kHardware};
  }
  if (cause == "congestion") return {Team::kNetwork};
  if (cause == "common") return {Team::kTraining, Team::kCluster};
  if (cause == "cpu_contention" || cause == "host_launch") return {Team::kCluster, Team::kTraining};
  if (cause == "data_loader") return {Team::kTraining, Team::kCluster};
  return {Team::kTraining};
}

std::string Pager::NameOf(Team team) {
  switch (team) {
    case Team::kTraining:
      return "the training owner";
    case Team::kHardware:
      return "the hardware team";
    case Team::kNetwork:
      return "the network team";
    case Team::kCluster:
      return "the cluster operators";
  }
  return "";
}

std::string Pager::TextOf(Team team) const {
  std::string text = NameOf(team);
  if (team == Team::kTraining && is_input_) text += " (input pipeline)";
  const auto at = places_.find(team);
  return at == places_.end() ? text : text + PlacesText(at->second);
}

std::string Pager::PlacesText(const Places& places) {
  if (places.hosts.size() > kMostHosts) return "";
  std::string text;
  if (!places.hosts.empty())
    text = absl::StrCat(places.hosts.size() > 1 ? "hosts " : "host ", absl::StrJoin(places.hosts, ", "));
  if (const std::vector<RankId>& ranks = places.ranks_of_unnamed_hosts; !ranks.empty())
    absl::StrAppend(&text, text.empty() ? "" : " and ", "the host of ", RankList(ranks, kMostRanks),
                    ", which the data does not name: ask the scheduler");
  return text.empty() ? "" : " (" + text + ")";
}

}  // namespace lockstep::report
