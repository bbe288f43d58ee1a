#include "capture/infer/channel_layouts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace lockstep::capture {
namespace {

constexpr double kNoDistance = std::numeric_limits<double>::infinity();
constexpr uint32_t kNoOffset = UINT32_MAX;
// From this many channels on, layouts differ by the averages over their blocks.
constexpr size_t kLeastForLayout = 4;
// Constant differences between the ranks that leave one operation reach this.
constexpr double kAsTightNs = 2e3;
// Between groups that only work in step, the distance varies more by at least this share, beyond rounded
// stamps.
constexpr double kAsSteady = 0.25, kRoundedNs = 100;
// Clusters without a layout always chose the nearest channel, so this selection alone makes them tighter.
constexpr double kAsTightAsChosen = 2;
constexpr double kMostWaited = 0.75;
constexpr double kClearlyFarther = 1.5;
constexpr double kNearlyAlways = 0.95;

struct Layout {
  size_t size;
  size_t stride;
  size_t BlockOf(size_t place) const { return place / (stride * size) * stride + place % stride; }
};

class Layouts {
 public:
  Layouts(std::span<const Channel> channels, std::span<const ChannelPair> pairs)
      : channels_(channels), pairs_(pairs), by_rank_(channels.size()), place_(channels.size()) {
    std::iota(by_rank_.begin(), by_rank_.end(), 0u);
    std::sort(by_rank_.begin(), by_rank_.end(),
              [&](uint32_t x, uint32_t y) { return channels_[x].rank < channels_[y].rank; });
    for (size_t i = 0; i < by_rank_.size(); ++i) place_[by_rank_[i]] = i;
    const size_t n = channels.size();
    const bool one_per_rank =
        std::adjacent_find(by_rank_.begin(), by_rank_.end(), [&](uint32_t x, uint32_t y) {
          return channels_[x].rank == channels_[y].rank;
        }) == by_rank_.end();
    if (n < kLeastForLayout || !one_per_rank) return;
    for (size_t size = 2; size <= n; ++size) {
      for (size_t stride = 1; stride * size <= n; ++stride) {
        if (n % (stride * size) == 0) all_.push_back({size, stride});
      }
    }
  }

  std::optional<Blocks> LeavingTogether(const Blocks& found) const {
    std::vector<Candidate> candidates;
    for (const Layout& layout : all_) {
      Candidate c{layout};
      MeasureSpread(c);
      if (!std::isfinite(c.spread_ns)) continue;
      c.length_ns = LengthSpreadOf(layout);
      candidates.push_back(c);
    }
    // Starts with the tightest layout, then extends it to larger ones.
    const Candidate* best = nullptr;
    for (const Candidate& c : candidates) {
      if (best == nullptr || c.spread_ns < best->spread_ns) best = &c;
    }
    if (best == nullptr || best->spread_ns > kAsTightAsChosen * TypicalSpreadOf(found) + kClockNs)
      return std::nullopt;
    for (const Candidate& c : candidates) {
      if (c.layout.size > best->layout.size && Extends(*best, c)) best = &c;
    }
    return BlocksOf(best->layout);
  }

  std::optional<Blocks> Separate() const {
    for (auto layout = all_.rbegin(); layout != all_.rend() && layout->size > 2; ++layout) {
      if (IsSeparate(*layout)) return BlocksOf(*layout);
    }
    return std::nullopt;
  }

 private:
  struct Candidate {
    Layout layout;
    double spread_ns = kNoDistance;
    double scatter_ns = 0;
    double length_ns = 0;  // variation of the operation's length
    double samples = 0;    // pairs of ends behind spread_ns
  };

  size_t BlockOfChannel(const Layout& layout, uint32_t channel) const {
    return layout.BlockOf(place_[channel]);
  }
  bool Inside(const Layout& layout, const ChannelPair& p) const {
    return BlockOfChannel(layout, p.a) == BlockOfChannel(layout, p.b);
  }

  Blocks BlocksOf(const Layout& layout) const {
    Blocks blocks(channels_.size() / layout.size);
    for (uint32_t c : by_rank_) blocks[BlockOfChannel(layout, c)].push_back(c);
    return blocks;
  }

  // True if the larger layout is the right one: its ends lie no further apart, or members of the smaller one
  // wait for a rank outside.
  bool Extends(const Candidate& small, const Candidate& large) const {
    const double tolerance = 1 + kErrors / std::sqrt(small.samples);
    // Constant differences between ranks keep ends apart by the same distance each time. Between groups that
    // only work in step, the distance varies more than inside each group.
    const bool as_tight = large.spread_ns <= tolerance * small.spread_ns + kAsTightNs &&
                          large.scatter_ns <= (tolerance + kAsSteady) * small.scatter_ns + kRoundedNs;
    return as_tight || large.length_ns < kSteadier * small.length_ns ||
           WaitForEachOther(small.layout, large.layout);
  }

