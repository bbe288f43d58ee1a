#include "capture/infer/communicator_inference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "capture/infer/channel_clusters.h"
#include "capture/infer/common_clock.h"
#include "capture/infer/host_alignment.h"
#include "capture/infer/kernel_pieces.h"
#include "capture/infer/message_inference.h"

namespace lockstep::align {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr uint32_t kInMessages = UINT32_MAX - 1;  // no cluster's
constexpr size_t kLeastMeetings = 2;
// Members leave an operation within this of each other, on the common clock.
constexpr double kMeetNs = 300e3;

// Pieces that are one communicator.
struct Cluster {
  std::vector<uint32_t> pieces;
  double inside_ns = 0;
  double outside_ns = std::numeric_limits<double>::infinity();
};

using Place = std::pair<uint32_t, uint32_t>;  // rank, stream

class Inference {
 public:
  explicit Inference(std::span<const NamelessRank> ranks)
      : ranks_(ranks), cut_(CutPieces(ranks)), cluster_of_(pieces_.size(), kNobody) {}

  InferredCommunicators Run() {
    for (uint32_t p : AlignHosts(ranks_, cut_)) unaligned_.insert(p);
    ClusterFamilies();
    for (const auto& [token, pieces] : cut_.by_token) {
      if (!pieces_[pieces[0]].message) ClusterPieces(Alone(pieces), Evidence::kEnds);
    }
    for (const auto& [token, pieces] : cut_.by_token) {
      if (pieces_[pieces[0]].message) InferMessages(pieces);
    }
    AdoptByStream();
    Collect();
    return std::move(out_);
  }

 private:
  bool Open(uint32_t p) const { return cluster_of_[p] == kNobody && !unaligned_.contains(p); }

  // ---- collectives

  using Bundle = std::vector<uint32_t>;  // pieces of one rank that are judged together

  // Names that share every stream they are on are one communicator's, most likely: together they say more.
  // Where they are not, their ends disagree, nothing joins, and each name is looked at alone.
  void ClusterFamilies() {
    std::map<std::vector<Place>, std::vector<uint64_t>> families;  // tokens
    for (const auto& [token, pieces] : cut_.by_token) {
      if (pieces_[pieces[0]].message) continue;
      std::vector<Place> places;
      for (uint32_t p : pieces) places.emplace_back(pieces_[p].rank, pieces_[p].stream);
      std::sort(places.begin(), places.end());
      families[places].push_back(token);
    }
    for (const auto& [places, tokens] : families) {
      if (tokens.size() < 2) continue;
      std::map<Place, Bundle> bundles;
      for (uint64_t token : tokens) {
        for (uint32_t p : cut_.by_token[token]) bundles[{pieces_[p].rank, pieces_[p].stream}].push_back(p);
      }
      std::vector<Bundle> list;
      for (auto& [place, bundle] : bundles) list.push_back(std::move(bundle));
      ClusterPieces(list, Evidence::kEnds);
    }
  }

  static std::vector<Bundle> Alone(const std::vector<uint32_t>& pieces) {
    std::vector<Bundle> bundles;
    for (uint32_t p : pieces) bundles.push_back({p});
    return bundles;
  }

  // Ranks that run one program number their streams alike: first within a stream, then what that left.
  void ClusterPieces(const std::vector<Bundle>& all, Evidence evidence) {
    std::map<uint32_t, std::vector<Bundle>> by_stream;
    for (const Bundle& bundle : all) by_stream[pieces_[bundle[0]].stream].push_back(bundle);
    // Messages go from one stream to another.
    if (by_stream.size() > 1 && evidence == Evidence::kEnds) {
      for (const auto& [stream, bundles] : by_stream) ClusterSimilar(bundles, evidence);
    }
    ClusterSimilar(all, evidence);
  }

  void ClusterSimilar(const std::vector<Bundle>& all, Evidence evidence) {
    std::vector<Channel> channels;
    std::vector<const Bundle*> of_channel;
    for (const Bundle& bundle : all) {
      if (!std::all_of(bundle.begin(), bundle.end(), [&](uint32_t p) { return Open(p); })) continue;
      Channel channel{.rank = pieces_[bundle[0]].rank, .tracks = {}};
      for (uint32_t p : bundle) channel.tracks.push_back({pieces_[p].token, pieces_[p].stays});
      std::sort(channel.tracks.begin(), channel.tracks.end(),
                [](const Track& x, const Track& y) { return x.token < y.token; });
      channels.push_back(std::move(channel));
      of_channel.push_back(&bundle);
    }
    for (const ChannelCluster& found : ClusterChannels(channels, evidence)) {
      Cluster cluster{.pieces = {}, .inside_ns = found.inside_ns, .outside_ns = found.outside_ns};
      for (uint32_t c : found.channels)
        cluster.pieces.insert(cluster.pieces.end(), of_channel[c]->begin(), of_channel[c]->end());
      Keep(std::move(cluster));
    }
  }

