#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "capture/infer/message_inference.h"

namespace lockstep::capture {
namespace {

// Approximate error of the hosts' common clock.
constexpr double kCommonClockNs = 30e3;
// Windows cut this many messages at their edges, or one in kCutOneIn if that is more.
constexpr size_t kCutAtMost = 4;
constexpr size_t kCutOneIn = 8;
// Up to this many channels, every pair is compared. Beyond it, only pairs whose distance divides the job are.
constexpr size_t kEveryPairOfWhole = 256;
// A relation needs this log likelihood, which corresponds to a few messages that end together.
constexpr double kLeastEvidence = 8;
constexpr double kLeastTogether = 0.03;
constexpr double kLeastOnOneStream = 0.2;
// A pair is doubtful if another partner has this many times its evidence.
constexpr double kClearlyBetter = 1.3;
// A third channel on the same stream makes a group if its evidence with both channels reaches this share.
constexpr double kNearlyAsWell = 0.3;
// A third channel fits as well, apart from chance, if its evidence reaches this share. Among ranks that work
// in step, the ends of the wrong one scatter more.
constexpr double kAsWell = 0.8;

// Channel a sends to b, unless both wait.
struct Candidate {
  uint32_t a, b;  // channels
  MessageFit fit;
};

using Relation = MessageRelation;

class WholeChannels {
 public:
  WholeChannels(std::span<const MessageChannel> channels, uint32_t ranks, const SyncPointsOf& sync_points)
      : channels_(channels), sync_points_(sync_points), ranks_(ranks) {
    for (const MessageChannel& c : channels) {
      std::vector<MessageSide> sides;
      for (const KernelInterval& s : c.intervals)
        sides.push_back({s.start_ns, s.end_ns, static_cast<int64_t>(sides.size())});
      sides_.push_back(std::move(sides));
    }
    best_.assign(channels.size(), 0);
    settled_.assign(channels.size(), 0);
  }

  WholeChannelPairings Run() {
    FindCandidates();
    DropGroups();
    while (const std::optional<Relation> relation = Strongest()) Settle(*relation);
    return std::move(out_);
  }

 private:
  void FindCandidates() {
    const auto n = static_cast<uint32_t>(channels_.size());
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t j = i + 1; j < n; ++j) {
        if (channels_[i].rank == channels_[j].rank || !Comparable(i, j)) continue;
        const std::vector<SyncPoint> sync_points = sync_points_(channels_[i].rank, channels_[j].rank);
        std::vector<SyncPoint> mirrored = sync_points;
        for (SyncPoint& m : mirrored) std::swap(m.sender_ns, m.receiver_ns);
        if (const auto fit = FitMessages(sides_[i], sides_[j], kCommonClockNs, sync_points, Places::kSeen))
          candidates_.push_back({i, j, *fit});
        if (const auto fit = FitMessages(sides_[j], sides_[i], kCommonClockNs, mirrored, Places::kSeen))
          candidates_.push_back({j, i, *fit});
      }
    }
  }

  bool Comparable(uint32_t i, uint32_t j) const {
    const uint32_t a = channels_[i].rank, b = channels_[j].rank;
    const uint32_t distance = a < b ? b - a : a - b;
    if (channels_.size() > kEveryPairOfWhole && ranks_ % distance != 0 && ranks_ % (ranks_ - distance) != 0)
      return false;
    const size_t fewer = std::min(sides_[i].size(), sides_[j].size()),
                 more = std::max(sides_[i].size(), sides_[j].size());
    return more - fewer <= std::max(kCutAtMost, more / kCutOneIn);
  }

  // Evidence of a pair; 0 if too few messages show waiting. Usually some message waits in every step. The
  // limit is higher on one common stream, because ranks that work in step look like partners there.
  double EvidenceOf(const Candidate& c) const {
    const double least = channels_[c.a].stream == channels_[c.b].stream ? kLeastOnOneStream : kLeastTogether;
    return c.fit.together < least * c.fit.messages ? 0 : c.fit.Evidence();
  }

  Relation RelationOf(const Candidate& c) const {
    const uint32_t from = channels_[c.a].rank, to = channels_[c.b].rank;
    return {(to + ranks_ - from) % ranks_, channels_[c.a].stream, channels_[c.b].stream};
  }

