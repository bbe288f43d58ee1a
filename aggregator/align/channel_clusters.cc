#include "aggregator/align/channel_clusters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace lockstep::align {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Members leave together: their ends lie at most this part as far apart as their starts ...
constexpr double kTogether = 0.5;
constexpr double kRatioErrors = 3;
constexpr double kBarely = 0.8;
// ... or closer than clocks and exit skew tell apart.
constexpr double kCoincidentNs = 4e3;
// Starts nearer than this do not show that anybody waited.
constexpr double kApartNs = 8e3;
// The part of a channel's kernels that must have a partner; the rest may be lost.
constexpr double kMostPaired = 0.85;
constexpr double kSomePaired = 0.5;
// Clusters grow as long as the next member's ends lie no further apart than those inside, give or take what so few of them tell: this
// many standard errors of a median, and what a common clock may be off.
constexpr double kErrors = 4;
constexpr double kClockNs = 1e3;
constexpr double kSteadier = 0.5;
// Few ends that lie this near, and starts that lie this many times further apart, leave no doubt.
constexpr double kSharpNs = 8e3;
constexpr double kSharp = 0.02;
constexpr uint32_t kFew = 16;
// Layouts are told apart by what all their blocks say, from this many channels on.
constexpr size_t kLeastForLayout = 4;
// Ranks leave one operation by habits that differ by this.
constexpr double kAsTightNs = 2e3;
constexpr double kAsTightAsChosen = 2;
constexpr double kMostWaited = 0.75;
constexpr double kClearlyFarther = 1.5;
constexpr double kNearlyAlways = 0.95;
// Every pair is looked at up to this many channels, beyond it only those that layouts allow.
constexpr size_t kEveryPair = 64;
// A name with fewer kernels than this says nothing of its own.
constexpr uint32_t kTelling = 3;
// With fewer a pair's ends may vary as much as its starts by chance.
constexpr uint32_t kEnoughPairs = 8;

struct Edge {
  uint32_t a;  // a < b
  uint32_t b;
  double spread_ns;
  bool together;
  uint32_t pairs = 0;  // of the name that has most
  bool sharp = true;   // their ends lie far nearer than their starts
  bool apart = false;  // of waiting they show none: starts coincide too, or ends do not
};

// Channels believed to be one communicator so far.
struct Forming {
  std::vector<uint32_t> channels;
  std::vector<double> joined_at;  // distances at which its parts were joined
  std::vector<Stay> as_one;       // of the most numerous name
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

const Track& Fullest(const Channel& channel) {
  return *std::max_element(channel.tracks.begin(), channel.tracks.end(), [](const Track& x, const Track& y) { return x.stays.size() < y.stays.size(); });
}

class Clustering {
 public:
  Clustering(std::span<const Channel> channels, Evidence evidence) : channels_(channels), evidence_(evidence), cluster_(channels.size(), kNone) {}

