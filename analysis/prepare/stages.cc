#include "analysis/prepare/stages.h"

#include <algorithm>
#include <utility>

#include "analysis/prepare/stage_exchanges.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using capture::Instance;
using capture::kNone;

class Inference {
 public:
  Inference(const capture::Capture& capture, const capture::Matches& matches, const CollectiveTimes& times,
            const Steps& steps)
      : capture_(capture),
        matches_(matches),
        times_(times),
        steps_(steps),
        neighbours_(capture.ranks.size()) {}

  Layout Run() {
    const size_t ranks = capture_.ranks.size();
    out_.stage_of.assign(ranks, -1);
    out_.pipeline_of.assign(ranks, kNone);
    out_.tensor_group_of.assign(ranks, kNone);
    out_.data_group_of.assign(ranks, kNone);
    FindNeighbours();
    FindPipelines();
    CountGroups();
    SpreadStages();
    FindGroups();
    return std::move(out_);
  }

 private:
  CollectiveOp OpOf(const capture::Member& m) const {
    return capture_.ranks[m.rank_index].collectives[m.collective].op;
  }

  // Finds the ranks that exchange messages, and the direction of each rank's first message in a step.
  void FindNeighbours() {
    sends_first_.assign(capture_.ranks.size(), 0);
    std::vector<std::vector<uint32_t>> first(capture_.ranks.size(),
                                             std::vector<uint32_t>(steps_.count(), kNone));
    for (const Instance& instance : matches_.instances) {
      if (!instance.complete || instance.members.size() != 2) continue;
      const CollectiveOp a = OpOf(instance.members[0]), b = OpOf(instance.members[1]);
      const bool message = (a == CollectiveOp::kSend && b == CollectiveOp::kReceive) ||
                           (a == CollectiveOp::kReceive && b == CollectiveOp::kSend);
      if (!message) continue;
      Connect(instance.members[0].rank_index, instance.members[1].rank_index);
      for (const capture::Member& m : instance.members) {
        const int32_t step = StepOf(m);
        if (step < 0) continue;
        // A receive may be posted long before its data comes, so the message that ended first is the first.
        uint32_t& earliest = first[m.rank_index][static_cast<size_t>(step)];
        if (earliest == kNone || EndOf(m) < EndOf({m.rank_index, earliest})) earliest = m.collective;
      }
    }
    for (size_t r = 0; r < first.size(); ++r) {
      for (uint32_t c : first[r]) {
        if (c != kNone)
          sends_first_[r] += capture_.ranks[r].collectives[c].op == CollectiveOp::kSend ? 1 : -1;
      }
    }
    for (const StageExchange& e : FindStageExchanges(capture_, matches_, steps_)) {
      Connect(e.first, e.second);
      sends_first_[e.first] += e.first_ahead;
      sends_first_[e.second] -= e.first_ahead;
    }
  }

  int32_t StepOf(const capture::Member& m) const {
    const uint32_t activity = capture_.ranks[m.rank_index].collectives[m.collective].activity;
    const std::vector<int32_t>& of = steps_.ranks[m.rank_index].of_activity;
    return activity < of.size() ? of[activity] : kBeforeSteps;
  }

  HostTime EndOf(const capture::Member& m) const {
    const capture::RankData& rank = capture_.ranks[m.rank_index];
    return rank.activities[rank.collectives[m.collective].activity].end;
  }

