#include "aggregator/align/message_inference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep::align {
namespace {

// Ends of one message lie within this of each other, once their usual distance is taken out ...
constexpr double kSharpNs = 10e3;
// ... and chance is judged by how many lie within this.
constexpr double kNearNs = 200e3;
constexpr size_t kLeastAnchors = 3;
// Of the smaller channel, so many must be such pairs, and so many times more than chance puts there.
constexpr double kLeastShare = 0.15;
constexpr double kOverChance = 4;
constexpr double kAboutAsOften = 0.6;
// Every pair is looked at up to this many channels, beyond it only those at distances that divide the job.
constexpr size_t kEveryPair = 256;
// Ends that coincide because both sides started together and stay equally long say nothing.
constexpr double kWaitedNs = 15e3;
// A sender does not wait: it stays no longer than the receiver in nearly all messages.
constexpr double kNearlyAll = 0.9;
constexpr double kSameLengthNs = 3e3;
constexpr double kSteadyRatio = 1.25;
constexpr double kSteadyNs = 5e3;

struct Anchor {
  uint32_t a;
  uint32_t b;
};

struct Pairing {
  uint32_t a, b;  // channels
  std::vector<Anchor> anchors;
  double spread_ns = 0;  // how well their ends keep one distance
};

class Pairer {
 public:
  explicit Pairer(std::span<const MessageChannel> channels) : channels_(channels), taken_(channels.size()), partners_(channels.size(), 0) {
    for (size_t c = 0; c < channels.size(); ++c) {
      taken_[c].assign(channels[c].stays.size(), 0);
      steady_.push_back(Steady(channels[c].stays) ? 1 : 0);
    }
    has_partner_.assign(channels.size(), 0);
  }

  std::vector<MessagePairing> Run() {
    // A channel to several ranks gives up one partner a round.
    for (const bool exchanges : {false, true}) {
      const std::vector<uint8_t> before = has_partner_;
      while (Round(exchanges)) {
        if (exchanges) has_partner_ = before;
      }
    }
    std::vector<MessagePairing> out;
    for (const Pairing& p : found_) out.push_back(Finished(p));
    return out;
  }

 private:
  // A sender waits for nobody: its kernels are all about as long. A receiver that tells anything waited a few times.
  static bool Steady(const std::vector<Stay>& stays) {
    std::vector<double> lengths;
    for (const Stay& s : stays) lengths.push_back(s.end_ns - s.start_ns);
    if (lengths.size() < kLeastAnchors) return true;
    std::sort(lengths.begin(), lengths.end());
    return lengths[lengths.size() - kLeastAnchors] <= kSteadyRatio * lengths[lengths.size() / 10] + kSteadyNs;
  }

  bool Round(bool exchanges) {
    std::vector<Pairing> candidates;
    std::vector<size_t> most(channels_.size(), 0);
    const auto look = [&](uint32_t a, uint32_t b) {
      // A sender and a receiver first; two that both wait are an exchange, unless somebody sends to one of them.
      if (channels_[a].rank == channels_[b].rank || (steady_[a] == steady_[b]) != exchanges) return;
      if (exchanges && (steady_[a] || has_partner_[a] || has_partner_[b])) return;
      Pairing p = Look(a, b);
      if (p.anchors.empty()) return;
      most[a] = std::max(most[a], p.anchors.size());
      most[b] = std::max(most[b], p.anchors.size());
      has_partner_[a] = has_partner_[b] = 1;
      candidates.push_back(std::move(p));
    };
    const auto n = static_cast<uint32_t>(channels_.size());
    uint32_t ranks = 0;
    for (const MessageChannel& c : channels_) ranks = std::max(ranks, c.rank + 1);
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t j = i + 1; j < n; ++j) {
        const uint32_t distance = std::max(channels_[i].rank, channels_[j].rank) - std::min(channels_[i].rank, channels_[j].rank);
        if (n <= kEveryPair || (distance > 0 && ranks % distance == 0)) look(i, j);
      }
    }
    std::erase_if(candidates, [&](const Pairing& p) {
      return static_cast<double>(p.anchors.size()) < kAboutAsOften * static_cast<double>(std::min(most[p.a], most[p.b]));
    });
    // Ranks that work in step (tensor peers) leave almost together: of those that fit about as often, the closest is the one. In a
    // pipeline all partners lie the same number of ranks apart, which all of them together tell better than each.
    const uint32_t usual = UsualDistance(candidates);
    std::sort(candidates.begin(), candidates.end(), [&](const Pairing& x, const Pairing& y) {
      return std::tuple(Distance(x) != usual, x.spread_ns, x.a, x.b) < std::tuple(Distance(y) != usual, y.spread_ns, y.a, y.b);
    });
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