  // Takes the mean over the pairs of members. It stays infinite if a pair does not fit at all, or if less
  // than half of the pairs leave together.
  void MeasureSpread(Candidate& c) const {
    double sum = 0, scatter = 0;
    size_t pairs = 0, together = 0;
    for (const ChannelPair& p : pairs_) {
      if (!Inside(c.layout, p)) continue;
      sum += p.spread_ns;
      scatter += p.scatter_ns;
      c.samples += std::max<uint32_t>(1, p.pairs);
      ++pairs;
      together += p.leaves_together ? 1 : 0;
    }
    const size_t n = channels_.size(), every = n * (c.layout.size - 1) / 2;
    const bool missing = n <= kEveryPair ? pairs < every : pairs < n / 2;
    if (missing || together * 2 < pairs) return;
    c.spread_ns = sum / static_cast<double>(pairs);
    c.scatter_ns = scatter / static_cast<double>(pairs);
  }

  bool IsSeparate(const Layout& layout) const {
    double farthest_inside = 0, nearest_outside = kNoDistance;
    size_t pairs = 0, together = 0;
    for (const ChannelPair& p : pairs_) {
      if (!Inside(layout, p)) {
        nearest_outside = std::min(nearest_outside, p.spread_ns);
        continue;
      }
      farthest_inside = std::max(farthest_inside, p.spread_ns);
      ++pairs;
      together += p.leaves_together ? 1 : 0;
    }
    return pairs > 0 && static_cast<double>(together) >= kMostWaited * static_cast<double>(pairs) &&
           nearest_outside > kClearlyFarther * farthest_inside;
  }

  // For each block, the merged intervals of its members.
  std::vector<std::vector<KernelInterval>> AsOne(const Layout& layout) const {
    std::vector<std::vector<KernelInterval>> blocks(by_rank_.size() / layout.size);
    for (uint32_t c : by_rank_) {
      const std::vector<KernelInterval>& intervals = channels_[c].Fullest().intervals;
      std::vector<KernelInterval>& block = blocks[BlockOfChannel(layout, c)];
      block = block.empty() ? intervals : Merged(block, intervals);
    }
    return blocks;
  }

  // Mean over the blocks.
  double LengthSpreadOf(const Layout& layout) const {
    const std::vector<std::vector<KernelInterval>> blocks = AsOne(layout);
    double sum = 0;
    for (const std::vector<KernelInterval>& intervals : blocks) sum += LengthSpread(intervals);
    return sum / static_cast<double>(blocks.size());
  }

  // True if the blocks that the larger layout joins wait for each other. They are then one communicator, even
  // if some ranks always leave nearer to each other than to the rest.
  bool WaitForEachOther(const Layout& small, const Layout& large) const {
    const std::vector<std::vector<KernelInterval>> blocks = AsOne(small);
    std::vector<uint32_t> inside(blocks.size(), kNoOffset);  // the enclosing block of the larger layout
    for (uint32_t c : by_rank_) {
      uint32_t& of = inside[BlockOfChannel(small, c)];
      const auto larger = static_cast<uint32_t>(BlockOfChannel(large, c));
      if (of != kNoOffset && of != larger) return false;
      of = larger;
    }
    std::map<uint32_t, uint32_t> first;  // the first small block of each larger one
    for (uint32_t n = 0; n < blocks.size(); ++n) {
      const auto [it, is_first] = first.emplace(inside[n], n);
      if (is_first) continue;
      const WaitCounts found = CountWaiting(blocks[it->second], blocks[n]);
      if (found.decidable < kLeastPairs ||
          static_cast<double>(found.waited) < kNearlyAlways * static_cast<double>(found.decidable))
        return false;
    }
    return first.size() < blocks.size();
  }

  double TypicalSpreadOf(const Blocks& found) const {
    std::vector<uint32_t> of(channels_.size(), kNoOffset);
    for (uint32_t n = 0; n < found.size(); ++n) {
      for (uint32_t c : found[n]) of[c] = n;
    }
    double sum = 0;
    size_t pairs = 0;
    for (const ChannelPair& p : pairs_) {
      if (of[p.a] != of[p.b]) continue;
      sum += p.spread_ns;
      ++pairs;
    }
    return pairs == 0 ? kNoDistance : sum / static_cast<double>(pairs);
  }

  std::span<const Channel> channels_;
  std::span<const ChannelPair> pairs_;
  std::vector<uint32_t> by_rank_;  // channels, ordered by rank
  std::vector<size_t> place_;      // index of each channel in by_rank_
  std::vector<Layout> all_;        // by size, then stride; empty if layouts cannot be distinguished
};

}  // namespace

const KernelSequence& Channel::Fullest() const {
  return *std::max_element(sequences.begin(), sequences.end(),
                           [](const KernelSequence& x, const KernelSequence& y) {
                             return x.intervals.size() < y.intervals.size();
                           });
}

std::optional<Blocks> LayoutThatLeavesTogether(std::span<const Channel> channels,
                                               std::span<const ChannelPair> pairs, const Blocks& found) {
  return Layouts(channels, pairs).LeavingTogether(found);
}

std::optional<Blocks> LayoutThatIsSeparate(std::span<const Channel> channels,
                                           std::span<const ChannelPair> pairs) {
  return Layouts(channels, pairs).Separate();
}

}  // namespace lockstep::capture
