#include "analysis/hang/ras_report.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/hang/activity.h"
#include "analysis/hang/hang_text.h"
#include "base/number_runs.h"

namespace lockstep::analysis {
namespace {

using Result = RasReport::Result;
using Status = RasMember::Status;

constexpr size_t kMostSentences = 8;
constexpr size_t kMostNamed = 8;  // members in one sentence
constexpr size_t kRunOfMembers = 3;

// Finds the job's ranks by RAS's addresses and pids. The addresses are not those of our nodes, so an address
// is the only node that has all its pids.
class RankNames {
 public:
  RankNames(const HangJob& job, const RasState& state) : job_(job) {
    std::map<std::string, std::set<int32_t>> pids;
    for (const RasCommunicator& communicator : state.communicators) {
      for (const auto& [number, member] : communicator.members) {
        if (member.process.pid > 0) pids[member.process.host].insert(member.process.pid);
      }
    }
    std::map<std::string, std::map<int32_t, size_t>> nodes;  // rank's index by node and pid
    for (size_t i = 0; i < job.ranks.size(); ++i) nodes[job.ranks[i].host][job.ranks[i].pid] = i;
    for (const auto& [address, of_address] : pids) {
      const std::map<int32_t, size_t>* found = nullptr;
      size_t matches = 0;
      for (const auto& [node, of_node] : nodes) {
        const bool has_all = std::all_of(of_address.begin(), of_address.end(),
                                         [&, &ranks = of_node](int32_t pid) { return ranks.contains(pid); });
        if (!has_all) continue;
        found = &of_node;
        ++matches;
      }
      if (matches == 1) by_address_[address] = *found;
    }
  }

  // Returns its index in the job.
  std::optional<size_t> Find(const RasProcess& process) const {
    const auto node = by_address_.find(process.host);
    if (node == by_address_.end()) return std::nullopt;
    const auto rank = node->second.find(process.pid);
    if (rank == node->second.end()) return std::nullopt;
    return rank->second;
  }

  // Returns "rank 3 (node1, pid 123)", or "member 3 (10.0.0.7, pid 123)".
  std::string Text(const RasCommunicator& communicator, int32_t number) const {
    const auto listed = communicator.members.find(number);
    if (listed == communicator.members.end() || listed->second.process.pid <= 0)
      return absl::StrCat("member ", number);
    const RasProcess& process = listed->second.process;
    if (const std::optional<size_t> rank = Find(process)) {
      return absl::StrCat("rank ", job_.ranks[*rank].rank.value(), " (", job_.ranks[*rank].host, ", pid ",
                          process.pid, ")");
    }
    return absl::StrCat("member ", number, " (", process.host, ", pid ", process.pid, ")");
  }

