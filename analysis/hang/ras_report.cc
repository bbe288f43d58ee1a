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
constexpr char kSameCounts[] = "RAS sees the same counts on all members";

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

using CountsByFunction = std::vector<std::pair<std::string, std::set<uint64_t>>>;

// The distinct counts of each operation, by communicator. RAS lists the members of a dead process at one time
// as unresponsive and later as dead, so two answers are compared by counts only.
std::map<uint64_t, CountsByFunction> CountsOf(const RasState& state) {
  std::map<uint64_t, CountsByFunction> all;
  for (const RasCommunicator& communicator : state.communicators) {
    CountsByFunction& of_communicator = all[communicator.hash];
    for (const RasOperation& operation : communicator.operations) {
      std::set<uint64_t> distinct;
      for (const RasGroup& group : operation.groups) distinct.insert(group.count);
      of_communicator.emplace_back(operation.function, std::move(distinct));
    }
  }
  return all;
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

// Returns the highest number of calls of a member; unset: none is known.
std::optional<uint64_t> MostCalls(const RasCommunicator& communicator) {
  std::optional<uint64_t> most;
  if (communicator.operations.empty()) return most;
  for (const RasGroup& group : communicator.operations.front().groups) {
    for (const int32_t number : group.members) {
      if (const std::optional<uint64_t> calls = CallsOf(communicator, number))
        most = std::max(most.value_or(0), *calls);
    }
  }
  return most;
}

// Returns nullptr if the rank's progress table does not have it.
const HangCommunicator* FindIn(const HangJob& job, RankId rank, uint64_t communicator) {
  for (const HangRank& candidate : job.ranks) {
    if (candidate.rank != rank) continue;
    for (const HangCommunicator& of_rank : candidate.communicators) {
      if (of_rank.id == communicator) return &of_rank;
    }
  }
  return nullptr;
}

// A finding's late members, as the progress tables have them.
struct LateMembers {
  std::vector<int32_t> numbers;  // in the communicator, sorted
  bool expects_fewer = false;    // one of them has not entered the operation, so RAS should count fewer calls
};

LateMembers LateMembersOf(const HangWait& wait, const HangJob& job) {
  LateMembers late;
  late.numbers = wait.unknown_members;
  late.expects_fewer = !wait.unknown_members.empty();
  for (const RankId rank : wait.late) {
    const HangCommunicator* of_rank = FindIn(job, rank, wait.communicator);
    if (of_rank == nullptr) continue;
    late.numbers.push_back(of_rank->rank);
    late.expects_fewer = late.expects_fewer || of_rank->collectives_entered < wait.number;
  }
  std::sort(late.numbers.begin(), late.numbers.end());
  return late;
}

// RAS's statements about members that are late by the progress tables.
struct RasView {
  std::vector<std::string> missing, fewer;  // sentences
  size_t counted = 0;                       // members whose calls RAS gives
};

RasView ViewOf(const RasCommunicator& communicator, const std::vector<int32_t>& late,
               const RankNames& names) {
  RasView view;
  const std::optional<uint64_t> most = MostCalls(communicator);
  const bool one_operation =
      communicator.operations.size() == 1 && !communicator.operations[0].function.empty();
  const std::string called =
      one_operation ? OperationName(communicator.operations[0].function) : std::string("collectives");
  for (const int32_t number : late) {
    const auto member = communicator.members.find(number);
    if (member != communicator.members.end() && IsMissing(member->second.status)) {
      view.missing.push_back(
          absl::StrCat(names.Text(communicator, number), MissingText(member->second.status)));
      continue;
    }
    const std::optional<uint64_t> calls = CallsOf(communicator, number);
    if (!calls || !most) continue;
    ++view.counted;
    if (*calls < *most) {
      view.fewer.push_back(absl::StrCat(names.Text(communicator, number), " has called ", *calls, " ", called,
                                        " where another has called ", *most));
    }
  }
  return view;
}

void CheckCommunicator(const RasCommunicator& communicator, const LateMembers& late, const RankNames& names,
                       RasReport& report) {
  RasView view = ViewOf(communicator, late.numbers, names);
  for (std::vector<std::string>* sentences : {&view.missing, &view.fewer}) {
    for (std::string& sentence : *sentences) {
      if (report.sentences.size() < kMostSentences) report.sentences.push_back(std::move(sentence));
    }
  }
  if (!report.sentences.empty()) {
    report.result = late.expects_fewer || !view.missing.empty() ? Result::kAgrees : Result::kContradicts;
    return;
  }
  if (view.counted < late.numbers.size()) {
    report.sentences.emplace_back("RAS does not list the late members");
    return;
  }
  if (late.numbers.empty() && Differs(communicator)) {
    std::set<std::optional<size_t>> behind;
    Describe(names, communicator, report, behind);
    report.result = Result::kContradicts;
    return;
  }
  report.result = late.expects_fewer ? Result::kContradicts : Result::kAgrees;
  report.sentences.push_back(
      late.numbers.empty()
          ? std::string(kSameCounts)
          : absl::StrCat("RAS sees no fewer calls on ", late.numbers.size() == 1 ? "member " : "members ",
                         NumberRuns(late.numbers, kRunOfMembers), " than on the others"));
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
  if (CountsOf(before) != CountsOf(now)) {
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
  const LateMembers late = LateMembersOf(wait, job);
  const auto found =
      std::find_if(state.communicators.begin(), state.communicators.end(),
                   [&](const RasCommunicator& candidate) { return candidate.hash == wait.communicator; });
  if (found != state.communicators.end()) {
    CheckCommunicator(*found, late, RankNames(job, state), report);
  } else if (state.is_complete || !state.silent.empty() || !state.dead.empty()) {
    report.sentences.emplace_back("RAS does not list this communicator");
  } else {
    // The text lists communicators with a difference only.
    report.result = late.expects_fewer ? Result::kContradicts : Result::kAgrees;
    report.sentences.emplace_back(kSameCounts);
  }
  return report;
}

}  // namespace lockstep::analysis