  void Connect(uint32_t a, uint32_t b) {
    for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
      std::vector<uint32_t>& list = neighbours_[from];
      if (std::find(list.begin(), list.end(), to) == list.end()) list.push_back(to);
    }
  }

  void FindPipelines() {
    std::vector<uint8_t> seen(neighbours_.size(), 0);
    std::vector<std::vector<uint32_t>> pipelines;
    bool known = true;
    for (uint32_t r = 0; r < neighbours_.size(); ++r) {
      if (seen[r] != 0 || neighbours_[r].empty()) continue;
      std::vector<uint32_t> members = Component(r, seen);
      if (!InOrder(members, known)) return;
      if (!pipelines.empty() && members.size() != pipelines[0].size()) return;
      pipelines.push_back(std::move(members));
    }
    if (pipelines.empty()) return;
    out_.stages = static_cast<uint32_t>(pipelines[0].size());
    out_.first_known = known;
    for (uint32_t p = 0; p < pipelines.size(); ++p) {
      for (uint32_t stage = 0; stage < out_.stages; ++stage) {
        out_.stage_of[pipelines[p][stage]] = static_cast<int32_t>(stage);
        out_.pipeline_of[pipelines[p][stage]] = p;
      }
    }
  }

  std::vector<uint32_t> Component(uint32_t from, std::vector<uint8_t>& seen) const {
    std::vector<uint32_t> members = {from};
    seen[from] = 1;
    for (size_t i = 0; i < members.size(); ++i) {
      for (uint32_t next : neighbours_[members[i]]) {
        if (seen[next] != 0) continue;
        seen[next] = 1;
        members.push_back(next);
      }
    }
    std::sort(members.begin(), members.end());
    return members;
  }

  // Orders a chain from its first stage, or a ring from the only rank that sends before it receives. Returns
  // false for other shapes.
  bool InOrder(std::vector<uint32_t>& members, bool& known) const {
    std::vector<uint32_t> ends, senders;
    for (uint32_t r : members) {
      if (neighbours_[r].size() > 2) return false;
      if (neighbours_[r].size() == 1) ends.push_back(r);
      if (sends_first_[r] > 0) senders.push_back(r);
    }
    uint32_t first = kNone;
    if (ends.size() == 2) {
      first = sends_first_[ends[1]] > sends_first_[ends[0]] ? ends[1] : ends[0];
      known = known && sends_first_[ends[0]] != sends_first_[ends[1]];
    } else if (ends.empty() && senders.size() == 1) {
      first = senders[0];
    } else {
      return false;
    }
    std::vector<uint32_t> order = {first};
    // In a ring, the second stage is the receiver of the first stage's first send.
    uint32_t next = ends.empty() ? FirstReceiver(first) : neighbours_[first][0];
    while (next != kNone && next != first) {
      order.push_back(next);
      const uint32_t before = order[order.size() - 2], here = next;
      next = kNone;
      for (uint32_t n : neighbours_[here]) {
        if (n != before) next = n;
      }
    }
    if (order.size() != members.size()) return false;
    members = std::move(order);
    return true;
  }

  // The receiver of the rank's first send in a step.
  uint32_t FirstReceiver(uint32_t rank) const {
    const auto& collectives = capture_.ranks[rank].collectives;
    int32_t step = kBeforeSteps;
    for (uint32_t c = 0; c < collectives.size(); ++c) {
      const int32_t now = StepOf({rank, c});
      if (now < 0 || now == step || collectives[c].op != CollectiveOp::kSend) continue;
      step = now;
      const uint32_t n = matches_.instance_of[rank][c];
      if (n == kNone || matches_.instances[n].members.size() != 2) continue;
      const auto& members = matches_.instances[n].members;
      return members[members[0].rank_index == rank ? 1 : 0].rank_index;
    }
    return kNone;
  }

  // Counts the symmetric instances of each group, and finds its ranks.
  void CountGroups() {
    groups_.resize(capture_.groups.size());
    for (size_t n = 0; n < matches_.instances.size(); ++n) {
      const Instance& instance = matches_.instances[n];
      if (!instance.usable || !times_.instances[n].symmetric || instance.group >= groups_.size()) continue;
      GroupUse& use = groups_[instance.group];
      // An instance with a lost record has fewer members.
      if (use.ranks.size() < instance.members.size()) {
        use.ranks.clear();
        for (const capture::Member& m : instance.members) use.ranks.push_back(m.rank_index);
      }
      ++use.instances;
    }
  }

  // A rank without messages gets the stage of its group, if the group lies in one stage.
  void SpreadStages() {
    if (out_.stages == 0) return;
    for (const GroupUse& use : groups_) {
      const int32_t stage = StageOfKnown(use);
      if (stage < 0 || use.ranks.size() >= capture_.ranks.size()) continue;
      for (uint32_t r : use.ranks) out_.stage_of[r] = stage;
    }
  }

  struct GroupUse {
    std::vector<uint32_t> ranks;
    uint64_t instances = 0;
  };

  // The only stage among the group's ranks with a known stage; -1 for none or several.
  int32_t StageOfKnown(const GroupUse& use) const {
    int32_t stage = -1;
    for (uint32_t r : use.ranks) {
      if (out_.stage_of[r] < 0) continue;
      if (stage >= 0 && out_.stage_of[r] != stage) return -1;
      stage = out_.stage_of[r];
    }
    return stage;
  }

  void FindGroups() {
    const auto steps = static_cast<double>(std::max<size_t>(1, steps_.count()));
    struct Choice {
      uint32_t most = kNone, second = kNone;
    };
    std::vector<Choice> choice(capture_.ranks.size());
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      const GroupUse& use = groups_[g];
      if (use.ranks.size() < 2 || (use.ranks.size() == capture_.ranks.size() && groups_.size() > 1)) continue;
      if (out_.stages > 0 && StageOfKnown(use) < 0) continue;
      for (uint32_t r : use.ranks) {
        Choice& c = choice[r];
        if (c.most == kNone || use.instances > groups_[c.most].instances) {
          c.second = c.most;
          c.most = g;
        } else if (c.second == kNone || use.instances > groups_[c.second].instances) {
          c.second = g;
        }
      }
    }
    for (size_t r = 0; r < choice.size(); ++r) {
      const Choice& c = choice[r];
      if (c.most == kNone) continue;
      const bool tensor =
          c.second != kNone || static_cast<double>(groups_[c.most].instances) / steps > kTensorCalls;
      out_.tensor_group_of[r] = tensor ? c.most : kNone;
      out_.data_group_of[r] = tensor ? c.second : c.most;
    }
  }

  const capture::Capture& capture_;
  const capture::Matches& matches_;
  const CollectiveTimes& times_;
  const Steps& steps_;
  std::vector<std::vector<uint32_t>> neighbours_;  // by rank index
  std::vector<int32_t>
      sends_first_;  // by rank index: steps that begin with a send, minus steps that begin with a receive
  std::vector<GroupUse> groups_;
  Layout out_;
};

}  // namespace

std::vector<uint32_t> Layout::RanksOf(int32_t stage) const {
  std::vector<uint32_t> ranks;
  for (uint32_t r = 0; r < stage_of.size(); ++r) {
    if (stage_of[r] == stage) ranks.push_back(r);
  }
  return ranks;
}

Layout InferLayout(const capture::Capture& capture, const capture::Matches& matches,
                   const CollectiveTimes& times, const Steps& steps) {
  return Inference(capture, matches, times, steps).Run();
}

}  // namespace lockstep::analysis