 private:
  const HangJob& job_;
  std::map<std::string, std::map<int32_t, size_t>> by_address_;
};

std::string NameOf(const RasCommunicator& communicator) {
  return absl::StrCat("communicator ", absl::Hex(communicator.hash, absl::kZeroPad16));
}

// Returns "41 all_reduce", or "41 collectives".
std::string CountText(const RasOperation& operation, uint64_t count) {
  const std::string name = operation.function.empty() ? "collectives" : OperationName(operation.function);
  return absl::StrCat(count, " ", name);
}

std::string GroupText(const RankNames& names, const RasCommunicator& communicator, const RasGroup& group) {
  if (group.members.size() != group.size || group.size > kMostNamed)
    return absl::StrCat(group.size, group.size == 1 ? " member" : " members");
  std::vector<std::string> texts;
  for (const int32_t number : group.members) texts.push_back(names.Text(communicator, number));
  return absl::StrJoin(texts, ", ");
}

// Returns the largest group; of equal ones, that with the highest count.
const RasGroup& MostOf(const RasOperation& operation) {
  const RasGroup* most = &operation.groups.front();
  for (const RasGroup& group : operation.groups) {
    if (group.size >= most->size) most = &group;
  }
  return *most;
}

bool IsMissing(Status status) { return status == Status::kUnresponsive || status == Status::kDead; }

const char* MissingText(Status status) {
  return status == Status::kDead ? " is dead to RAS" : " does not answer RAS";
}

bool Differs(const RasCommunicator& communicator) {
  return std::any_of(communicator.operations.begin(), communicator.operations.end(),
                     [](const RasOperation& operation) { return operation.groups.size() > 1; }) ||
         std::any_of(communicator.members.begin(), communicator.members.end(),
                     [](const auto& member) { return IsMissing(member.second.status); });
}

// Adds the sentences about one communicator that differs, and its late members.
void Describe(const RankNames& names, const RasCommunicator& communicator, RasReport& report,
              std::set<std::optional<size_t>>& late) {
  const auto add = [&report](std::string sentence) {
    if (report.sentences.size() < kMostSentences) report.sentences.push_back(std::move(sentence));
  };
  const auto note = [&](int32_t number) {
    const auto listed = communicator.members.find(number);
    late.insert(listed == communicator.members.end() ? std::nullopt : names.Find(listed->second.process));
  };
  for (const auto& [number, member] : communicator.members) {
    if (!IsMissing(member.status)) continue;
    add(absl::StrCat(names.Text(communicator, number), " of ", NameOf(communicator),
                     MissingText(member.status)));
    note(number);
  }
  for (const RasOperation& operation : communicator.operations) {
    if (operation.groups.size() < 2) continue;
    const RasGroup& most = MostOf(operation);
    for (const RasGroup& group : operation.groups) {
      if (&group != &operation.groups.back()) {
        for (const int32_t number : group.members) note(number);
        if (group.members.size() != group.size) late.insert(std::nullopt);
      }
      if (&group == &most) continue;
      add(absl::StrCat(GroupText(names, communicator, group),
                       group.size == 1 ? " has called " : " have called ", CountText(operation, group.count),
                       " of ", NameOf(communicator), " where ", operation.groups.size() == 2 ? "the " : "",
                       most.size, most.size == 1 ? " other has called " : " others have called ",
                       most.count));
    }
  }
}

// Returns the member's calls of all operations; unset: not all are known.
std::optional<uint64_t> CallsOf(const RasCommunicator& communicator, int32_t number) {
  uint64_t calls = 0;
  for (const RasOperation& operation : communicator.operations) {
    const auto group =
        std::find_if(operation.groups.begin(), operation.groups.end(), [&](const RasGroup& candidate) {
          return std::binary_search(candidate.members.begin(), candidate.members.end(), number);
        });
    if (group == operation.groups.end()) return std::nullopt;
    calls += group->count;
  }
  return calls;
}

// Returns the number of the rank in the communicator, and how many collectives its table has.
const HangCommunicator* FindIn(const HangJob& job, RankId rank, uint64_t communicator) {
  for (const HangRank& candidate : job.ranks) {
    if (candidate.rank != rank) continue;
    for (const HangCommunicator& of_rank : candidate.communicators) {
      if (of_rank.id == communicator) return &of_rank;
    }
  }
  return nullptr;
}

}  // namespace

const char* RasResultName(Result result) {
  switch (result) {
    case Result::kUnreachable:
      return "unreachable";
    case Result::kNoDifference:
      return "no_difference";
    case Result::kMoves:
      return "moves";
    case Result::kStandsStill:
      return "stands_still";
    case Result::kAgrees:
      return "agrees";
    case Result::kContradicts:
      return "contradicts";
    case Result::kSaysNothing:
      return "says_nothing";
  }
  return "unreachable";
}

RasReport UnreachableRas(std::string problem) {
  RasReport report;
  report.problem = std::move(problem);
  return report;
}

RasReport CompareRasReadings(const RasState& before, const RasState& now, const HangJob& job, Nanos between) {
  RasReport report;
  report.nccl_version = now.nccl_version;
  report.between = between;
  const RankNames names(job, now);
  std::set<std::optional<size_t>> late;  // indices in the job; unset: a process that the job does not know
  for (const RasCommunicator& communicator : now.communicators) {
    if (Differs(communicator)) Describe(names, communicator, report, late);
  }
  if (report.sentences.empty()) {
    report.result = Result::kNoDifference;
    return report;
  }
  // The sentences about the processes, which follow, are from /proc.
  for (std::string& sentence : report.sentences) sentence.insert(0, "RAS: ");
  // RAS lists the members of a dead process at one time as unresponsive and later as dead, so only counts are
  // compared.
  const auto counts = [](const RasState& state) {
    std::map<uint64_t, std::vector<std::pair<std::string, std::set<uint64_t>>>> all;
    for (const RasCommunicator& communicator : state.communicators) {
      auto& of_communicator = all[communicator.hash];
      for (const RasOperation& operation : communicator.operations) {
        std::set<uint64_t> distinct;
        for (const RasGroup& group : operation.groups) distinct.insert(group.count);
        of_communicator.emplace_back(operation.function, std::move(distinct));
      }
    }
    return all;
  };
  if (counts(before) != counts(now)) {
    report.result = Result::kMoves;
    return report;
  }
  report.result = Result::kStandsStill;
  report.may_end = !late.contains(std::nullopt);
  for (const std::optional<size_t> index : late) {
    if (!index) continue;
    const HangRank& rank = job.ranks[*index];
    report.late_ranks.push_back(rank.rank);
    report.may_end = report.may_end && Computes(rank);
    if (report.sentences.size() < 2 * kMostSentences)
      report.sentences.push_back(DoingText(job, FindGroups(job), *index));
  }
  std::sort(report.late_ranks.begin(), report.late_ranks.end());
  return report;
}

RasReport CheckWithRas(const HangFinding& finding, const HangJob& job, const RasState& state) {
  const HangWait& wait = finding.wait;
  RasReport report;
  report.nccl_version = state.nccl_version;
  report.result = Result::kSaysNothing;
  if (wait.number == 0) {
    report.sentences.emplace_back("RAS does not count messages");
    return report;
  }
  const auto found =
      std::find_if(state.communicators.begin(), state.communicators.end(),
                   [&](const RasCommunicator& candidate) { return candidate.hash == wait.communicator; });
  // The numbers of the late members in the communicator, and whether the tables say that one has not entered.
  std::vector<int32_t> late = wait.unknown_members;
  bool expects_fewer = !wait.unknown_members.empty();
  for (const RankId rank : wait.late) {
    const HangCommunicator* of_rank = FindIn(job, rank, wait.communicator);
    if (of_rank == nullptr) continue;
    late.push_back(of_rank->rank);
    expects_fewer = expects_fewer || of_rank->collectives_entered < wait.number;
  }
  std::sort(late.begin(), late.end());
  if (found == state.communicators.end()) {
    if (state.is_complete || !state.silent.empty() || !state.dead.empty()) {
      report.sentences.emplace_back("RAS does not list this communicator");
      return report;
    }
    // The text lists communicators with a difference only.
    report.result = expects_fewer ? Result::kContradicts : Result::kAgrees;
    report.sentences.emplace_back("RAS sees the same counts on all members");
    return report;
  }
  const RankNames names(job, state);
  std::vector<std::string> missing, fewer;
  std::optional<uint64_t> most;
  if (!found->operations.empty()) {
    for (const RasGroup& group : found->operations.front().groups) {
      for (const int32_t number : group.members) {
        if (const std::optional<uint64_t> calls = CallsOf(*found, number))
          most = std::max(most.value_or(0), *calls);
      }
    }
  }
  size_t known = 0;
  for (const int32_t number : late) {
    const auto member = found->members.find(number);
    if (member != found->members.end() && IsMissing(member->second.status)) {
      missing.push_back(absl::StrCat(names.Text(*found, number), MissingText(member->second.status)));
      continue;
    }
    const std::optional<uint64_t> calls = CallsOf(*found, number);
    if (!calls || !most) continue;
    ++known;
    if (*calls < *most)
      fewer.push_back(absl::StrCat(names.Text(*found, number), " has called ", *calls,
                                   found->operations.size() == 1 && !found->operations[0].function.empty()
                                       ? absl::StrCat(" ", OperationName(found->operations[0].function))
                                       : " collectives",
                                   " where another has called ", *most));
  }
  for (std::vector<std::string>* sentences : {&missing, &fewer}) {
    for (std::string& sentence : *sentences) {
      if (report.sentences.size() < kMostSentences) report.sentences.push_back(std::move(sentence));
    }
  }
  if (!missing.empty() || !fewer.empty()) {
    report.result = expects_fewer || !missing.empty() ? Result::kAgrees : Result::kContradicts;
    return report;
  }
  if (!late.empty() && known < late.size()) {
    report.sentences.emplace_back("RAS does not list the late members");
    return report;
  }
  if (late.empty() && Differs(*found)) {
    std::set<std::optional<size_t>> behind;
    Describe(names, *found, report, behind);
    report.result = Result::kContradicts;
    return report;
  }
  report.result = expects_fewer ? Result::kContradicts : Result::kAgrees;
  report.sentences.push_back(
      late.empty() ? "RAS sees the same counts on all members"
                   : absl::StrCat("RAS sees no fewer calls on ", late.size() == 1 ? "member " : "members ",
                                  NumberRuns(late, kRunOfMembers), " than on the others"));
  return report;
}

}  // namespace lockstep::analysis