  // Drops pairs that belong to a group that exchanges data. Either both channels leave together with a third
  // one on the same stream, or one of them fits a third channel as well as its partner.
  void DropGroups() {
    std::map<uint32_t, std::map<uint32_t, double>> partners;  // on the same stream: evidence
    for (const Candidate& c : candidates_) {
      if (channels_[c.a].stream != channels_[c.b].stream) continue;
      for (const auto& [self, other] : {std::pair(c.a, c.b), std::pair(c.b, c.a)}) {
        double& evidence = partners[self][other];
        evidence = std::max(evidence, c.fit.Evidence());
      }
    }
    std::erase_if(candidates_, [&](const Candidate& c) {
      if (channels_[c.a].stream != channels_[c.b].stream) return false;
      return MeetsAThird(c.a, c.b, partners, EvidenceOf(c)) || MeetsAThird(c.b, c.a, partners, EvidenceOf(c));
    });
  }

  static bool MeetsAThird(uint32_t self, uint32_t other,
                          const std::map<uint32_t, std::map<uint32_t, double>>& partners, double evidence) {
    const auto& of_other = partners.at(other);
    return std::any_of(partners.at(self).begin(), partners.at(self).end(), [&](const auto& third) {
      if (third.first == other) return false;
      const auto back = of_other.find(third.first);
      return third.second >= kAsWell * evidence ||
             (third.second >= kNearlyAsWell * evidence && back != of_other.end() &&
              back->second >= kNearlyAsWell * evidence);
    });
  }

  bool Open(const Candidate& c) const { return !settled_[c.a] && !settled_[c.b]; }

  std::optional<Relation> Strongest() {
    std::map<Relation, double> evidence;
    std::fill(best_.begin(), best_.end(), 0);
    for (const Candidate& c : candidates_) {
      if (!Open(c)) continue;
      const double of_pair = EvidenceOf(c);
      evidence[RelationOf(c)] += of_pair;
      for (uint32_t channel : {c.a, c.b}) best_[channel] = std::max(best_[channel], of_pair);
    }
    std::erase_if(evidence, [&](const auto& e) { return Contradicted(e.first); });
    const auto best = std::max_element(evidence.begin(), evidence.end(),
                                       [](const auto& x, const auto& y) { return x.second < y.second; });
    if (best == evidence.end() || best->second < kLeastEvidence) return std::nullopt;
    return best->first;
  }

  // A program sends from one stream to ranks at one distance. Channels that suggest another distance have
  // lost their partners.
  bool Contradicted(const Relation& relation) const {
    return std::any_of(out_.relations.begin(), out_.relations.end(), [&](const Relation& known) {
      const bool shares =
          known.send_stream == relation.send_stream || known.receive_stream == relation.receive_stream;
      return shares && known.distance != relation.distance;
    });
  }

  // Accepts the pairs of the relation. If no message of a pair waited, the other pairs support it.
  void Settle(const Relation& relation) {
    std::vector<const Candidate*> chosen;
    for (const Candidate& c : candidates_) {
      if (Open(c) && RelationOf(c) == relation) chosen.push_back(&c);
    }
    out_.relations.push_back(relation);
    for (const Candidate* c : chosen) {
      if (!Open(*c)) continue;
      settled_[c->a] = settled_[c->b] = 1;
      if (std::max(best_[c->a], best_[c->b]) > kClearlyBetter * std::max(EvidenceOf(*c), kLeastEvidence))
        continue;
      out_.pairings.push_back({.a = c->a,
                               .b = c->b,
                               .exchange = c->fit.rendezvous,
                               .from_a = Sorted(c->a),
                               .from_b = Sorted(c->b)});
    }
  }

  std::vector<uint32_t> Sorted(uint32_t channel) const {
    std::vector<uint32_t> places = channels_[channel].places;
    std::sort(places.begin(), places.end());
    return places;
  }

  std::span<const MessageChannel> channels_;
  const SyncPointsOf& sync_points_;
  uint32_t ranks_;
  std::vector<std::vector<MessageSide>> sides_;  // by channel
  std::vector<Candidate> candidates_;
  std::vector<double> best_;      // by channel: evidence for its likeliest partner
  std::vector<uint8_t> settled_;  // by channel
  WholeChannelPairings out_;
};

}  // namespace

WholeChannelPairings PairWholeChannels(std::span<const MessageChannel> channels, uint32_t ranks,
                                       const SyncPointsOf& sync_points) {
  return WholeChannels(channels, ranks, sync_points).Run();
}

}  // namespace lockstep::capture
