#include "analysis/explain/lone_links.h"

#include <algorithm>
#include <span>

#include "analysis/prepare/stats.h"

namespace lockstep::analysis {
namespace {

// Fewer steps do not show the usual time.
constexpr size_t kLeastLinkSteps = 5;
// A slow step takes this much longer than the fast half of the steps, and stands out of their spread.
constexpr double kSlow = 0.15;
constexpr double kLoneSigmas = 6.0;

// By step: the time of all of one owner's transfers, and their time in the fast quarter of the steps.
struct Past {
  std::vector<double> took, usual;
};

double LowerQuartile(std::span<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 4);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

class LoneLinkFinder {
 public:
  LoneLinkFinder(const GraphInput& input, const Graph& graph, const Classes& classes, const Excess& excess)
      : in_(input), graph_(graph), classes_(classes), excess_(excess), steps_(input.steps.count()) {}

  std::vector<SlowLink> Run() {
    std::vector<SlowLink> found;
    if (steps_ < kLeastLinkSteps) return found;
    AddUp();
    for (uint32_t owner = 0; owner < pasts_.size(); ++owner) {
      if (pasts_[owner].took.empty()) continue;
      const std::vector<uint8_t> slow = SlowSteps(pasts_[owner]);
      // A single slow step is an incident, or a clock that was set.
      if (std::count(slow.begin(), slow.end(), 1) >= 2) found.push_back(Describe(owner, slow));
    }
    return found;
  }

 private:
  bool Alone(uint32_t owner) const {
    return excess_.OfOwner(owner).typical_ns <= 0 && !IsUncertain(in_, classes_.owners[owner]) &&
           !OnSetClock(in_, classes_.owners[owner].rank_indices);
  }

  void AddUp() {
    pasts_.resize(classes_.owners.size());
    std::vector<uint8_t> alone(classes_.owners.size());
    for (uint32_t o = 0; o < alone.size(); ++o) alone[o] = Alone(o) ? 1 : 0;
    std::vector<double> works;
    for (const Cell& cell : classes_.cells) {
      if (cell.kind != UnitKind::kTransfer || alone[cell.owner] == 0) continue;
      works.clear();
      for (uint32_t u : classes_.UnitsOf(cell)) works.push_back(graph_.work[u]);
      const double usual = LowerQuartile(works);
      Past& past = pasts_[cell.owner];
      past.took.resize(steps_);
      past.usual.resize(steps_);
      for (uint32_t u : classes_.UnitsOf(cell)) {
        const auto k = static_cast<size_t>(graph_.units[u].step);
        past.took[k] += graph_.work[u];
        past.usual[k] += usual;
      }
    }
  }

  static std::vector<uint8_t> SlowSteps(const Past& past) {
    std::vector<double> ratios;
    for (size_t k = 0; k < past.took.size(); ++k) {
      if (past.usual[k] > 0) ratios.push_back(past.took[k] / past.usual[k]);
    }
    std::vector<uint8_t> slow(past.took.size(), 0);
    if (ratios.empty()) return slow;
    std::sort(ratios.begin(), ratios.end());
    ratios.resize((ratios.size() + 1) / 2);
    const double limit = Median(ratios) + std::max(kSlow, kLoneSigmas * ScaledMad(ratios));
    for (size_t k = 0; k < slow.size(); ++k)
      slow[k] = past.usual[k] > 0 && past.took[k] > limit * past.usual[k] ? 1 : 0;
    return slow;
  }

  SlowLink Describe(uint32_t owner, const std::vector<uint8_t>& slow) const {
    const Past& past = pasts_[owner];
    size_t count = 0, runs = 0;
    double took = 0, usual = 0;
    for (size_t k = 0; k < steps_; ++k) {
      if (slow[k] == 0) continue;
      ++count;
      runs += k == 0 || slow[k - 1] == 0 ? 1 : 0;
      took += past.took[k];
      usual += past.usual[k];
    }
    SlowLink link{.kind = runs > 1 ? LinkKind::kCongestion : LinkKind::kGroup,
                  .rank_indices = classes_.owners[owner].rank_indices};
    link.is_certain = false;
    link.has_no_peers = true;
    link.owners = {owner};
    link.ratio = took / usual;
    link.slow_steps = static_cast<double>(count) / static_cast<double>(steps_);
    for (const Cell& cell : classes_.cells) {
      if (cell.kind != UnitKind::kTransfer || cell.owner != owner) continue;
      for (uint32_t u : classes_.UnitsOf(cell)) {
        const auto k = static_cast<size_t>(graph_.units[u].step);
        if (slow[k] != 0 && past.took[k] > 0)
          link.pieces.push_back({EndOf(u), graph_.work[u] * (1 - past.usual[k] / past.took[k])});
      }
    }
    return link;
  }

  const GraphInput& in_;
  const Graph& graph_;
  const Classes& classes_;
  const Excess& excess_;
  size_t steps_;
  std::vector<Past> pasts_;  // by owner; empty for owners that can be compared
};

}  // namespace

std::vector<SlowLink> FindSlowLoneGroups(const GraphInput& input, const Graph& graph, const Classes& classes,
                                         const Excess& excess) {
  return LoneLinkFinder(input, graph, classes, excess).Run();
}

}  // namespace lockstep::analysis