  void Keep(Cluster cluster) {
    for (uint32_t p : cluster.pieces) cluster_of_[p] = static_cast<uint32_t>(clusters_.size());
    clusters_.push_back(std::move(cluster));
  }

  // ---- messages

  // Kernels that say SendRecv are messages between two, or an exchange among all of a group, told by their
  // ends.
  void InferMessages(const std::vector<uint32_t>& pieces) {
    const auto ranks = static_cast<uint32_t>(ranks_.size());
    WholeChannelPairings whole = PairWholeChannels(
        OpenChannels(pieces), ranks, [&](uint32_t a, uint32_t b) { return MeetingsOfRanks(a, b); });
    Take(std::move(whole.pairings), pieces);
    const size_t first = clusters_.size();
    std::map<uint32_t, std::vector<uint32_t>> by_stream;
    for (uint32_t p : OpenOf(pieces)) by_stream[pieces_[p].stream].push_back(p);
    for (const auto& [stream, of_stream] : by_stream) {
      const bool messages = std::any_of(whole.relations.begin(), whole.relations.end(),
                                        [stream = stream](const MessageRelation& r) {
                                          return r.send_stream == stream || r.receive_stream == stream;
                                        });
      if (!messages) ClusterSimilar(Alone(of_stream), Evidence::kWaiting);
    }
    for (size_t n = first; n < clusters_.size(); ++n) {
      if (clusters_[n].pieces.size() != 2) continue;
      for (uint32_t p : clusters_[n].pieces) cluster_of_[p] = kNobody;
      clusters_[n].pieces.clear();
    }
    Take(PairMessageChannels(OpenChannels(pieces), ranks, whole.relations), pieces);
  }

  std::vector<uint32_t> OpenOf(const std::vector<uint32_t>& pieces) const {
    std::vector<uint32_t> open;
    for (uint32_t p : pieces) {
      if (Open(p)) open.push_back(p);
    }
    return open;
  }

  std::vector<MessageChannel> OpenChannels(const std::vector<uint32_t>& pieces) const {
    std::vector<MessageChannel> channels;
    for (uint32_t p : OpenOf(pieces))
      channels.push_back({pieces_[p].rank, pieces_[p].stream, pieces_[p].stays, pieces_[p].kernels});
    return channels;
  }

  // `pairings` are of the channels that are open among `pieces`.
  void Take(std::vector<MessagePairing> pairings, const std::vector<uint32_t>& pieces) {
    const std::vector<uint32_t> open = OpenOf(pieces);
    for (MessagePairing& pairing : pairings) {
      cluster_of_[open[pairing.a]] = cluster_of_[open[pairing.b]] = kInMessages;
      const uint32_t a = pieces_[open[pairing.a]].rank, b = pieces_[open[pairing.b]].rank;
      if (!pairing.exchange) {
        out_.messages.push_back({a, b, std::move(pairing.from_a), std::move(pairing.from_b)});
      } else if (a < b) {
        out_.communicators.push_back({.ranks = {a, b},
                                      .kernels = {std::move(pairing.from_a), std::move(pairing.from_b)},
                                      .spread = Nanos(),
                                      .margin = 0});
      } else {
        out_.communicators.push_back({.ranks = {b, a},
                                      .kernels = {std::move(pairing.from_b), std::move(pairing.from_a)},
                                      .spread = Nanos(),
                                      .margin = 0});
      }
    }
  }

  // The operation that both ranks have a part in most seldom, as long as it comes several times.
  std::vector<Meeting> MeetingsOfRanks(uint32_t a, uint32_t b) {
    if (clusters_of_.empty()) {
      clusters_of_.resize(ranks_.size());
      for (uint32_t n = 0; n < clusters_.size(); ++n) {
        for (uint32_t p : clusters_[n].pieces) clusters_of_[pieces_[p].rank].emplace_back(n, p);
      }
    }
    const KernelPiece* of_a = nullptr;
    const KernelPiece* of_b = nullptr;
    for (const auto& [n, p] : clusters_of_[a]) {
      for (const auto& [m, q] : clusters_of_[b]) {
        if (n != m || pieces_[p].token != pieces_[q].token ||
            std::min(pieces_[p].stays.size(), pieces_[q].stays.size()) < kLeastMeetings)
          continue;
        if (of_a != nullptr && pieces_[p].stays.size() >= of_a->stays.size()) continue;
        of_a = &pieces_[p];
        of_b = &pieces_[q];
      }
    }
    std::vector<Meeting> meetings;
    if (of_a == nullptr) return meetings;
    size_t j = 0;
    for (const Stay& s : of_a->stays) {
      while (j < of_b->stays.size() && of_b->stays[j].end_ns < s.end_ns - kMeetNs) ++j;
      if (j < of_b->stays.size() && of_b->stays[j].end_ns <= s.end_ns + kMeetNs)
        meetings.push_back({s.end_ns, of_b->stays[j].end_ns});
    }
    return meetings;
  }

