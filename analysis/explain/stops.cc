#include "analysis/explain/stops.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "analysis/compare/host_gaps.h"
#include "analysis/explain/causes.h"

namespace lockstep::analysis {
namespace {

// At least this share of the ranks is nearly all of them.
constexpr double kNearlyAllRanks = 0.8;
// Pauses on this many ranks or more are shared if no rank has more than half of them.
constexpr size_t kSeveralRanks = 3;
constexpr double kSharedShare = 0.5;
constexpr double kLongStopNs = 2e6;

class StopFinder {
 public:
  StopFinder(const GraphInput& input, const Graph& graph, const Excess& excess)
      : graph_(graph),
        excess_(excess),
        steps_(input.steps.count()),
        ranks_(static_cast<uint32_t>(input.capture.ranks.size())) {}

  Stops Run() {
    out_.of_rank.resize(ranks_);
    std::vector<uint32_t> stopped(steps_, 0);
    std::vector<double> total(ranks_, 0);
    for (uint32_t r = 0; r < ranks_; ++r) {
      out_.of_rank[r] = excess_.PausePieces(r);
      std::vector<double> longest(steps_, 0);
      for (const Piece& p : out_.of_rank[r]) {
        double& step = longest[static_cast<size_t>(graph_.units[UnitOf(p.node)].step)];
        step = std::max(step, p.ns);
        total[r] += p.ns;
      }
      for (size_t k = 0; k < steps_; ++k) stopped[k] += longest[k] >= kLongStopNs ? 1 : 0;
    }
    TakeStopsOfAll(stopped);
    for (uint32_t r = 0; r < ranks_; ++r)
      total[r] = std::accumulate(out_.of_rank[r].begin(), out_.of_rank[r].end(), 0.0,
                                 [](double sum, const Piece& p) { return sum + p.ns; });
    TakeSharedPauses(total);
    return std::move(out_);
  }

 private:
  void TakeStopsOfAll(const std::vector<uint32_t>& stopped) {
    std::vector<uint32_t> steps;
    for (uint32_t k = 0; k < steps_; ++k) {
      if (ranks_ > 1 && stopped[k] >= kNearlyAllRanks * ranks_) steps.push_back(k);
    }
    if (steps.empty()) return;
    Explanation e{.kind = CulpritKind::kJob, .rank_indices = AllRanks()};
    const auto at_once = [&](const Piece& p) {
      return std::binary_search(steps.begin(), steps.end(),
                                static_cast<uint32_t>(graph_.units[UnitOf(p.node)].step));
    };
    for (Pieces& own : out_.of_rank) {
      std::copy_if(own.begin(), own.end(), std::back_inserter(e.pieces), at_once);
      std::erase_if(own, at_once);
    }
    e.excess_ns = SumPerStep(e.pieces, steps_) / ranks_;
    const uint32_t period = PeriodOf(steps, steps_);
    e.cause = period > 0 ? Cause::kCheckpoint : Cause::kHostPause;
    e.rule_share = period > 0 || steps.size() > 1 ? 1 : 0.5;
    const double length = e.excess_ns * static_cast<double>(steps_) / static_cast<double>(steps.size());
    e.evidence.push_back(period > 0
                             ? absl::StrFormat("all hosts stop together every %d steps, for %s each", period,
                                               LengthText(length))
                             : absl::StrFormat("all hosts stop together in %d of %d steps, for %s each",
                                               steps.size(), steps_, LengthText(length)));
    out_.shared.push_back(std::move(e));
  }

  // Takes pauses on changing ranks, as from garbage collection.
  void TakeSharedPauses(const std::vector<double>& total) {
    const double all = std::accumulate(total.begin(), total.end(), 0.0);
    std::vector<uint32_t> with;
    for (uint32_t r = 0; r < ranks_; ++r) {
      if (total[r] > kLongStopNs) with.push_back(r);
    }
    if (with.size() < kSeveralRanks || *std::max_element(total.begin(), total.end()) > kSharedShare * all)
      return;
    // If only a few of many ranks have pauses, each of them has its own cause.
    std::vector<uint32_t> sorted = with;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](uint32_t a, uint32_t b) { return total[a] > total[b]; });
    if (with.size() < ranks_ / 4) return;
    Explanation e{.kind = CulpritKind::kJob, .cause = Cause::kHostPause, .rank_indices = sorted};
    double longest = 0;
    size_t stops = 0;
    for (uint32_t r : with) {
      for (const Piece& p : out_.of_rank[r]) {
        longest = std::max(longest, p.ns);
        stops += p.ns >= kLongStopNs ? 1 : 0;
      }
      e.pieces.insert(e.pieces.end(), out_.of_rank[r].begin(), out_.of_rank[r].end());
      out_.of_rank[r].clear();
    }
    e.excess_ns = SumPerStep(e.pieces, steps_);
    e.evidence.push_back(
        absl::StrFormat("hosts stop in turn, not together: %d stops of up to %s on %d ranks in %d steps",
                        stops, LengthText(longest), with.size(), steps_));
    out_.shared.push_back(std::move(e));
  }

  std::vector<uint32_t> AllRanks() const {
    std::vector<uint32_t> all(ranks_);
    std::iota(all.begin(), all.end(), 0u);
    return all;
  }

  const Graph& graph_;
  const Excess& excess_;
  size_t steps_;
  uint32_t ranks_;
  Stops out_;
};

}  // namespace

Stops FindStops(const GraphInput& input, const Graph& graph, const Excess& excess) {
  return StopFinder(input, graph, excess).Run();
}

}  // namespace lockstep::analysis
