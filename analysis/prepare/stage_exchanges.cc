#include "analysis/prepare/stage_exchanges.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

namespace lockstep::analysis {
namespace {

using capture::Member;

// Members of one program may differ by this many kernels, because streams run side by side.
constexpr int64_t kSameProgram = 1;
// Two ranks are neighbouring stages if one of them is ahead in this share of the steps.
constexpr double kMostSteps = 0.75;

// A step's first exchange. Later ones show less: forward and backward passes may have equally many kernels.
struct FirstExchange {
  bool found = false;
  HostTime end;       // on the first rank's clock
  int64_t ahead = 0;  // kernels that the first rank had run, minus those of the second
};

class ExchangeFinder {
 public:
  ExchangeFinder(const capture::Capture& capture, const capture::Matches& matches, const Steps& steps)
      : capture_(capture), matches_(matches), steps_(steps), before_(capture.ranks.size()) {}

  std::vector<StageExchange> Run() {
    for (const capture::Instance& instance : matches_.instances) {
      if (!instance.complete || instance.members.size() != 2) continue;
      const auto exchanges = [&](const Member& m) {
        return capture_.ranks[m.rank_index].collectives[m.collective].op ==
               capture::CollectiveOp::kSendReceive;
      };
      if (!exchanges(instance.members[0]) || !exchanges(instance.members[1])) continue;
      const bool ordered = instance.members[0].rank_index < instance.members[1].rank_index;
      Add(instance.members[ordered ? 0 : 1], instance.members[ordered ? 1 : 0]);
    }
    std::vector<StageExchange> found;
    for (const auto& [ranks, firsts] : pairs_) {
      int32_t steps = 0, ahead = 0;
      for (const FirstExchange& first : firsts) {
        if (!first.found) continue;
        ++steps;
        if (std::abs(first.ahead) > kSameProgram) ahead += first.ahead > 0 ? 1 : -1;
      }
      if (std::abs(ahead) >= kMostSteps * steps) found.push_back({ranks.first, ranks.second, ahead});
    }
    return found;
  }

 private:
  uint32_t ActivityOf(const Member& m) const {
    return capture_.ranks[m.rank_index].collectives[m.collective].activity;
  }
  int32_t StepOf(const Member& m) const {
    const std::vector<int32_t>& of = steps_.ranks[m.rank_index].of_activity;
    const uint32_t activity = ActivityOf(m);
    return activity < of.size() ? of[activity] : kBeforeSteps;
  }

  void Add(const Member& a, const Member& b) {
    const int32_t step = StepOf(a);
    if (step < 0 || StepOf(b) != step) return;
    std::vector<FirstExchange>& firsts = pairs_[{a.rank_index, b.rank_index}];
    firsts.resize(steps_.count());
    FirstExchange& first = firsts[static_cast<size_t>(step)];
    const HostTime end = capture_.ranks[a.rank_index].activities[ActivityOf(a)].end;
    if (!first.found || end < first.end)
      first = {.found = true, .end = end, .ahead = KernelsBefore(a) - KernelsBefore(b)};
  }

  // Number of the step's kernels that the rank started before, without communication.
  int64_t KernelsBefore(const Member& m) {
    std::vector<uint32_t>& before = before_[m.rank_index];
    if (before.empty()) {
      const capture::RankData& rank = capture_.ranks[m.rank_index];
      const std::vector<int32_t>& of = steps_.ranks[m.rank_index].of_activity;
      std::vector<uint32_t> count(steps_.count(), 0);
      before.resize(rank.activities.size(), 0);
      for (uint32_t i = 0; i < rank.activities.size() && i < of.size(); ++i) {
        if (of[i] < 0) continue;
        uint32_t& kernels = count[static_cast<size_t>(of[i])];
        before[i] = kernels;
        if (rank.activities[i].kind == capture::ActivityKind::kKernel && !rank.activities[i].communication)
          ++kernels;
      }
    }
    return before[ActivityOf(m)];
  }

  const capture::Capture& capture_;
  const capture::Matches& matches_;
  const Steps& steps_;
  std::vector<std::vector<uint32_t>> before_;  // by rank index and activity; empty until needed
  std::map<std::pair<uint32_t, uint32_t>, std::vector<FirstExchange>> pairs_;  // by step
};

}  // namespace

std::vector<StageExchange> FindStageExchanges(const capture::Capture& capture,
                                              const capture::Matches& matches, const Steps& steps) {
  return ExchangeFinder(capture, matches, steps).Run();
}

}  // namespace lockstep::analysis
