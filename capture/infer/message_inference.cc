#include "capture/infer/message_inference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep::capture {
namespace {

// After their usual distance is subtracted, ends of one message lie within this of each other ...
constexpr double kMessageSharpNs = 10e3;
// ... and the ends within this show how many would coincide by chance.
constexpr double kNearNs = 200e3;
constexpr size_t kLeastAnchors = 3;
// At least this share of the smaller channel's kernels must be such pairs. They must also be kOverChance
// times as many as chance explains.
constexpr double kLeastShare = 0.15;
constexpr double kOverChance = 4;
constexpr double kAboutAsOften = 0.6;
constexpr double kAlways = 0.7;
constexpr double kMessageStampNs = 300;
// Up to this many channels, every pair is compared. Beyond it, only pairs whose distance divides the job are.
constexpr size_t kEveryPairOfMessages = 256;
// If the durations of both sides differ by less than this, their ends may coincide only because they started
// together.
constexpr double kWaitedNs = 8e3;
// A sender does not wait. In nearly all messages it stays no longer than the receiver.
constexpr double kNearlyAll = 0.9;
constexpr double kSameLengthNs = 3e3;
constexpr double kSteadyRatio = 1.25;
constexpr double kSteadyNs = 5e3;

struct Anchor {
  uint32_t a;
  uint32_t b;
};

// Two kernels that end near each other.
struct Near {
  double apart_ns;
  Anchor anchor;
  bool waited;  // one stayed clearly longer than the other
};

struct Pairing {
  uint32_t a, b;  // channels
  std::vector<Anchor> anchors;
  double spread_ns = 0;  // mean deviation of their ends from one distance
  double share = 0;      // anchors over the smaller channel's kernels
  double score() const { return (spread_ns + kMessageStampNs) / (share * share); }  // smaller is better
};

class Pairer {
 public:
  Pairer(std::span<const MessageChannel> channels, uint32_t ranks, std::span<const MessageRelation> relations)
      : channels_(channels),
        ranks_(ranks),
        relations_(relations),
        taken_(channels.size()),
        partners_(channels.size(), 0) {
    for (size_t c = 0; c < channels.size(); ++c) {
      taken_[c].assign(channels[c].intervals.size(), 0);
      steady_.push_back(Steady(channels[c].intervals) ? 1 : 0);
    }
  }

  std::vector<MessagePairing> Run() {
    // A channel to several ranks gets one partner in each round.
    while (Round()) {
    }
    std::vector<MessagePairing> out;
    for (const Pairing& p : found_) out.push_back(Finished(p));
    return out;
  }

 private:
  // True if nearly all kernels are about equally long. This holds for a sender, because it does not wait. A
  // receiver shows its sender only if it waited a few times.
  static bool Steady(const std::vector<KernelInterval>& intervals) {
    std::vector<double> lengths;
    for (const KernelInterval& s : intervals) lengths.push_back(s.end_ns - s.start_ns);
    if (lengths.size() < kLeastAnchors) return true;
    std::sort(lengths.begin(), lengths.end());
    return lengths[lengths.size() - kLeastAnchors] <= kSteadyRatio * lengths[lengths.size() / 10] + kSteadyNs;
  }