  // ---- what is left

  // A stream belongs to one communicator: operations that say nothing by their ends (a broadcast's root
  // leaves early) go with the others of their stream, where that holds on every member.
  void AdoptByStream() {
    std::map<Place, std::vector<uint32_t>> of_stream;
    for (uint32_t p = 0; p < pieces_.size(); ++p)
      of_stream[{pieces_[p].rank, pieces_[p].stream}].push_back(p);
    std::map<std::pair<uint64_t, std::vector<uint32_t>>, std::vector<uint32_t>>
        wanted;  // token and members -> pieces
    for (const auto& [stream, pieces] : of_stream) {
      std::vector<uint32_t> members;
      bool one = true;
      for (uint32_t p : pieces) {
        if (cluster_of_[p] == kNobody || cluster_of_[p] == kInMessages) continue;
        std::vector<uint32_t> ranks = RanksOf(cluster_of_[p]);
        one &= members.empty() || members == ranks;
        members = std::move(ranks);
      }
      if (!one || members.empty()) continue;
      for (uint32_t p : pieces) {
        if (cluster_of_[p] == kNobody && !pieces_[p].message)
          wanted[{pieces_[p].token, members}].push_back(p);
      }
    }
    for (const auto& [key, pieces] : wanted) {
      std::vector<uint32_t> ranks;
      for (uint32_t p : pieces) ranks.push_back(pieces_[p].rank);
      std::sort(ranks.begin(), ranks.end());
      if (ranks == key.second) Keep({.pieces = pieces});
    }
  }

  std::vector<uint32_t> RanksOf(uint32_t cluster) const {
    std::set<uint32_t> ranks;
    for (uint32_t p : clusters_[cluster].pieces) ranks.insert(pieces_[p].rank);
    return {ranks.begin(), ranks.end()};
  }

  // Clusters of one set of (rank, stream) are one communicator.
  void Collect() {
    std::map<std::set<Place>, std::vector<uint32_t>> same;
    for (uint32_t n = 0; n < clusters_.size(); ++n) {
      std::set<Place> key;
      for (uint32_t p : clusters_[n].pieces) key.emplace(pieces_[p].rank, pieces_[p].stream);
      if (!key.empty()) same[key].push_back(n);
    }
    for (const auto& [key, clusters] : same) {
      InferredCommunicator communicator;
      double inside = 0;
      std::map<uint32_t, std::vector<uint32_t>> kernels;  // by rank
      for (uint32_t n : clusters) {
        const Cluster& cluster = clusters_[n];
        inside = std::max(inside, cluster.inside_ns);
        if (std::isfinite(cluster.outside_ns))
          communicator.margin =
              std::max(communicator.margin, (cluster.outside_ns + 1e3) / (cluster.inside_ns + 1e3));
        for (uint32_t p : cluster.pieces) {
          auto& of_rank = kernels[pieces_[p].rank];
          of_rank.insert(of_rank.end(), pieces_[p].kernels.begin(), pieces_[p].kernels.end());
        }
      }
      for (auto& [rank, list] : kernels) {
        std::sort(list.begin(), list.end());
        communicator.ranks.push_back(rank);
        communicator.kernels.push_back(std::move(list));
      }
      communicator.spread = Nanos(static_cast<int64_t>(inside));
      out_.communicators.push_back(std::move(communicator));
    }
    std::sort(out_.communicators.begin(), out_.communicators.end(),
              [](const InferredCommunicator& a, const InferredCommunicator& b) {
                return std::pair(a.ranks[0], a.kernels[0][0]) < std::pair(b.ranks[0], b.kernels[0][0]);
              });
  }

  std::span<const NamelessRank> ranks_;
  KernelPieces cut_;
  const std::vector<KernelPiece>& pieces_ = cut_.list;
  std::vector<uint32_t> cluster_of_;  // by piece
  std::set<uint32_t> unaligned_;      // pieces of hosts on no common clock
  std::vector<Cluster> clusters_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>>
      clusters_of_;  // by rank: cluster and piece, of collectives
  InferredCommunicators out_;
};

}  // namespace

InferredCommunicators InferCommunicators(std::span<const NamelessRank> ranks) {
  return Inference(ranks).Run();
}

}  // namespace lockstep::align