  std::vector<ChannelCluster> Run() {
    LookAtPairs();
    std::sort(edges_.begin(), edges_.end(), [](const Edge& x, const Edge& y) { return std::tuple(x.spread_ns, x.a, x.b) < std::tuple(y.spread_ns, y.a, y.b); });
    std::vector<std::vector<uint32_t>> found = Grow();
    if (evidence_ == Evidence::kEnds) PreferLayout(found);
    if (evidence_ == Evidence::kWaiting && !PreferSeparateLayout(found) && !Regular(found)) return {};
    return Measured(found);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Layout {
    size_t size;
    size_t stride;
    size_t BlockOf(size_t place) const { return place / (stride * size) * stride + place % stride; }
  };

  Edge Look(uint32_t a, uint32_t b) const {
    Edge edge{std::min(a, b), std::max(a, b), 0, true};
    double paired = 0, all = 0;
    size_t y = 0;
    bool told = false;
    for (const Track& x : channels_[a].tracks) {
      const auto& others = channels_[b].tracks;
      while (y < others.size() && others[y].token < x.token) ++y;
      if (y == others.size() || others[y].token != x.token) continue;
      const Coincidence c = Compare(x.stays, others[y].stays);
      const auto weight = static_cast<double>(std::min(x.stays.size(), others[y].stays.size()));
      paired += c.share * weight;
      all += weight;
      if (c.pairs == 0 || (c.pairs < kTelling && told)) continue;
      told |= c.pairs >= kTelling;
      edge.pairs = std::max(edge.pairs, c.pairs);
      edge.spread_ns = std::max(edge.spread_ns, c.end_spread_ns);
      // Ends of kernels that do not wait for each other are no nearer than their starts, so many need not be much nearer.
      const double ratio = evidence_ == Evidence::kEnds ? kTogether : std::clamp(1 - kRatioErrors / std::sqrt(std::max<double>(1, c.pairs)), kTogether, kBarely);
      const bool waited = c.end_spread_ns <= ratio * c.start_spread_ns;
      edge.sharp &= c.end_spread_ns <= kSharp * c.start_spread_ns;
      edge.apart |= c.pairs >= kEnoughPairs ? !waited : c.start_spread_ns <= kApartNs;
      edge.together &= waited || (evidence_ == Evidence::kEnds && c.end_spread_ns <= kCoincidentNs);
    }
    if (all == 0 || paired < kSomePaired * all) edge.spread_ns = kInfinity;
    edge.together &= all > 0 && paired >= kMostPaired * all;
    return edge;
  }

  // Large jobs are regular: members of a group lie a fixed number of places apart.
  void LookAtPairs() {
    const auto n = static_cast<uint32_t>(channels_.size());
    for (uint32_t stride = 1; stride < n; ++stride) {
      if (n > kEveryPair && n % stride != 0) continue;
      for (uint32_t i = 0; i + stride < n; ++i) {
        const Channel& a = channels_[i];
        const Channel& b = channels_[i + stride];
        if (a.rank == b.rank || !SimilarChannels(a, b)) continue;
        edges_.push_back(Look(i, i + stride));
        if (edges_.back().apart) apart_.insert({i, i + stride});
      }
    }
  }

  // Nearest ends first. Channels of one rank never join: a rank is in a communicator once.
  std::vector<std::vector<uint32_t>> Grow() const {
    Sets sets(channels_.size());
    std::map<uint32_t, Forming> forming;  // by root
    for (uint32_t c = 0; c < channels_.size(); ++c) forming[c] = {{c}, {}, Fullest(channels_[c]).stays};
    for (const bool first_pass : {true, false}) {
      for (const Edge& e : edges_) {
        const uint32_t a = sets.Of(e.a), b = sets.Of(e.b);
        if (a == b || (first_pass && !e.together)) continue;
        Forming& x = forming[a];
        Forming& y = forming[b];
        if (SharesRank(x.channels, y.channels) || !MayJoin(x, y, e)) continue;
        if (evidence_ == Evidence::kWaiting && AnyApart(x.channels, y.channels)) continue;
        sets.Join(a, b);
        x.as_one = Joined(x.as_one, y.as_one);
        x.joined_at.insert(x.joined_at.end(), y.joined_at.begin(), y.joined_at.end());
        x.joined_at.push_back(e.spread_ns);
        x.channels.insert(x.channels.end(), y.channels.begin(), y.channels.end());
        forming.erase(b);
      }
    }
    std::vector<std::vector<uint32_t>> found;
    for (auto& [root, f] : forming) found.push_back(std::move(f.channels));
    return found;
  }

  // Two channels that leave together are one. More must not lie much further apart than those inside do; or each part alone must
  // seem to wait for somebody who is in the other: then the operation's length is steady only for both together.
  static bool MayJoin(const Forming& x, const Forming& y, const Edge& e) {
    if (x.channels.size() == 1 && y.channels.size() == 1) return e.together;
    const double tolerance = 1 + kErrors / std::sqrt(static_cast<double>(std::max<uint32_t>(1, e.pairs)));
    if (e.spread_ns <= tolerance * std::max(x.inside_ns(), y.inside_ns()) + kClockNs) return true;
    if (!e.together) return false;
    if (e.sharp && e.spread_ns <= kSharpNs && e.pairs < kFew) return true;
    const double together = LengthSpread(Joined(x.as_one, y.as_one));
    return together < kSteadier * std::min(LengthSpread(x.as_one), LengthSpread(y.as_one));
  }

  bool AnyApart(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) const {
    for (uint32_t x : a) {
      for (uint32_t y : b) {
        if (apart_.contains({std::min(x, y), std::max(x, y)})) return true;
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

  // Channels of regular jobs form blocks of equal size, contiguous or strided. Over all blocks chance averages out that joins or parts
  // single channels, so where some layout's members leave together as well as those of `found` do, the layout is right.
  void PreferLayout(std::vector<std::vector<uint32_t>>& found) const {
    const size_t n = channels_.size();
    if (n < kLeastForLayout || !OnePerRank()) return;
    std::vector<uint32_t> by_rank(n);
    std::iota(by_rank.begin(), by_rank.end(), 0u);
    std::sort(by_rank.begin(), by_rank.end(), [&](uint32_t x, uint32_t y) { return channels_[x].rank < channels_[y].rank; });
    std::vector<size_t> place(n);
    for (size_t i = 0; i < n; ++i) place[by_rank[i]] = i;
    struct Candidate {
      Layout layout;
      double spread_ns;
      double length_ns;  // how much the operation's length varies
      double samples;    // pairs of ends that say so
    };
    std::vector<Candidate> candidates;
    for (size_t size = 2; size <= n; ++size) {
      for (size_t stride = 1; n % size == 0 && stride * size <= n; ++stride) {
        if (n % (stride * size) != 0) continue;
        const Layout layout{size, stride};
        double samples = 0;
        const double spread = SpreadInside(layout, place, samples);
        if (std::isfinite(spread)) candidates.push_back({layout, spread, LengthSpreadOf(layout, by_rank), samples});
      }
    }
    // From the tightest outward: a larger layout is right when its ends lie no further apart, or when the smaller one's members wait
    // for somebody outside.
    const Candidate* best = nullptr;
    for (const Candidate& c : candidates) {
      if (best == nullptr || c.spread_ns < best->spread_ns) best = &c;
    }
    // What grew freely took the nearest each time, so it is tighter by choice alone.
    if (best == nullptr || best->spread_ns > kAsTightAsChosen * TypicalOf(found) + kClockNs) return;
    for (const Candidate& c : candidates) {
      if (c.layout.size <= best->layout.size) continue;
      if (WaitForEachOther(best->layout, c.layout, by_rank)) {
        best = &c;
        continue;
      }
      const bool as_tight = c.spread_ns <= (1 + kErrors / std::sqrt(best->samples)) * best->spread_ns + kAsTightNs;
      if (as_tight || c.length_ns < kSteadier * best->length_ns) best = &c;
    }
    std::vector<std::vector<uint32_t>> blocks(n / best->layout.size);
    for (uint32_t c : by_rank) blocks[best->layout.BlockOf(place[c])].push_back(c);
    found = std::move(blocks);
  }

  // The layout whose members nearly all waited for each other and all leave nearer to each other than to anybody else, whatever single
  // pairs say by chance.
  bool PreferSeparateLayout(std::vector<std::vector<uint32_t>>& found) const {
    const size_t n = channels_.size();
    if (n < kLeastForLayout || !OnePerRank()) return false;
    std::vector<uint32_t> by_rank(n);
    std::iota(by_rank.begin(), by_rank.end(), 0u);
    std::sort(by_rank.begin(), by_rank.end(), [&](uint32_t x, uint32_t y) { return channels_[x].rank < channels_[y].rank; });
    std::vector<size_t> place(n);
    for (size_t i = 0; i < n; ++i) place[by_rank[i]] = i;
    for (size_t size = n; size > 2; --size) {
      for (size_t stride = 1; n % size == 0 && stride * size <= n; ++stride) {
        const Layout layout{size, stride};
        if (n % (stride * size) != 0 || !Separate(layout, place)) continue;
        found.assign(n / size, {});
        for (uint32_t c : by_rank) found[layout.BlockOf(place[c])].push_back(c);
        return true;
      }
    }
    return false;
  }

  bool Separate(const Layout& layout, const std::vector<size_t>& place) const {
    double farthest_inside = 0, nearest_outside = kInfinity;
    size_t pairs = 0, together = 0;
    for (const Edge& e : edges_) {
      if (layout.BlockOf(place[e.a]) != layout.BlockOf(place[e.b])) {
        nearest_outside = std::min(nearest_outside, e.spread_ns);
        continue;
      }
      farthest_inside = std::max(farthest_inside, e.spread_ns);
      ++pairs;
      together += e.together ? 1 : 0;
    }
    return pairs > 0 && static_cast<double>(together) >= kMostWaited * static_cast<double>(pairs) && nearest_outside > kClearlyFarther * farthest_inside;
  }

  // Ranks of every group equally many and equally far apart. Of messages between ranks that work in step some always leave together.
  bool Regular(const std::vector<std::vector<uint32_t>>& found) const {
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

  // Mean over the pairs of members; infinite where some pair does not fit at all or hardly any leave together.
  double SpreadInside(const Layout& layout, const std::vector<size_t>& place, double& samples) const {
    double sum = 0;
    size_t pairs = 0, together = 0;
    for (const Edge& e : edges_) {
      if (layout.BlockOf(place[e.a]) != layout.BlockOf(place[e.b])) continue;
      sum += e.spread_ns;
      samples += std::max<uint32_t>(1, e.pairs);
      ++pairs;
      together += e.together ? 1 : 0;
    }
    const size_t all = channels_.size() / layout.size * (layout.size * (layout.size - 1) / 2);
    const bool missing = channels_.size() <= kEveryPair ? pairs < all : pairs < channels_.size() / 2;
    return missing || together * 2 < pairs ? kInfinity : sum / static_cast<double>(pairs);
  }

  // Per block what its members are as one.
  std::vector<std::vector<Stay>> AsOne(const Layout& layout, const std::vector<uint32_t>& by_rank) const {
    std::vector<std::vector<Stay>> blocks(by_rank.size() / layout.size);
    for (size_t i = 0; i < by_rank.size(); ++i) {
      const std::vector<Stay>& stays = Fullest(channels_[by_rank[i]]).stays;
      std::vector<Stay>& block = blocks[layout.BlockOf(i)];
      block = block.empty() ? stays : Joined(block, stays);
    }
    return blocks;
  }

  // How much the length of the operation varies, mean over the blocks.
  double LengthSpreadOf(const Layout& layout, const std::vector<uint32_t>& by_rank) const {
    const std::vector<std::vector<Stay>> blocks = AsOne(layout, by_rank);
    double sum = 0;
    for (const std::vector<Stay>& stays : blocks) sum += LengthSpread(stays);
    return sum / static_cast<double>(blocks.size());
  }

  // Do the blocks that the larger layout joins hold each other up? Then they are one, even if some leave nearer to each other than to
  // the rest by habit.
  bool WaitForEachOther(const Layout& small, const Layout& large, const std::vector<uint32_t>& by_rank) const {
    const std::vector<std::vector<Stay>> blocks = AsOne(small, by_rank);
    std::vector<uint32_t> inside(blocks.size(), kNone);  // the larger layout's block
    for (size_t i = 0; i < by_rank.size(); ++i) {
      uint32_t& of = inside[small.BlockOf(i)];
      const auto larger = static_cast<uint32_t>(large.BlockOf(i));
      if (of != kNone && of != larger) return false;
      of = larger;
    }
    Lateness sum;
    std::map<uint32_t, uint32_t> first;
    for (uint32_t n = 0; n < blocks.size(); ++n) {
      const auto [it, is_first] = first.emplace(inside[n], n);
      if (is_first) continue;
      const Lateness found = WhoWaited(blocks[it->second], blocks[n]);
      if (found.telling < kTelling || static_cast<double>(found.waited) < kNearlyAlways * static_cast<double>(found.telling)) return false;
      sum.telling += found.telling;
    }
    return sum.telling > 0;
  }

  double TypicalOf(const std::vector<std::vector<uint32_t>>& found) const {
    std::vector<uint32_t> of(channels_.size(), kNone);
    for (uint32_t n = 0; n < found.size(); ++n) {
      for (uint32_t c : found[n]) of[c] = n;
    }
    double sum = 0;
    size_t pairs = 0;
    for (const Edge& e : edges_) {
      if (of[e.a] != of[e.b]) continue;
      sum += e.spread_ns;
      ++pairs;
    }
    return pairs == 0 ? kInfinity : sum / static_cast<double>(pairs);
  }

  bool OnePerRank() const {
    std::vector<uint32_t> ranks;
    for (const Channel& c : channels_) ranks.push_back(c.rank);
    std::sort(ranks.begin(), ranks.end());
    return std::adjacent_find(ranks.begin(), ranks.end()) == ranks.end();
  }

  std::vector<ChannelCluster> Measured(std::vector<std::vector<uint32_t>>& found) {
    std::vector<ChannelCluster> out;
    for (auto& list : found) {
      if (list.size() < 2) continue;
      std::sort(list.begin(), list.end(), [&](uint32_t x, uint32_t y) { return channels_[x].rank < channels_[y].rank; });
      for (uint32_t c : list) cluster_[c] = static_cast<uint32_t>(out.size());
      out.push_back({std::move(list), 0, kInfinity});
    }
    std::vector<double> nearest(channels_.size(), kInfinity);
    for (const Edge& e : edges_) {
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
  std::vector<Edge> edges_;
  std::set<std::pair<uint32_t, uint32_t>> apart_;
  std::vector<uint32_t> cluster_;  // by channel
};

}  // namespace

size_t Channel::kernels() const {
  size_t n = 0;
  for (const Track& t : tracks) n += t.stays.size();
  return n;
}

bool SimilarChannels(const Channel& a, const Channel& b) {
  size_t common = 0, apart = 0, y = 0;
  for (const Track& x : a.tracks) {
    while (y < b.tracks.size() && b.tracks[y].token < x.token) apart += b.tracks[y++].stays.size();
    if (y == b.tracks.size() || b.tracks[y].token != x.token) {
      apart += x.stays.size();
      continue;
    }
    const size_t fewer = std::min(x.stays.size(), b.tracks[y].stays.size()), more = std::max(x.stays.size(), b.tracks[y].stays.size());
    common += fewer;
    apart += more - fewer;
    ++y;
  }
  while (y < b.tracks.size()) apart += b.tracks[y++].stays.size();
  return common > 0 && apart <= std::max<size_t>(2, (common + apart) / 8);
}

std::vector<ChannelCluster> ClusterChannels(std::span<const Channel> channels, Evidence evidence) { return Clustering(channels, evidence).Run(); }

}  // namespace lockstep::align