  bool Round() {
    std::vector<Pairing> candidates;
    std::vector<size_t> most(channels_.size(), 0);
    const auto look = [&](uint32_t a, uint32_t b) {
      if (channels_[a].rank == channels_[b].rank || !Allowed(a, b)) return;
      Pairing p = Look(a, b);
      if (p.anchors.empty()) return;
      most[a] = std::max(most[a], p.anchors.size());
      most[b] = std::max(most[b], p.anchors.size());
      candidates.push_back(std::move(p));
    };
    const auto n = static_cast<uint32_t>(channels_.size());
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t j = i + 1; j < n; ++j) {
        const uint32_t distance =
            std::max(channels_[i].rank, channels_[j].rank) - std::min(channels_[i].rank, channels_[j].rank);
        if (n <= kEveryPairOfMessages || (distance > 0 && ranks_ % distance == 0)) look(i, j);
      }
    }
    std::erase_if(candidates, [&](const Pairing& p) {
      return static_cast<double>(p.anchors.size()) <
             kAboutAsOften * static_cast<double>(std::min(most[p.a], most[p.b]));
    });
    // Ranks that work in step, such as tensor peers, leave almost together. Among candidates with about
    // equally many anchors, the closest one is right. In a pipeline, all partners lie the same number of
    // ranks apart and use the same streams. The sum over all of them is therefore better evidence than each
    // pair.
    const std::map<Relation, size_t> order = OrderOfRelations(candidates);
    const auto place = [&](const Pairing& p) {
      return std::tuple(order.at(RelationOf(p)), p.score(), p.a, p.b);
    };
    std::sort(candidates.begin(), candidates.end(),
              [&](const Pairing& x, const Pairing& y) { return place(x) < place(y); });
    std::vector<uint8_t> settled(channels_.size(), 0);
    bool any = false;
    for (Pairing& p : candidates) {
      if (settled[p.a] || settled[p.b]) continue;
      settled[p.a] = settled[p.b] = 1;
      for (const Anchor& anchor : p.anchors) taken_[p.a][anchor.a] = taken_[p.b][anchor.b] = 1;
      ++partners_[p.a];
      ++partners_[p.b];
      found_.push_back(std::move(p));
      any = true;
    }
    return any;
  }

  // True if the pair has a known relation, or if no relation is known on its streams.
  bool Allowed(uint32_t a, uint32_t b) const {
    bool known = false;
    for (const MessageRelation& r : relations_) {
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        const MessageChannel& x = channels_[from];
        const MessageChannel& y = channels_[to];
        if (x.stream == r.send_stream && y.stream == r.receive_stream &&
            (y.rank + ranks_ - x.rank) % ranks_ == r.distance)
          return true;
        known |= x.stream == r.send_stream || x.stream == r.receive_stream;
      }
    }
    return !known;
  }

  // The distance in ranks, and the streams of the lower and the higher rank.
  using Relation = std::tuple<uint32_t, uint32_t, uint32_t>;

  Relation RelationOf(const Pairing& p) const {
    const MessageChannel& a = channels_[p.a];
    const MessageChannel& b = channels_[p.b];
    return a.rank < b.rank ? Relation(b.rank - a.rank, a.stream, b.stream)
                           : Relation(a.rank - b.rank, b.stream, a.stream);
  }

  // Orders relations, best first. Relations with about as many pairings as any other come first, by mean
  // score.
  std::map<Relation, size_t> OrderOfRelations(const std::vector<Pairing>& candidates) const {
    struct Sum {
      size_t pairings = 0;
      double score = 0;
    };
    std::map<Relation, Sum> sums;
    size_t most = 0;
    for (const Pairing& p : candidates) {
      Sum& sum = sums[RelationOf(p)];
      sum.score += p.score();
      most = std::max(most, ++sum.pairings);
    }
    std::vector<std::tuple<bool, double, Relation>> sorted;
    for (const auto& [relation, sum] : sums) {
      const bool rare = static_cast<double>(sum.pairings) < kAboutAsOften * static_cast<double>(most);
      sorted.emplace_back(rare, sum.score / static_cast<double>(sum.pairings), relation);
    }
    std::sort(sorted.begin(), sorted.end());
    std::map<Relation, size_t> order;
    for (const auto& [rare, score, relation] : sorted) order.emplace(relation, order.size());
    return order;
  }

  // Finds pairs of ends that keep one distance although one side stayed clearly longer. There are no anchors
  // if chance explains these pairs.
  Pairing Look(uint32_t a, uint32_t b) const {
    const auto& left = channels_[a].intervals;
    const auto& right = channels_[b].intervals;
    Pairing out{a, b, {}, 0, 0};
    std::vector<Near> near;
    size_t low = 0, free_left = 0, free_right = 0;
    for (uint32_t i = 0; i < left.size(); ++i) {
      if (taken_[a][i]) continue;
      ++free_left;
      while (low < right.size() && right[low].end_ns < left[i].end_ns - kNearNs) ++low;
      for (size_t j = low; j < right.size() && right[j].end_ns <= left[i].end_ns + kNearNs; ++j) {
        if (taken_[b][j]) continue;
        const bool waited = std::fabs(Length(a, i) - Length(b, static_cast<uint32_t>(j))) >= kWaitedNs;
        near.push_back({right[j].end_ns - left[i].end_ns, {i, static_cast<uint32_t>(j)}, waited});
      }
    }
    for (const uint8_t t : taken_[b]) free_right += t == 0 ? 1 : 0;
    std::sort(near.begin(), near.end(), [](const Near& x, const Near& y) { return x.apart_ns < y.apart_ns; });
    // Finds the distance that most pairs with waiting keep.
    size_t best_waited = 0, best_first = 0, best_last = 0, first = 0, waited = 0, all_waited = 0;
    for (size_t last = 0; last < near.size(); ++last) {
      waited += near[last].waited ? 1 : 0;
      all_waited += near[last].waited ? 1 : 0;
      while (near[last].apart_ns - near[first].apart_ns > kMessageSharpNs)
        waited -= near[first++].waited ? 1 : 0;
      if (waited > best_waited) {
        best_waited = waited;
        best_first = first;
        best_last = last;
      }
    }
    const auto fewer = static_cast<double>(std::min(free_left, free_right));
    const double chance =
        static_cast<double>(all_waited - best_waited) * kMessageSharpNs / (2 * kNearNs - kMessageSharpNs);
    if (best_waited < kLeastAnchors || static_cast<double>(best_waited) < kOverChance * chance) return out;
    const auto count = static_cast<double>(best_last - best_first + 1);
    if (count < kLeastShare * fewer) return out;
    out.share = count / fewer;
    // If both sides wait, they exchange data, or their messages are too large for a buffer. Then they always
    // leave together. Two receivers of senders that work in step do so only now and then.
    if (!steady_[a] && !steady_[b] && out.share < kAlways) return out;
    const double middle = near[(best_first + best_last) / 2].apart_ns;
    for (size_t i = best_first; i <= best_last; ++i)
      out.spread_ns += std::fabs(near[i].apart_ns - middle) / count;
    out.anchors = InOrder(std::span(near).subspan(best_first, best_last - best_first + 1));
    return out;
  }

  // Keeps each kernel once, in order on both sides.
  static std::vector<Anchor> InOrder(std::span<const Near> near) {
    std::vector<Anchor> all;
    for (const Near& n : near) all.push_back(n.anchor);
    std::sort(all.begin(), all.end(),
              [](const Anchor& x, const Anchor& y) { return std::tuple(x.a, x.b) < std::tuple(y.a, y.b); });
    std::vector<Anchor> kept;
    for (const Anchor& x : all) {
      if (kept.empty() || (x.a > kept.back().a && x.b > kept.back().b)) kept.push_back(x);
    }
    return kept;
  }

  double Length(uint32_t channel, uint32_t i) const {
    return channels_[channel].intervals[i].end_ns - channels_[channel].intervals[i].start_ns;
  }

  MessagePairing Finished(const Pairing& p) const {
    size_t a_shorter = 0, b_shorter = 0;
    for (const Anchor& x : p.anchors) {
      const double a = Length(p.a, x.a), b = Length(p.b, x.b);
      a_shorter += a <= b + kSameLengthNs ? 1 : 0;
      b_shorter += b <= a + kSameLengthNs ? 1 : 0;
    }
    const auto all = static_cast<double>(p.anchors.size());
    MessagePairing out;
    const bool a_sends = static_cast<double>(a_shorter) >= kNearlyAll * all && a_shorter >= b_shorter;
    const bool b_sends = !a_sends && static_cast<double>(b_shorter) >= kNearlyAll * all;
    out.exchange = !a_sends && !b_sends;
    out.a = b_sends ? p.b : p.a;
    out.b = b_sends ? p.a : p.b;
    // If neither channel has another partner, all their kernels are in the pairing. Otherwise only the
    // anchors are.
    const bool alone = partners_[p.a] == 1 && partners_[p.b] == 1;
    if (alone) {
      out.from_a = channels_[out.a].places;
      out.from_b = channels_[out.b].places;
    } else {
      for (const Anchor& x : p.anchors) {
        out.from_a.push_back(channels_[out.a].places[b_sends ? x.b : x.a]);
        out.from_b.push_back(channels_[out.b].places[b_sends ? x.a : x.b]);
      }
    }
    std::sort(out.from_a.begin(), out.from_a.end());
    std::sort(out.from_b.begin(), out.from_b.end());
    return out;
  }

  std::span<const MessageChannel> channels_;
  uint32_t ranks_;
  std::span<const MessageRelation> relations_;
  std::vector<std::vector<uint8_t>> taken_;
  std::vector<uint32_t> partners_;
  std::vector<uint8_t> steady_;
  std::vector<Pairing> found_;
};

}  // namespace

std::vector<MessagePairing> PairMessageChannels(std::span<const MessageChannel> channels, uint32_t ranks,
                                                std::span<const MessageRelation> relations) {
  return Pairer(channels, ranks, relations).Run();
}

}  // namespace lockstep::capture
