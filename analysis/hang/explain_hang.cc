#include "analysis/hang/explain_hang.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/hang/activity.h"
#include "analysis/hang/hang_text.h"
#include "analysis/hang/stuck_links.h"
#include "analysis/hang/waits.h"

namespace lockstep::analysis {
namespace {

constexpr size_t kMostReasons = 8;
constexpr size_t kMostLinks = 4;  // of the reasons
// In units of `after`.
constexpr int64_t kLongestStep = 5;

class Explainer {
 public:
  Explainer(const HangJob& job, Nanos after) : job_(job), after_(after), groups_(FindGroups(job)) {
    for (Wait& wait : FindWaits(groups_)) {
      const Nanos age = wait.waited;
      // Without ends of kernels, an operation that all ranks have entered may have ended.
      const bool known = wait.lateness != Lateness::kNone || EndsAreKnown(wait);
      if (!known || AllHaveEnded(wait)) continue;
      explanation_.longest_wait = std::max(explanation_.longest_wait, age);
      if (age >= after) waits_.push_back(std::move(wait));
    }
    for (const HangRank& rank : job.ranks) {
      explanation_.ranks_seen += !rank.communicators.empty();
      explanation_.unreadable += rank.unreadable;
    }
  }

  HangExplanation Explain() {
    FindEdges();
    std::set<size_t> open;
    for (size_t i = 0; i < waits_.size(); ++i) open.insert(i);
    for (size_t i = 0; i < waits_.size(); ++i) {
      if (IsRoot(i)) Add(i, {}, open);
    }
    while (!open.empty()) {
      std::vector<size_t> circle = CircleFrom(*open.begin());
      const size_t first = circle.front();
      circle.erase(circle.begin());
      Add(first, circle, open);
    }
    std::sort(explanation_.findings.begin(), explanation_.findings.end(),
              [](const HangFinding& a, const HangFinding& b) { return a.wait.waited > b.wait.waited; });
    if (!explanation_.findings.empty()) {
      const bool may_end = std::all_of(explanation_.findings.begin(), explanation_.findings.end(),
                                       [](const HangFinding& finding) { return finding.may_end; });
      explanation_.verdict = may_end ? HangExplanation::Verdict::kWaiting : HangExplanation::Verdict::kHang;
    }
    return std::move(explanation_);
  }

 private:
  static bool EndsAreKnown(const Wait& wait) {
    return std::all_of(wait.waiting.begin(), wait.waiting.end(),
                       [](const Member* member) { return member->communicator->reports_kernels; });
  }

  // An earlier start of the job has left it.
  bool AllHaveEnded(const Wait& wait) const {
    return std::all_of(wait.waiting.begin(), wait.waiting.end(),
                       [&](const Member* member) { return RankOf(member).life == HangRank::Life::kEnded; });
  }

  const HangRank& RankOf(const Member* member) const { return job_.ranks[member->rank]; }
  bool AnyIs(const std::vector<const Member*>& members, HangRank::Life life) const {
    return std::any_of(members.begin(), members.end(),
                       [&](const Member* member) { return RankOf(member).life == life; });
  }

  // An edge leads to a wait in which a late rank of this one waits.
  void FindEdges() {
    edges_.resize(waits_.size());
    for (size_t from = 0; from < waits_.size(); ++from) {
      for (size_t to = 0; to < waits_.size(); ++to) {
        if (from != to && LeadsTo(waits_[from], waits_[to])) edges_[from].push_back(to);
      }
    }
  }
  static bool LeadsTo(const Wait& from, const Wait& to) {
    if (from.lateness != Lateness::kNotEntered && from.lateness != Lateness::kNotStarted) return false;
    return std::any_of(from.late.begin(), from.late.end(), [&](const Member* late) {
      return std::any_of(to.waiting.begin(), to.waiting.end(), [&](const Member* member) {
        return member->rank == late->rank &&
               (from.lateness == Lateness::kNotEntered || member->pending->started);
      });
    });
  }
  // A rank that has ended or is stopped explains its wait, also if it waits elsewhere.
  bool IsRoot(size_t wait) const {
    return edges_[wait].empty() || AnyIs(waits_[wait].late, HangRank::Life::kEnded) ||
           !waits_[wait].unknown.empty();
  }

