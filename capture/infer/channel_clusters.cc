#include "capture/infer/channel_clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep::capture {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Members leave together if their ends lie at most this share as far apart as their starts ...
constexpr double kTogether = 0.5;
constexpr double kRatioErrors = 3;
constexpr double kBarely = 0.8;
// ... or nearer than clock errors and exit skew can separate.
constexpr double kCoincidentNs = 4e3;
// If starts lie nearer than this, they do not show whether a rank waited.
constexpr double kApartNs = 8e3;
// Share of a channel's kernels that must have a partner; the records of the others may be lost.
constexpr double kMostPaired = 0.85;
constexpr double kSomePaired = 0.5;
// Even a few ends suffice if they lie within kSharpNs, and within the share kSharp of the starts' distance.
constexpr double kSharpNs = 8e3;
constexpr double kSharp = 0.02;
constexpr uint32_t kFew = 16;
// With fewer pairs, ends may vary as much as starts by chance.
constexpr uint32_t kEnoughPairs = 8;

// Channels that have been joined into one communicator so far.
struct Forming {
  std::vector<uint32_t> channels;
  std::vector<double> joined_at;       // distances at which its parts were joined
  std::vector<KernelInterval> as_one;  // merged intervals of the name with the most kernels
  double inside_ns() const {
    std::vector<double> sorted = joined_at;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }
};

class Sets {
 public:
  explicit Sets(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0u); }
  uint32_t Of(uint32_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(uint32_t root, uint32_t other) { parent_[other] = root; }

 private:
  std::vector<uint32_t> parent_;
};

class Clustering {
 public:
  Clustering(std::span<const Channel> channels, Evidence evidence)
      : channels_(channels), evidence_(evidence), cluster_(channels.size(), kNone) {}

