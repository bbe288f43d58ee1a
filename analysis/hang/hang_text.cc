#include "analysis/hang/hang_text.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/number_runs.h"

namespace lockstep::analysis {
namespace {

constexpr size_t kShortestRun = 3;
constexpr double kShownTransfer = 1e5;  // bytes per second

std::string WithCommas(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::vector<size_t> IndicesOf(const std::vector<const Member*>& members) {
  std::vector<size_t> ranks;
  for (const Member* member : members) ranks.push_back(member->rank);
  return ranks;
}

std::string Many(size_t count) { return count == 1 ? "1 rank waits" : absl::StrCat(count, " ranks wait"); }

// Returns the rank's last operation in the communicators that it used last; null: it entered none.
std::vector<std::pair<const Group*, const HangOperation*>> LastOperations(const std::vector<Group>& groups,
                                                                          size_t rank) {
  constexpr size_t kMost = 3;
  std::vector<std::pair<const Group*, const HangOperation*>> last;
  for (const Group& group : groups) {
    for (const auto& [place, member] : group.members) {
      const std::vector<HangOperation>& operations = member.communicator->operations;
      if (member.rank == rank) last.emplace_back(&group, operations.empty() ? nullptr : &operations.back());
    }
  }
  std::stable_sort(last.begin(), last.end(), [](const auto& a, const auto& b) {
    if (a.second == nullptr || b.second == nullptr) return b.second == nullptr && a.second != nullptr;
    return a.second->entered_ago < b.second->entered_ago;
  });
  if (last.size() > kMost) last.resize(kMost);
  return last;
}

// Returns "; 7 ranks wait in it for 94 s".
std::string WaitingText(const HangWait& wait, size_t others) {
  if (others == 0) return absl::StrCat(", for ", AgeText(wait.waited));
  return absl::StrCat("; ", Many(others), " in it for ", AgeText(wait.waited));
}

// Returns the innermost frames: "a, called from b, c, ...".
std::string CallsText(const HangStack& stack, std::string (*text_of)(const HangFrame&)) {
  constexpr size_t kMostShown = 5;
  std::vector<std::string> callers;
  for (size_t i = 1; i < stack.frames.size(); ++i) {
    if (i == kMostShown) {
      callers.emplace_back("...");
      break;
    }
    callers.push_back(text_of(stack.frames[i]));
  }
  return absl::StrCat(text_of(stack.frames.front()), callers.empty() ? "" : ", called from ",
                      absl::StrJoin(callers, ", "));
}

// Returns the file with its folder, which is enough to recognise it.
std::string ShortPath(const std::string& path) {
  const size_t file = path.rfind('/');
  if (file == std::string::npos || file == 0) return path;
  const size_t folder = path.rfind('/', file - 1);
  return folder == std::string::npos ? path : path.substr(folder + 1);
}

std::string PythonFrameText(const HangFrame& frame) {
  return absl::StrCat(ShortPath(frame.file), frame.line == 0 ? "" : absl::StrCat(":", frame.line), " ",
                      frame.function);
}

std::string NativeFrameText(const HangFrame& frame) {
  if (frame.function.empty()) return frame.file.empty() ? "generated code" : frame.file;
  return frame.file.empty() ? frame.function : absl::StrCat(frame.function, " (", frame.file, ")");
}

std::string MemberText(const HangJob& job, int32_t member, const std::optional<RankId>& rank) {
  for (size_t i = 0; rank && i < job.ranks.size(); ++i) {
    if (job.ranks[i].rank == *rank) return RanksText(job, {i});
  }
  return absl::StrCat("member ", member);
}

std::string StuckText(const HangJob& job, const std::vector<HangLink>& links) {
  if (links.empty()) return ": the data does not arrive";
  const HangLink& first = links.front();
  return absl::StrCat(": the network does not carry its data from ",
                      MemberText(job, first.from, first.from_rank), " to ",
                      MemberText(job, first.to, first.to_rank),
                      links.size() == 1 ? "" : absl::StrCat(", and on ", links.size() - 1, " further links"));
}

// Returns "rank 3", or "ranks 3-5".
std::string NumbersText(const std::vector<RankId>& ranks) {
  std::vector<int32_t> numbers;
  for (const RankId rank : ranks) numbers.push_back(rank.value());
  return absl::StrCat(numbers.size() == 1 ? "rank " : "ranks ", NumberRuns(numbers, kShortestRun));
}

std::string UnknownText(const HangWait& wait) {
  return absl::StrCat(wait.unknown_members.size() == 1 ? "member " : "members ",
                      NumberRuns(wait.unknown_members, kShortestRun), " of ", wait.communicator_name);
}

std::string MismatchText(const HangJob& job, const HangWait& wait, const Wait& found) {
  const HangOperation& odd = *found.late.front()->Find(wait.number);
  const auto usual = std::find_if(found.waiting.begin(), found.waiting.end(), [&](const Member* member) {
    return std::find(found.late.begin(), found.late.end(), member) == found.late.end();
  });
  const auto others = static_cast<size_t>(
      std::count_if(found.waiting.begin(), found.waiting.end(), [&](const Member* member) {
        return std::find(found.late.begin(), found.late.end(), member) == found.late.end();
      }));
  std::string text = absl::StrCat(RanksText(job, IndicesOf(found.late)), " entered ", ShapeText(odd), " as #",
                                  WithCommas(wait.number), " of ", wait.communicator_name);
  if (usual != found.waiting.end()) {
    absl::StrAppend(&text, ", where ", others, others == 1 ? " rank" : " ranks", " entered ",
                    ShapeText(*(*usual)->pending));
  }
  return absl::StrCat(text, "; they wait for ", AgeText(wait.waited));
}

std::string CircleText(const HangFinding& finding) {
  std::vector<HangWait> waits = {finding.wait};
  waits.insert(waits.end(), finding.circle.begin(), finding.circle.end());
  return absl::StrCat("ranks wait for each other in different operations: ",
                      absl::StrJoin(waits, ", ",
                                    [](std::string* out, const HangWait& wait) {
                                      absl::StrAppend(out, NumbersText(wait.waiting), " in ", WaitText(wait));
                                    }),
                      ", for ", AgeText(finding.wait.waited));
}

// Returns "rank 12 (node3) has ended", with its further members.
std::string LateText(const HangJob& job, const Wait& found, const HangFinding& finding, const char* state) {
  std::string text;
  if (!found.late.empty()) {
    text = RanksText(job, IndicesOf(found.late));
  } else if (!finding.wait.late.empty()) {
    text = NumbersText(finding.wait.late);
  }
  if (!finding.wait.unknown_members.empty())
    absl::StrAppend(&text, text.empty() ? "" : " and ", UnknownText(finding.wait));
  return absl::StrCat(text, state);
}

}  // namespace

std::string RanksText(const HangJob& job, const std::vector<size_t>& ranks) {
  std::vector<RankId> numbers;
  for (const size_t rank : ranks) numbers.push_back(job.ranks[rank].rank);
  if (ranks.size() != 1) return NumbersText(numbers);
  const HangRank& rank = job.ranks[ranks.front()];
  if (rank.host.empty()) return absl::StrCat("rank ", rank.rank.value());
  return absl::StrCat("rank ", rank.rank.value(), " (", rank.host,
                      rank.local_rank < 0 ? "" : absl::StrCat(", local rank ", rank.local_rank), ")");
}

std::string OperationName(const std::string& function) {
  std::string name;
  for (const char c : function) {
    const bool upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (upper && !name.empty() && name.back() != '_') name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name.empty() ? "operation" : name;
}

std::string WaitText(const HangWait& wait) {
  return absl::StrCat(OperationName(wait.function),
                      wait.number == 0 ? "" : absl::StrCat(" #", WithCommas(wait.number)), " of ",
                      wait.communicator_name);
}

std::string AgeText(Nanos age) {
  const double seconds = static_cast<double>(age.ns()) / 1e9;
  if (seconds < 10) return absl::StrFormat("%.1f s", seconds);
  if (seconds < 600) return absl::StrFormat("%.0f s", seconds);
  return absl::StrFormat("%.0f min", seconds / 60);
}

std::vector<std::string> StackTexts(RankId rank, const HangStacks& stacks) {
  const std::string name = absl::StrCat("rank ", rank.value());
  std::vector<std::string> texts;
  if (!stacks.python.frames.empty())
    texts.push_back(absl::StrCat(name, " is in Python at ", CallsText(stacks.python, &PythonFrameText)));
  // A program without Python has its native stack.
  else if (stacks.native.empty())
    texts.push_back(absl::StrCat(name, "'s Python stack is not known: ", stacks.python_problem));
  for (const HangStack& stack : stacks.native) {
    if (stack.frames.empty()) continue;
    const bool main = &stack == &stacks.native.front();
    texts.push_back(absl::StrCat(name, main ? "'s main thread" : absl::StrCat("'s thread ", stack.thread),
                                 " is in ", CallsText(stack, &NativeFrameText)));
  }
  if (!stacks.native_problem.empty())
    texts.push_back(absl::StrCat(name, "'s native stack is not known: ", stacks.native_problem));
  return texts;
}

std::string ShapeText(const HangOperation& operation) {
  std::string type = operation.datatype;
  if (absl::StartsWith(type, "nccl")) type = OperationName(type.substr(4));
  std::string text = absl::StrCat(OperationName(operation.function), " of ", WithCommas(operation.count),
                                  type.empty() ? "" : " ", type);
  if (operation.number == 0 && operation.peer >= 0) absl::StrAppend(&text, " with member ", operation.peer);
  if (operation.number != 0 && operation.peer > 0) absl::StrAppend(&text, " with root ", operation.peer);
  return text;
}

std::string DoingText(const HangJob& job, const std::vector<Group>& groups, size_t index) {
  const HangRank& rank = job.ranks[index];
  std::string text = RanksText(job, {index});
  switch (rank.life) {
    case HangRank::Life::kEnded:
      absl::StrAppend(&text, " ended ", AgeText(rank.ended_ago), " ago (", rank.end_reason, ")");
      break;
    case HangRank::Life::kStopped:
      absl::StrAppend(&text, ", pid ", rank.pid, ", is stopped by a signal or a debugger");
      break;
    case HangRank::Life::kRunning:
      absl::StrAppend(&text, ", pid ", rank.pid);
      if (rank.cpu_share)
        absl::StrAppendFormat(&text, ", uses %.0f%% of a processor", 100 * *rank.cpu_share);
      else
        text += ", runs";
      if (rank.transfer_rate.value_or(0) >= kShownTransfer)
        absl::StrAppendFormat(&text, ", reads and writes %.1f MB/s", *rank.transfer_rate / 1e6);
      if (!rank.wait_channel.empty())
        absl::StrAppend(&text, ", and its main thread waits in the kernel's ", rank.wait_channel);
      break;
    case HangRank::Life::kUnknown:
      // A dump has no processes.
      if (rank.pid != 0) absl::StrAppend(&text, ", pid ", rank.pid, ": /proc does not show its state");
      break;
  }
  for (const auto& [group, last] : LastOperations(groups, index)) {
    if (last == nullptr) {
      absl::StrAppend(&text, "; entered nothing in ", group->name);
      continue;
    }
    absl::StrAppend(&text, "; last entered ", OperationName(last->function),
                    last->number == 0 ? "" : absl::StrCat(" #", WithCommas(last->number)), " of ",
                    group->name, " ", AgeText(last->entered_ago), " ago",
                    last->completed ? ", which has ended" : "");
  }
  return text;
}

std::string LinkText(const HangJob& job, const HangLink& link) {
  const std::vector<int32_t> channels(link.channels.begin(), link.channels.end());
  const std::string from = MemberText(job, link.from, link.from_rank);
  const std::string to = MemberText(job, link.to, link.to_rank);
  std::string text;
  switch (link.wait) {
    case HangLink::Wait::kNetwork:
      text = absl::StrCat("the network has completed nothing from ", from, " to ", to);
      break;
    case HangLink::Wait::kBuffer:
      text = absl::StrCat(from, " has waited for a buffer of ", to,
                          link.to_rank ? ", which waits for its data," : "");
      break;
  }
  absl::StrAppend(&text, " for ", AgeText(link.still), ", after ", WithCommas(link.steps_done));
  if (link.steps != 0) absl::StrAppend(&text, " of ", WithCommas(link.steps));
  absl::StrAppend(&text, link.steps_done == 1 && link.steps == 0 ? " step on " : " steps on ",
                  channels.size() == 1 ? "channel " : "channels ", NumberRuns(channels, kShortestRun));
  return text;
}

std::string SentenceOf(const HangJob& job, const Wait& found, const HangFinding& finding) {
  const HangWait& wait = finding.wait;
  const size_t waiting = wait.waiting.size();
  const size_t late = found.late.size();
  const bool entered = found.lateness != Lateness::kNotEntered;
  const std::string in_it = absl::StrCat(entered ? " in " : ", and never entered ", WaitText(wait));
  switch (finding.cause) {
    case HangCause::kEnded:
      return absl::StrCat(LateText(job, found, finding, wait.late.size() > 1 ? " have ended" : " has ended"),
                          in_it, WaitingText(wait, entered ? waiting - late : waiting));
    case HangCause::kStopped:
      return absl::StrCat(LateText(job, found, finding, late > 1 ? " are stopped" : " is stopped"), in_it,
                          WaitingText(wait, entered ? waiting - late : waiting));
    case HangCause::kAbsent:
      return absl::StrCat("no daemon or dump reports ", LateText(job, found, finding, ""), " in ",
                          WaitText(wait), WaitingText(wait, waiting));
    case HangCause::kNeverEntered:
      return absl::StrCat(LateText(job, found, finding, " never entered "), WaitText(wait),
                          WaitingText(wait, waiting));
    case HangCause::kAhead: {
      std::vector<size_t> ranks = IndicesOf(found.waiting);
      return absl::StrCat(RanksText(job, ranks), ranks.size() == 1 ? " is" : " are", " ahead: only ",
                          ranks.size() == 1 ? "it" : "they", " entered ", WaitText(wait), ", ",
                          AgeText(wait.waited), " ago; ", late + wait.unknown_members.size(),
                          " ranks have not");
    }
    case HangCause::kMismatch:
      return MismatchText(job, wait, found);
    case HangCause::kCircle:
      return CircleText(finding);
    case HangCause::kNeverLaunched:
      return absl::StrCat("NCCL never launched ", WaitText(wait), " on ",
                          RanksText(job, IndicesOf(found.late)), WaitingText(wait, waiting - late));
    case HangCause::kNeverStarted:
      if (wait.all_late) {
        return absl::StrCat("the kernel of ", WaitText(wait), " has not started on any of its ", waiting,
                            waiting == 1 ? " rank" : " ranks", ", for ", AgeText(wait.waited),
                            ": their GPUs do other work or are dead");
      }
      return absl::StrCat("the kernel of ", WaitText(wait), " never started on ",
                          RanksText(job, IndicesOf(found.late)),
                          late == 1 ? ": its GPU is busy or dead" : ": their GPUs are busy or dead",
                          WaitingText(wait, waiting - late));
    case HangCause::kStuck:
      return absl::StrCat(WaitText(wait), " runs on the GPUs of all its ",
                          waiting == 1 ? "known ranks" : absl::StrCat(waiting, " ranks"),
                          " and does not end, for ", AgeText(wait.waited), StuckText(job, finding.links));
  }
  return WaitText(wait);
}

}  // namespace lockstep::analysis
