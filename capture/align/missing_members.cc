#include "capture/align/missing_members.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace lockstep::capture {
namespace {

using capture::GroupOrigin;

// If more than one in this many of a group's members are lost, the matching is wrong.
constexpr uint64_t kMostLostOneIn = 8;
// A group of up to this many kernels per rank may lie entirely at the window's edges.
constexpr uint64_t kFewAtEdges = 2;

struct Span {
  JobTime first = JobTime::Max();
  JobTime last = JobTime::Min();
  void Include(JobTime t) {
    first = std::min(first, t);
    last = std::max(last, t);
  }
};

class Explainer {
 public:
  Explainer(const capture::Capture& capture, const GroupMembers& groups, const ClockModel& clock,
            std::vector<Instance>& instances, MatchStatuses& match_statuses)
      : capture_(capture), groups_(groups), clock_(clock), instances_(instances), statuses_(match_statuses) {}

  void Run() {
    FindSpans();
    for (size_t n = 0; n < instances_.size(); ++n) Explain(n);
    for (uint32_t g = 0; g < groups_.groups(); ++g) RejectBadGroup(g);
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) MarkLaunchedBefore(r);
  }

 private:
  JobTime EndOf(const Member& m) const {
    const capture::RankData& rank = capture_.ranks[m.rank_index];
    return clock_.ToJob(rank.host, rank.activities[rank.collectives[m.collective].activity].end);
  }

  // Members leave together. So the ends of a rank's first and last collective of a group show which of the
  // group's instances its window contained.
  void FindSpans() {
    of_rank_.resize(capture_.ranks.size());
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      const auto& collectives = capture_.ranks[r].collectives;
      for (uint32_t i = 0; i < collectives.size(); ++i) {
        const JobTime end = EndOf({r, i});
        of_rank_[r].Include(end);
        if (collectives[i].group < groups_.groups()) of_member_[{collectives[i].group, r}].Include(end);
      }
    }
  }

  // The span of the rank's collectives in the group, or of all its collectives if it has none in the group.
  const Span& SpanOf(uint32_t group, uint32_t rank) const {
    const auto it = of_member_.find({group, rank});
    return it == of_member_.end() ? of_rank_[rank] : it->second;
  }

  void Explain(size_t n) {
    Instance& instance = instances_[n];
    Tally& tally = tallies_[instance.group];
    if (instance.complete) {
      instance.usable = true;
      tally.matched += instance.members.size();
      return;
    }
    instance.usable = false;
    JobTime first = JobTime::Max(), last = JobTime::Min();
    for (const Member& m : instance.members) {
      first = std::min(first, EndOf(m));
      last = std::max(last, EndOf(m));
    }
    bool cut = false;
    uint64_t lost = 0;
    const auto missing = [&](uint32_t r) {
      const bool here = std::any_of(instance.members.begin(), instance.members.end(),
                                    [&](const Member& m) { return m.rank_index == r; });
      if (here) return;
      const Span& span = SpanOf(instance.group, r);
      const bool outside = last < span.first || first > span.last;
      cut |= outside;
      lost += outside ? 0 : 1;
    };
    if (IsMessage(instance)) {
      // The two ranks of a message are known; other ranks of the group do not matter.
      lost = 1;
    } else {
      for (uint32_t r : groups_.Participants(instance.group)) missing(r);
      for (uint32_t r : groups_.Silent(instance.group)) missing(r);
    }
    const MatchStatus status = cut ? MatchStatus::kCutByWindow : MatchStatus::kPartnerLost;
    if (!cut && instance.members.size() >= 2) {
      instance.usable = true;
      tally.matched += instance.members.size();
      tally.lost += lost;
      return;
    }
    for (const Member& m : instance.members) SetStatus(m.rank_index, m.collective, status);
    (cut ? tally.cut : tally.alone) += instance.members.size();
    tally.lost += cut ? 0 : lost;
  }

  bool IsMessage(const Instance& instance) const {
    const Member& m = instance.members[0];
    return capture_.ranks[m.rank_index].collectives[m.collective].peer >= 0;
  }

  void SetStatus(uint32_t rank, uint32_t collective, MatchStatus status) {
    if (statuses_[rank][collective] != MatchStatus::kConflict) statuses_[rank][collective] = status;
  }

  // Few records get lost. If a group lacks members everywhere, the group is wrong.
  void RejectBadGroup(uint32_t group) {
    const auto it = tallies_.find(group);
    if (it == tallies_.end()) return;
    const Tally& t = it->second;
    const bool torn = capture_.groups[group].origin != GroupOrigin::kStated &&
                      t.lost * kMostLostOneIn > t.matched + t.alone + t.lost;
    const bool nothing = t.matched == 0 && t.cut + t.alone > kFewAtEdges * groups_.Participants(group).size();
    if (!torn && !nothing) return;
    for (Instance& instance : instances_) {
      if (instance.group != group || instance.complete) continue;
      instance.usable = false;
      for (const Member& m : instance.members) SetStatus(m.rank_index, m.collective, MatchStatus::kUnmatched);
    }
  }

  // A kernel that was launched before the window opened is recorded by chance. Its partners' kernels may be
  // missing.
  void MarkLaunchedBefore(uint32_t r) {
    const capture::RankData& rank = capture_.ranks[r];
    if (rank.api_calls.empty()) return;
    uint32_t first = std::numeric_limits<uint32_t>::max();
    for (const capture::ApiCall& call : rank.api_calls) {
      if (call.correlation.value() != 0) first = std::min(first, call.correlation.value());
    }
    for (uint32_t i = 0; i < rank.collectives.size(); ++i) {
      const CorrelationId launched = rank.activities[rank.collectives[i].activity].correlation;
      if (launched.value() != 0 && launched.value() < first) SetStatus(r, i, MatchStatus::kCutByWindow);
    }
  }

  struct Tally {
    uint64_t matched = 0;  // kernels in usable instances
    uint64_t alone = 0;    // without a recorded partner
    uint64_t cut = 0;
    uint64_t lost = 0;  // members whose records should exist
  };

  const capture::Capture& capture_;
  const GroupMembers& groups_;
  const ClockModel& clock_;
  std::vector<Instance>& instances_;
  MatchStatuses& statuses_;
  std::vector<Span> of_rank_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, Span> of_member_;  // group, rank
  absl::flat_hash_map<uint32_t, Tally> tallies_;                        // by group
};

}  // namespace

void ExplainMissingMembers(const capture::Capture& capture, const GroupMembers& groups,
                           const ClockModel& clock, std::vector<Instance>& instances,
                           MatchStatuses& match_statuses) {
  Explainer(capture, groups, clock, instances, match_statuses).Run();
}

}  // namespace lockstep::capture