  std::vector<ChannelCluster> Run() {
    ComparePairs();
    std::sort(edges_.begin(), edges_.end(), [](const ChannelPair& x, const ChannelPair& y) {
      return std::tuple(x.spread_ns, x.a, x.b) < std::tuple(y.spread_ns, y.a, y.b);
    });
    Blocks found = Grow();
    std::optional<Blocks> layout = evidence_ == Evidence::kEnds
                                       ? LayoutThatLeavesTogether(channels_, edges_, found)
                                       : LayoutThatIsSeparate(channels_, edges_);
    if (layout) {
      found = *std::move(layout);
    } else if (evidence_ == Evidence::kWaiting && !Regular(found)) {
      return {};
    }
    return Measured(found);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  ChannelPair ComparePair(uint32_t a, uint32_t b) const {
    ChannelPair edge{std::min(a, b), std::max(a, b), 0, 0, true};
    double paired = 0, all = 0;
    size_t y = 0;
    bool has_enough_pairs = false;
    for (const KernelSequence& x : channels_[a].sequences) {
      const auto& others = channels_[b].sequences;
      while (y < others.size() && others[y].signature < x.signature) ++y;
      if (y == others.size() || others[y].signature != x.signature) continue;
      const Coincidence c = Compare(x.intervals, others[y].intervals);
      const auto weight = static_cast<double>(std::min(x.intervals.size(), others[y].intervals.size()));
      paired += c.share * weight;
      all += weight;
      if (c.pairs == 0 || (c.pairs < kLeastPairs && has_enough_pairs)) continue;
      has_enough_pairs |= c.pairs >= kLeastPairs;
      edge.pairs = std::max(edge.pairs, c.pairs);
      edge.spread_ns = std::max(edge.spread_ns, c.end_spread_ns);
      edge.scatter_ns = std::max(edge.scatter_ns, c.end_scatter_ns);
      // If kernels do not wait for each other, their ends are no nearer than their starts. So with many
      // pairs, ends need not be much nearer to show waiting.
      const double ratio =
          evidence_ == Evidence::kEnds
              ? kTogether
              : std::clamp(1 - kRatioErrors / std::sqrt(std::max<double>(1, c.pairs)), kTogether, kBarely);
      const bool waited = c.end_spread_ns <= ratio * c.start_spread_ns;
      edge.ends_far_nearer &= c.end_spread_ns <= kSharp * c.start_spread_ns;
      edge.shows_no_waiting |= c.pairs >= kEnoughPairs ? !waited : c.start_spread_ns <= kApartNs;
      edge.leaves_together &= waited || (evidence_ == Evidence::kEnds && c.end_spread_ns <= kCoincidentNs);
    }
    if (all == 0 || paired < kSomePaired * all) edge.spread_ns = kInfinity;
    edge.leaves_together &= all > 0 && paired >= kMostPaired * all;
    return edge;
  }

  // Large jobs are regular: members of a group lie a fixed number of places apart. So only some strides are
  // tried.
  void ComparePairs() {
    const auto n = static_cast<uint32_t>(channels_.size());
    for (uint32_t stride = 1; stride < n; ++stride) {
      if (n > kEveryPair && n % stride != 0) continue;
      for (uint32_t i = 0; i + stride < n; ++i) {
        const Channel& a = channels_[i];
        const Channel& b = channels_[i + stride];
        if (a.rank == b.rank || !SimilarChannels(a, b)) continue;
        edges_.push_back(ComparePair(i, i + stride));
        if (edges_.back().shows_no_waiting) not_waiting_.insert({i, i + stride});
      }
    }
  }

  // Joins the nearest ends first. Channels of one rank never join, because a rank is in a communicator only
  // once.
  Blocks Grow() const {
    Sets sets(channels_.size());
    std::map<uint32_t, Forming> forming;  // by root
    for (uint32_t c = 0; c < channels_.size(); ++c) forming[c] = {{c}, {}, channels_[c].Fullest().intervals};
    for (const bool first_pass : {true, false}) {
      for (const ChannelPair& e : edges_) {
        const uint32_t a = sets.Of(e.a), b = sets.Of(e.b);
        if (a == b || (first_pass && !e.leaves_together)) continue;
        Forming& x = forming[a];
        Forming& y = forming[b];
        if (SharesRank(x.channels, y.channels) || !MayJoin(x, y, e)) continue;
        if (evidence_ == Evidence::kWaiting && AnyApart(x.channels, y.channels)) continue;
        sets.Join(a, b);
        x.as_one = Merged(x.as_one, y.as_one);
        x.joined_at.insert(x.joined_at.end(), y.joined_at.begin(), y.joined_at.end());
        x.joined_at.push_back(e.spread_ns);
        x.channels.insert(x.channels.end(), y.channels.begin(), y.channels.end());
        forming.erase(b);
      }
    }
    Blocks found;
    for (auto& [root, f] : forming) found.push_back(std::move(f.channels));
    return found;
  }

  // Two single channels join if they leave together. Larger parts join if their distance is about that inside
  // the parts. They also join if each part alone seems to wait for a rank of the other. The operation's
  // length is then steady only for both together.
  static bool MayJoin(const Forming& x, const Forming& y, const ChannelPair& e) {
    if (x.channels.size() == 1 && y.channels.size() == 1) return e.leaves_together;
    const double tolerance = 1 + kErrors / std::sqrt(static_cast<double>(std::max<uint32_t>(1, e.pairs)));
    if (e.spread_ns <= tolerance * std::max(x.inside_ns(), y.inside_ns()) + kClockNs) return true;
    if (!e.leaves_together) return false;
    if (e.ends_far_nearer && e.spread_ns <= kSharpNs && e.pairs < kFew) return true;
    const double together = LengthSpread(Merged(x.as_one, y.as_one));
    return together < kSteadier * std::min(LengthSpread(x.as_one), LengthSpread(y.as_one));
  }

  bool AnyApart(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) const {
    for (uint32_t x : a) {
      for (uint32_t y : b) {
        if (not_waiting_.contains({std::min(x, y), std::max(x, y)})) return true;
      }
    }
    return false;
  }

  bool SharesRank(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) const {
    for (uint32_t x : a) {
      for (uint32_t y : b) {
        if (channels_[x].rank == channels_[y].rank) return true;
      }
    }
    return false;
  }

  // True if all groups have equally many ranks, equally far apart. Among messages between ranks that work in
  // step, some always leave together by chance, but not regularly.
  bool Regular(const Blocks& found) const {
    std::set<std::pair<size_t, uint32_t>> shapes;  // size and distance
    for (const std::vector<uint32_t>& list : found) {
      if (list.size() < 2) continue;
      std::vector<uint32_t> ranks;
      for (uint32_t c : list) ranks.push_back(channels_[c].rank);
      std::sort(ranks.begin(), ranks.end());
      for (size_t i = 1; i < ranks.size(); ++i) shapes.emplace(ranks.size(), ranks[i] - ranks[i - 1]);
    }
    return shapes.size() <= 1;
  }

  std::vector<ChannelCluster> Measured(Blocks& found) {
    std::vector<ChannelCluster> out;
    for (auto& list : found) {
      if (list.size() < 2) continue;
      std::sort(list.begin(), list.end(),
                [&](uint32_t x, uint32_t y) { return channels_[x].rank < channels_[y].rank; });
      for (uint32_t c : list) cluster_[c] = static_cast<uint32_t>(out.size());
      out.push_back({std::move(list), 0, kInfinity});
    }
    std::vector<double> nearest(channels_.size(), kInfinity);
    for (const ChannelPair& e : edges_) {
      const uint32_t a = cluster_[e.a], b = cluster_[e.b];
      if (a == b) {
        for (uint32_t c : {e.a, e.b}) nearest[c] = std::min(nearest[c], e.spread_ns);
        continue;
      }
      for (uint32_t n : {a, b}) {
        if (n != kNone) out[n].outside_ns = std::min(out[n].outside_ns, e.spread_ns);
      }
    }
    for (ChannelCluster& cluster : out) {
      for (uint32_t c : cluster.channels) {
        if (std::isfinite(nearest[c])) cluster.inside_ns = std::max(cluster.inside_ns, nearest[c]);
      }
    }
    return out;
  }

  std::span<const Channel> channels_;
  Evidence evidence_;
  std::vector<ChannelPair> edges_;
  std::set<std::pair<uint32_t, uint32_t>> not_waiting_;
  std::vector<uint32_t> cluster_;  // by channel
};

}  // namespace

bool SimilarChannels(const Channel& a, const Channel& b) {
  size_t common = 0, apart = 0, y = 0;
  for (const KernelSequence& x : a.sequences) {
    while (y < b.sequences.size() && b.sequences[y].signature < x.signature)
      apart += b.sequences[y++].intervals.size();
    if (y == b.sequences.size() || b.sequences[y].signature != x.signature) {
      apart += x.intervals.size();
      continue;
    }
    const size_t fewer = std::min(x.intervals.size(), b.sequences[y].intervals.size()),
                 more = std::max(x.intervals.size(), b.sequences[y].intervals.size());
    common += fewer;
    apart += more - fewer;
    ++y;
  }
  while (y < b.sequences.size()) apart += b.sequences[y++].intervals.size();
  return common > 0 && apart <= std::max<size_t>(2, (common + apart) / 8);
}

std::vector<ChannelCluster> ClusterChannels(std::span<const Channel> channels, Evidence evidence) {
  return Clustering(channels, evidence).Run();
}

}  // namespace lockstep::capture