  // Follows edges from `start`, which reaches no root, until a wait comes again.
  std::vector<size_t> CircleFrom(size_t start) const {
    std::vector<size_t> path;
    for (size_t at = start;; at = edges_[at].front()) {
      const auto seen = std::find(path.begin(), path.end(), at);
      if (seen != path.end()) return {seen, path.end()};
      path.push_back(at);
    }
  }

  // Adds a finding, and closes the waits that follow from it.
  void Add(size_t wait, const std::vector<size_t>& circle, std::set<size_t>& open) {
    if (open.erase(wait) == 0) return;
    HangFinding finding = Describe(wait, circle);
    for (const size_t other : circle) open.erase(other);
    explanation_.findings.push_back(std::move(finding));
    std::set<size_t> reached = {wait};
    bool grows = true;
    while (grows) {
      grows = false;
      for (size_t from = 0; from < waits_.size(); ++from) {
        if (reached.contains(from)) continue;
        for (const size_t to : edges_[from]) {
          if (!reached.contains(to) || IsRoot(from)) continue;
          reached.insert(from);
          if (open.erase(from) != 0) ++explanation_.other_waits;
          grows = true;
          break;
        }
      }
    }
  }

  HangFinding Describe(size_t index, const std::vector<size_t>& circle) {
    Wait& found = waits_[index];
    HangFinding finding;
    // Without a late rank, one that is stopped or has ended in the operation holds it up.
    if (found.late.empty() && found.unknown.empty()) {
      for (const Member* member : found.waiting) {
        const HangRank::Life life = RankOf(member).life;
        if (life == HangRank::Life::kEnded || life == HangRank::Life::kStopped) found.late.push_back(member);
      }
    }
    finding.wait = ToWait(found);
    finding.cause = circle.empty() ? CauseOf(found, finding.wait) : HangCause::kCircle;
    for (const size_t other : circle) finding.circle.push_back(ToWait(waits_[other]));
    finding.may_end = MayEnd(found, finding.cause);
    if (finding.cause == HangCause::kStuck || finding.cause == HangCause::kAbsent)
      finding.links = FindStuckLinks(job_, groups_[found.group], found);
    finding.sentence = SentenceOf(job_, found, finding);
    AddLinkReasons(finding);
    AddReasons(found, finding);
    for (const size_t other : circle) AddReasons(waits_[other], finding);
    return finding;
  }

  HangWait ToWait(const Wait& found) const {
    const Group& group = groups_[found.group];
    HangWait wait;
    wait.communicator = group.id;
    wait.communicator_name = group.name;
    wait.number = found.number;
    if (found.name_known) wait.function = found.operation->function;
    wait.waited = found.waited;
    wait.all_late = AllAreLate(found);
    for (const Member* member : found.waiting) wait.waiting.push_back(RankOf(member).rank);
    for (const Member* member : found.late) wait.late.push_back(RankOf(member).rank);
    for (const int32_t place : found.unknown) {
      if (const std::optional<size_t> ended = FindEnded(group, place))
        wait.late.push_back(job_.ranks[*ended].rank);
      else
        wait.unknown_members.push_back(place);
    }
    return wait;
  }
  // Returns the index of a rank that has ended and left no communicator. In the communicator of all ranks,
  // the numbers of its members are the ranks. In others, the member is not known.
  std::optional<size_t> FindEnded(const Group& group, int32_t place) const {
    if (group.ranks != job_.world_size) return std::nullopt;
    for (size_t i = 0; i < job_.ranks.size(); ++i) {
      if (job_.ranks[i].rank == RankId(place) && job_.ranks[i].life == HangRank::Life::kEnded) return i;
    }
    return std::nullopt;
  }

