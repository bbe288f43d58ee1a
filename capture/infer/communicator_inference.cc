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
#include "capture/infer/joint_kernels.h"
#include "capture/infer/kernel_pieces.h"
#include "capture/infer/message_inference.h"

namespace lockstep::capture {
namespace {

constexpr uint32_t kNoCluster = UINT32_MAX;
constexpr uint32_t kInMessages = UINT32_MAX - 1;  // its kernels are messages, outside all clusters
constexpr size_t kLeastSyncPoints = 2;
// Members leave an operation within this of each other, on the common clock.
constexpr double kMeetNs = 300e3;

// The pieces of one communicator.
struct Cluster {
  std::vector<uint32_t> pieces;
  double inside_ns = 0;
  double outside_ns = std::numeric_limits<double>::infinity();
};

using Place = std::pair<uint32_t, uint32_t>;  // rank, stream

class Inference {
 public:
  explicit Inference(std::span<const NamelessRank> ranks)
      : ranks_(ranks), cut_(CutPieces(ranks)), cluster_of_(pieces_.size(), kNoCluster) {}

  InferredCommunicators Run() {
    for (uint32_t p : AlignHosts(ranks_, cut_)) unaligned_.insert(p);
    ClusterFamilies();
    for (const auto& [signature, pieces] : cut_.by_signature) {
      if (!pieces_[pieces[0]].message) ClusterPieces(Alone(pieces), Evidence::kEnds);
    }
    SeparateJointKernels();
    for (const auto& [signature, pieces] : cut_.by_signature) {
      if (pieces_[pieces[0]].message) InferMessages(pieces);
    }
    AdoptByStream();
    Collect();
    return std::move(out_);
  }

 private:
  bool Open(uint32_t p) const { return cluster_of_[p] == kNoCluster && !unaligned_.contains(p); }

  // ---- collectives

  using Bundle = std::vector<uint32_t>;  // pieces of one rank that are judged together