  uint32_t Distance(const Pairing& p) const {
    const uint32_t a = channels_[p.a].rank, b = channels_[p.b].rank;
    return a < b ? b - a : a - b;
  }

  // Between ranks of most pairings; of about as many, that whose ends keep their distance best.
  uint32_t UsualDistance(const std::vector<Pairing>& candidates) const {
    struct Sum {
      size_t pairings = 0;
      double spread_ns = 0;
    };
    std::map<uint32_t, Sum> by_distance;
    size_t most = 0;
    for (const Pairing& p : candidates) {
      Sum& sum = by_distance[Distance(p)];
      sum.spread_ns += p.spread_ns;
      most = std::max(most, ++sum.pairings);
    }
    uint32_t usual = 0;
    double least = INFINITY;
    for (const auto& [distance, sum] : by_distance) {
      const double mean = sum.spread_ns / static_cast<double>(sum.pairings);
      if (static_cast<double>(sum.pairings) < kAboutAsOften * static_cast<double>(most) || mean >= least) continue;
      least = mean;
      usual = distance;
    }
    return usual;
  }

  // Pairs of ends that keep one distance although one side stayed clearly longer; none when chance would do.
  Pairing Look(uint32_t a, uint32_t b) const {
    const auto& left = channels_[a].stays;
    const auto& right = channels_[b].stays;
    Pairing out{a, b, {}, 0};
    std::vector<std::pair<double, Anchor>> near;
    size_t low = 0, free_left = 0, free_right = 0;
    for (uint32_t i = 0; i < left.size(); ++i) {
      if (taken_[a][i]) continue;
      ++free_left;
      while (low < right.size() && right[low].end_ns < left[i].end_ns - kNearNs) ++low;
      for (size_t j = low; j < right.size() && right[j].end_ns <= left[i].end_ns + kNearNs; ++j) {
        if (taken_[b][j] || std::fabs(Length(a, i) - Length(b, static_cast<uint32_t>(j))) < kWaitedNs) continue;
        near.emplace_back(right[j].end_ns - left[i].end_ns, Anchor{i, static_cast<uint32_t>(j)});
      }
    }
    for (const uint8_t t : taken_[b]) free_right += t == 0 ? 1 : 0;
    std::sort(near.begin(), near.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    size_t best_count = 0, best_first = 0, first = 0;
    for (size_t last = 0; last < near.size(); ++last) {
      while (near[last].first - near[first].first > kSharpNs) ++first;
      if (last - first + 1 > best_count) {
        best_count = last - first + 1;
        best_first = first;
      }
    }
    const double chance = static_cast<double>(near.size() - best_count) * kSharpNs / (2 * kNearNs - kSharpNs);
    const double least = std::max(kLeastShare * static_cast<double>(std::min(free_left, free_right)), kOverChance * chance);
    if (best_count < kLeastAnchors || static_cast<double>(best_count) < least) return out;
    const double middle = near[best_first + best_count / 2].first;
    for (size_t i = best_first; i < best_first + best_count; ++i) out.spread_ns += std::fabs(near[i].first - middle) / static_cast<double>(best_count);
    out.anchors = InOrder(near, best_first, best_count);
    return out;
  }

  // Each kernel once, in order on both sides.
  static std::vector<Anchor> InOrder(const std::vector<std::pair<double, Anchor>>& near, size_t first, size_t count) {
    std::vector<Anchor> all;
    for (size_t i = first; i < first + count; ++i) all.push_back(near[i].second);
    std::sort(all.begin(), all.end(), [](const Anchor& x, const Anchor& y) { return std::tuple(x.a, x.b) < std::tuple(y.a, y.b); });
    std::vector<Anchor> kept;
    for (const Anchor& x : all) {
      if (kept.empty() || (x.a > kept.back().a && x.b > kept.back().b)) kept.push_back(x);
    }
    return kept;
  }

  double Length(uint32_t channel, uint32_t i) const { return channels_[channel].stays[i].end_ns - channels_[channel].stays[i].start_ns; }

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
    // With nobody else to talk to, all of both channels is theirs; else only what is sure.
    const bool alone = partners_[p.a] == 1 && partners_[p.b] == 1 && !out.exchange;
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
  std::vector<std::vector<uint8_t>> taken_;
  std::vector<uint32_t> partners_;
  std::vector<uint8_t> steady_;
  std::vector<uint8_t> has_partner_;  // somebody was near at all
  std::vector<Pairing> found_;
};

}  // namespace

std::vector<MessagePairing> PairMessageChannels(std::span<const MessageChannel> channels) { return Pairer(channels).Run(); }

}  // namespace lockstep::align