  HangCause CauseOf(const Wait& found, const HangWait& wait) const {
    if (AnyIs(found.late, HangRank::Life::kEnded) || wait.late.size() > found.late.size())
      return HangCause::kEnded;
    if (AnyIs(found.late, HangRank::Life::kStopped)) return HangCause::kStopped;
    if (!wait.unknown_members.empty()) return HangCause::kAbsent;
    switch (found.lateness) {
      case Lateness::kNotEntered:
        return found.waiting.size() < found.late.size() ? HangCause::kAhead : HangCause::kNeverEntered;
      case Lateness::kNotLaunched:
        return HangCause::kNeverLaunched;
      case Lateness::kNotStarted:
        return HangCause::kNeverStarted;
      case Lateness::kDifferent:
        return HangCause::kMismatch;
      case Lateness::kNone:
        break;
    }
    return HangCause::kStuck;
  }

  // False if a member has started or ended the operation.
  bool AllAreLate(const Wait& found) const {
    return found.late.size() == groups_[found.group].members.size();
  }

  bool MayEnd(const Wait& found, HangCause cause) const {
    // Before a kernel has started, no rank waits for another one: all GPUs have other work, as in a long
    // step. It may be a kernel that never ends.
    if (cause == HangCause::kNeverStarted) return AllAreLate(found) && found.waited / kLongestStep < after_;
    if (cause != HangCause::kNeverEntered && cause != HangCause::kAhead) return false;
    return std::all_of(found.late.begin(), found.late.end(),
                       [&](const Member* member) { return Computes(RankOf(member)); });
  }

  void AddLinkReasons(HangFinding& finding) const {
    for (size_t i = 0; i < finding.links.size() && i < kMostLinks; ++i)
      finding.reasons.push_back(LinkText(job_, finding.links[i]));
    if (finding.links.size() > kMostLinks)
      finding.reasons.push_back(
          absl::StrCat(finding.links.size() - kMostLinks, " further links stand still"));
  }

  void AddReasons(const Wait& found, HangFinding& finding) const {
    std::set<size_t> ranks;
    for (const Member* member : found.late) ranks.insert(member->rank);
    for (const int32_t place : found.unknown) {
      if (const std::optional<size_t> ended = FindEnded(groups_[found.group], place)) ranks.insert(*ended);
    }
    for (const size_t rank : ranks) {
      if (finding.reasons.size() >= kMostReasons) return;
      finding.reasons.push_back(DoingText(job_, groups_, rank));
      const HangRank& late = job_.ranks[rank];
      if (!late.stacks) continue;
      for (std::string& text : StackTexts(late.rank, *late.stacks))
        finding.reasons.push_back(std::move(text));
      finding.stacks.push_back({late.rank, *late.stacks});
    }
  }

  const HangJob& job_;
  const Nanos after_;
  const std::vector<Group> groups_;
  std::vector<Wait> waits_;  // those that are old enough
  std::vector<std::vector<size_t>> edges_;
  HangExplanation explanation_;
};

}  // namespace

const char* HangCauseName(HangCause cause) {
  switch (cause) {
    case HangCause::kEnded:
      return "ended";
    case HangCause::kStopped:
      return "stopped";
    case HangCause::kAbsent:
      return "absent";
    case HangCause::kNeverEntered:
      return "never_entered";
    case HangCause::kAhead:
      return "ahead";
    case HangCause::kMismatch:
      return "mismatch";
    case HangCause::kCircle:
      return "circle";
    case HangCause::kNeverLaunched:
      return "never_launched";
    case HangCause::kNeverStarted:
      return "never_started";
    case HangCause::kStuck:
      return "stuck";
  }
  return "unknown";
}

HangExplanation ExplainHang(const HangJob& job, Nanos after) { return Explainer(job, after).Explain(); }

}  // namespace lockstep::analysis