  // Names that share all their streams most likely belong to one communicator, and give more evidence
  // together. If they do not, their ends disagree, nothing joins, and each name is judged alone.
  void ClusterFamilies() {
    std::map<std::vector<Place>, std::vector<uint64_t>> families;  // signatures
    for (const auto& [signature, pieces] : cut_.by_signature) {
      if (pieces_[pieces[0]].message) continue;
      std::vector<Place> places;
      for (uint32_t p : pieces) places.emplace_back(pieces_[p].rank, pieces_[p].stream);
      std::sort(places.begin(), places.end());
      families[places].push_back(signature);
    }
    for (const auto& [places, signatures] : families) {
      if (signatures.size() < 2) continue;
      std::map<Place, Bundle> bundles;
      for (uint64_t signature : signatures) {
        for (uint32_t p : cut_.by_signature[signature])
          bundles[{pieces_[p].rank, pieces_[p].stream}].push_back(p);
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

  // Ranks that run one program number their streams alike. So pieces join within a stream first, then across
  // streams.
  void ClusterPieces(const std::vector<Bundle>& all, Evidence evidence) {
    std::map<uint32_t, std::vector<Bundle>> by_stream;
    for (const Bundle& bundle : all) by_stream[pieces_[bundle[0]].stream].push_back(bundle);
    // kWaiting concerns messages, which go from one stream to another.
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
      Channel channel{.rank = pieces_[bundle[0]].rank, .sequences = {}};
      for (uint32_t p : bundle) channel.sequences.push_back({pieces_[p].signature, pieces_[p].intervals});
      std::sort(channel.sequences.begin(), channel.sequences.end(),
                [](const KernelSequence& x, const KernelSequence& y) { return x.signature < y.signature; });
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

  // Operations of all ranks may run under the name and on the stream of smaller communicators. They become a
  // communicator of their own.
  void SeparateJointKernels() {
    std::map<std::pair<uint64_t, uint32_t>, std::vector<uint32_t>> alike;  // signature and stream -> pieces
    for (uint32_t p = 0; p < pieces_.size(); ++p) {
      if (!pieces_[p].message && cluster_of_[p] < clusters_.size())
        alike[{pieces_[p].signature, pieces_[p].stream}].push_back(p);
    }
    for (const auto& [what, members] : alike) {
      std::map<uint32_t, uint32_t> first_of;  // cluster -> its first piece
      std::set<uint32_t> ranks;
      for (uint32_t p : members) {
        first_of.try_emplace(cluster_of_[p], p);
        ranks.insert(pieces_[p].rank);
      }
      if (first_of.size() < 2 || ranks.size() != members.size()) continue;
      std::vector<std::span<const KernelInterval>> sequences;
      for (const auto& [cluster, p] : first_of) sequences.emplace_back(pieces_[p].intervals);
      std::vector<double> ends;
      for (uint32_t i : FindJointKernels(sequences)) ends.push_back(sequences[0][i].end_ns);
      if (!ends.empty()) MoveToOwnCluster(members, ends);
    }
  }

  // Moves the kernels of these pieces that end at these moments into new pieces, which form a cluster.
  void MoveToOwnCluster(const std::vector<uint32_t>& members, const std::vector<double>& ends) {
    Cluster cluster;
    for (uint32_t p : members) {
      KernelPiece joint = cut_.list[p];
      joint.kernels.clear();
      joint.intervals.clear();
      KernelPiece& rest = cut_.list[p];
      for (double end : ends) {
        const uint32_t at = EndsAt(rest.intervals, end);
        if (at == UINT32_MAX) continue;
        joint.kernels.push_back(rest.kernels[at]);
        joint.intervals.push_back(rest.intervals[at]);
        rest.kernels.erase(rest.kernels.begin() + at);
        rest.intervals.erase(rest.intervals.begin() + at);
      }
      if (joint.kernels.empty()) continue;
      cluster.pieces.push_back(static_cast<uint32_t>(cut_.list.size()));
      cut_.list.push_back(std::move(joint));
      cluster_of_.push_back(kNoCluster);
    }
    Keep(std::move(cluster));
  }

  void Keep(Cluster cluster) {
    for (uint32_t p : cluster.pieces) cluster_of_[p] = static_cast<uint32_t>(clusters_.size());
    clusters_.push_back(std::move(cluster));
  }

  // ---- messages

  // SendRecv kernels are messages between two ranks or an exchange among all ranks of a group. Their ends
  // decide.
  void InferMessages(const std::vector<uint32_t>& pieces) {
    const auto ranks = static_cast<uint32_t>(ranks_.size());
    WholeChannelPairings whole = PairWholeChannels(
        OpenChannels(pieces), ranks, [&](uint32_t a, uint32_t b) { return SyncPointsOfRanks(a, b); });
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
      for (uint32_t p : clusters_[n].pieces) cluster_of_[p] = kNoCluster;
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
      channels.push_back({pieces_[p].rank, pieces_[p].stream, pieces_[p].intervals, pieces_[p].kernels});
    return channels;
  }

  // `pairings` index the open channels among `pieces`.
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

  // Ends of the operation that both ranks share least often, but at least kLeastSyncPoints times.
  std::vector<SyncPoint> SyncPointsOfRanks(uint32_t a, uint32_t b) {
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
        if (n != m || pieces_[p].signature != pieces_[q].signature ||
            std::min(pieces_[p].intervals.size(), pieces_[q].intervals.size()) < kLeastSyncPoints)
          continue;
        if (of_a != nullptr && pieces_[p].intervals.size() >= of_a->intervals.size()) continue;
        of_a = &pieces_[p];
        of_b = &pieces_[q];
      }
    }
    std::vector<SyncPoint> sync_points;
    if (of_a == nullptr) return sync_points;
    size_t j = 0;
    for (const KernelInterval& s : of_a->intervals) {
      while (j < of_b->intervals.size() && of_b->intervals[j].end_ns < s.end_ns - kMeetNs) ++j;
      if (j < of_b->intervals.size() && of_b->intervals[j].end_ns <= s.end_ns + kMeetNs)
        sync_points.push_back({s.end_ns, of_b->intervals[j].end_ns});
    }
    return sync_points;
  }

  // ---- the remaining kernels

  // A stream belongs to one communicator. The ends of some operations say nothing; for example, a broadcast's
  // root leaves early. They go with the other operations of their stream, if that holds on every member.
  void AdoptByStream() {
    std::map<Place, std::vector<uint32_t>> of_stream;
    for (uint32_t p = 0; p < pieces_.size(); ++p)
      of_stream[{pieces_[p].rank, pieces_[p].stream}].push_back(p);
    std::map<std::pair<uint64_t, std::vector<uint32_t>>, std::vector<uint32_t>>
        wanted;  // signature and members -> pieces
    for (const auto& [stream, pieces] : of_stream) {
      std::vector<uint32_t> members;
      bool one = true;
      for (uint32_t p : pieces) {
        if (cluster_of_[p] == kNoCluster || cluster_of_[p] == kInMessages) continue;
        std::vector<uint32_t> ranks = RanksOf(cluster_of_[p]);
        one &= members.empty() || members == ranks;
        members = std::move(ranks);
      }
      if (!one || members.empty()) continue;
      for (uint32_t p : pieces) {
        if (cluster_of_[p] == kNoCluster && !pieces_[p].message)
          wanted[{pieces_[p].signature, members}].push_back(p);
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
      clusters_of_;  // by rank: cluster and piece of its collectives
  InferredCommunicators out_;
};

}  // namespace

InferredCommunicators InferCommunicators(std::span<const NamelessRank> ranks) {
  return Inference(ranks).Run();
}

}  // namespace lockstep::capture
