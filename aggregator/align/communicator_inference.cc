#include "aggregator/align/communicator_inference.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "aggregator/align/channel_clusters.h"
#include "aggregator/align/common_clock.h"
#include "aggregator/align/message_inference.h"

namespace lockstep::align {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;
constexpr uint32_t kInMessages = UINT32_MAX - 1;  // no cluster's
// A clock guess needs this many shared kernels and this part of them. Guesses this close to each other agree.
constexpr uint32_t kLeastForClock = 3;
constexpr double kLeastShareForClock = 0.5;
constexpr double kAgreeNs = 5e3;
constexpr size_t kGuessesPerName = 16;  // and stream
constexpr double kLeastWaited = 0.05;
// Few pairs keep a distance by chance.
constexpr double kFewPairs = 4;
constexpr double kStampNs = 500;
constexpr size_t kLeastMeetings = 2;
// Members leave an operation within this of each other, on the common clock.
constexpr double kMeetNs = 300e3;

// A rank's kernels of one name on one stream.
struct Piece {
  uint32_t rank;
  uint32_t stream;
  uint64_t token;
  bool message;
  std::vector<uint32_t> kernels;  // in order of end
  std::vector<Stay> stays;        // of `kernels`; on the common clock once that is known
  uint32_t cluster = kNobody;
};

// Pieces that are one communicator.
struct Cluster {
  std::vector<uint32_t> pieces;
  double inside_ns = 0;
  double outside_ns = std::numeric_limits<double>::infinity();
};

using Place = std::pair<uint32_t, uint32_t>;  // rank, stream

class Inference {
 public:
  explicit Inference(std::span<const NamelessRank> ranks) : ranks_(ranks) { CutPieces(); }

  InferredCommunicators Run() {
    AlignHosts();
    ClusterFamilies();
    for (const auto& [token, pieces] : by_token_) {
      if (!pieces_[pieces[0]].message) ClusterPieces(Alone(pieces), Evidence::kEnds);
    }
    for (const auto& [token, pieces] : by_token_) {
      if (pieces_[pieces[0]].message) InferMessages(pieces);
    }
    AdoptByStream();
    Collect();
    return std::move(out_);
  }

 private:
  void CutPieces() {
    HostTime base = HostTime::Max();
    for (const NamelessRank& r : ranks_) {
      if (!r.kernels.empty()) base = std::min(base, r.kernels.front().start);
    }
    const auto since = [&](HostTime t) { return static_cast<double>((t - base).ns()); };
    std::map<std::tuple<uint32_t, uint64_t, uint32_t>, uint32_t> index;  // rank, token, stream
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      for (uint32_t k = 0; k < ranks_[r].kernels.size(); ++k) {
        const NamelessKernel& kernel = ranks_[r].kernels[k];
        const auto [it, fresh] = index.try_emplace({r, kernel.token, kernel.stream}, static_cast<uint32_t>(pieces_.size()));
        if (fresh) pieces_.push_back({.rank = r, .stream = kernel.stream, .token = kernel.token, .message = kernel.message, .kernels = {}, .stays = {}});
        pieces_[it->second].kernels.push_back(k);
      }
    }
    // Names in the order of how many ranks run them, then of how seldom.
    std::map<uint64_t, std::pair<size_t, size_t>> use;  // ranks, kernels
    for (const auto& [key, p] : index) {
      Piece& piece = pieces_[p];
      const auto& kernels = ranks_[piece.rank].kernels;
      const auto end = [&](uint32_t k) { return std::max(kernels[k].start, kernels[k].end); };  // a reversed record takes no time
      std::stable_sort(piece.kernels.begin(), piece.kernels.end(), [&](uint32_t x, uint32_t y) { return end(x) < end(y); });
      for (uint32_t k : piece.kernels) piece.stays.push_back({since(kernels[k].start), since(end(k))});
      by_token_[std::get<1>(key)].push_back(p);
      ++use[piece.token].first;
      use[piece.token].second += piece.kernels.size();
    }
    for (const auto& [token, unused] : use) spread_out_.push_back(token);
    std::stable_sort(spread_out_.begin(), spread_out_.end(), [&](uint64_t x, uint64_t y) {
      return std::pair(use[y].first, use[x].second) < std::pair(use[x].first, use[y].second);
    });
  }

  // ---- one clock

  // Breadth first from the first host: whoever shares a name with a host that is already on the common clock.
  void AlignHosts() {
    std::map<uint32_t, std::vector<uint32_t>> of_host;  // pieces
    for (uint32_t p = 0; p < pieces_.size(); ++p) of_host[ranks_[pieces_[p].rank].host].push_back(p);
    if (of_host.empty()) return;
    std::deque<uint32_t> queue = {of_host.begin()->first};
    std::set<uint32_t> known = {of_host.begin()->first};
    while (!queue.empty()) {
      const std::vector<uint32_t>& reference = of_host[queue.front()];
      queue.pop_front();
      for (const auto& [host, pieces] : of_host) {
        if (known.contains(host) || !AlignHost(reference, pieces)) continue;
        known.insert(host);
        queue.push_back(host);
      }
    }
    for (const auto& [host, pieces] : of_host) {
      if (!known.contains(host)) unaligned_.insert(pieces.begin(), pieces.end());
    }
  }

  // Moves `pieces`, all of one host, onto the clock of `reference`. Every pair of channels of one name gives a guess; those that are
  // one communicator agree, the others scatter by what their ranks lag behind each other.
  bool AlignHost(const std::vector<uint32_t>& reference, const std::vector<uint32_t>& pieces) {
    // Messages leave their ranks at different times: only where there is nothing else.
    std::vector<ClockGuess> guesses = GuessesOf(reference, pieces, false);
    if (guesses.empty()) guesses = GuessesOf(reference, pieces, true);
    if (guesses.empty()) return false;
    const ClockGuess* best = nullptr;
    double best_support = 0;
    for (const ClockGuess& g : guesses) {
      double support = 0;
      for (const ClockGuess& h : guesses) {
        if (std::fabs(h.line.At(g.line.origin_ns) - g.line.offset_ns) <= kAgreeNs) support += WeightOf(h);
      }
      // Of those that agree the sharpest: its own weight counts twice.
      support += WeightOf(g);
      if (support > best_support) {
        best_support = support;
        best = &g;
      }
    }
    for (uint32_t p : pieces) {
      for (Stay& s : pieces_[p].stays) {
        s.start_ns -= best->line.At(s.start_ns);
        s.end_ns -= best->line.At(s.end_ns);
      }
    }
    return true;
  }

  // Ends that lie no nearer than starts are of ranks that work in step, and say little.
  static double WeightOf(const ClockGuess& g) {
    const Coincidence& c = g.coincidence;
    const auto pairs = static_cast<double>(c.pairs);
    const double waited = std::max(kLeastWaited, 1 - c.end_spread_ns / (c.start_spread_ns + kStampNs));
    return waited * pairs / ((c.end_spread_ns + kStampNs) * (pairs + kFewPairs));
  }

  // Ranks that run one program number their streams alike, so what is on one stream first.
  std::vector<ClockGuess> GuessesOf(const std::vector<uint32_t>& reference, const std::vector<uint32_t>& pieces, bool message) const {
    std::vector<ClockGuess> guesses;
    for (const bool one_stream : {true, false}) {
      for (uint64_t token : spread_out_) {
        std::map<std::pair<uint32_t, uint32_t>, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> by_streams;
        for (uint32_t a : reference) {
          for (uint32_t b : pieces) {
            const Piece& x = pieces_[a];
            const Piece& y = pieces_[b];
            if (x.token != token || y.token != token || x.message != message || (x.stream == y.stream) != one_stream) continue;
            auto& [of_a, of_b] = by_streams[{x.stream, y.stream}];
            if (of_a.empty() || of_a.back() != a) of_a.push_back(a);
            if (std::find(of_b.begin(), of_b.end(), b) == of_b.end()) of_b.push_back(b);
          }
        }
        for (const auto& [streams, both] : by_streams) Guess(both.first, both.second, guesses);
      }
      if (!guesses.empty()) return guesses;
    }
    return guesses;
  }

  // Along the diagonals: ranks at the same place of their hosts first.
  void Guess(const std::vector<uint32_t>& reference, const std::vector<uint32_t>& pieces, std::vector<ClockGuess>& guesses) const {
    size_t tried = 0;
    for (size_t turn = 0; turn < pieces.size(); ++turn) {
      for (size_t i = 0; i < reference.size(); ++i, ++tried) {
        if (tried == kGuessesPerName) return;
        const Piece& b = pieces_[pieces[(i + turn) % pieces.size()]];
        const auto guess = GuessClock(pieces_[reference[i]].stays, b.stays);
        const size_t least = std::min<size_t>(kLeastForClock, b.stays.size());
        if (guess && guess->coincidence.share >= kLeastShareForClock && guess->coincidence.pairs >= least) guesses.push_back(*guess);
      }
    }
  }

  bool Open(uint32_t p) const { return pieces_[p].cluster == kNobody && !unaligned_.contains(p); }

  // ---- collectives

  using Bundle = std::vector<uint32_t>;  // pieces of one rank that are judged together

  // Names that share every stream they are on are one communicator's, most likely: together they say more. Where they are not, their
  // ends disagree, nothing joins, and each name is looked at alone.
  void ClusterFamilies() {
    std::map<std::vector<Place>, std::vector<uint64_t>> families;  // tokens
    for (const auto& [token, pieces] : by_token_) {
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
        for (uint32_t p : by_token_[token]) bundles[{pieces_[p].rank, pieces_[p].stream}].push_back(p);
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
      std::sort(channel.tracks.begin(), channel.tracks.end(), [](const Track& x, const Track& y) { return x.token < y.token; });
      channels.push_back(std::move(channel));
      of_channel.push_back(&bundle);
    }
    for (const ChannelCluster& found : ClusterChannels(channels, evidence)) {
      Cluster cluster{.pieces = {}, .inside_ns = found.inside_ns, .outside_ns = found.outside_ns};
      for (uint32_t c : found.channels) cluster.pieces.insert(cluster.pieces.end(), of_channel[c]->begin(), of_channel[c]->end());
      Keep(std::move(cluster));
    }
  }

  void Keep(Cluster cluster) {
    for (uint32_t p : cluster.pieces) pieces_[p].cluster = static_cast<uint32_t>(clusters_.size());
    clusters_.push_back(std::move(cluster));
  }

  // ---- messages

  // Kernels that say SendRecv are messages between two, or an exchange among all of a group, told by their ends.
  void InferMessages(const std::vector<uint32_t>& pieces) {
    const auto ranks = static_cast<uint32_t>(ranks_.size());
    WholeChannelPairings whole = PairWholeChannels(OpenChannels(pieces), ranks, [&](uint32_t a, uint32_t b) { return MeetingsOfRanks(a, b); });
    Take(std::move(whole.pairings), pieces);
    const size_t first = clusters_.size();
    std::map<uint32_t, std::vector<uint32_t>> by_stream;
    for (uint32_t p : OpenOf(pieces)) by_stream[pieces_[p].stream].push_back(p);
    for (const auto& [stream, of_stream] : by_stream) {
      const bool messages = std::any_of(whole.relations.begin(), whole.relations.end(), [stream = stream](const MessageRelation& r) {
        return r.send_stream == stream || r.receive_stream == stream;
      });
      if (!messages) ClusterSimilar(Alone(of_stream), Evidence::kWaiting);
    }
    for (size_t n = first; n < clusters_.size(); ++n) {
      if (clusters_[n].pieces.size() != 2) continue;
      for (uint32_t p : clusters_[n].pieces) pieces_[p].cluster = kNobody;
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
    for (uint32_t p : OpenOf(pieces)) channels.push_back({pieces_[p].rank, pieces_[p].stream, pieces_[p].stays, pieces_[p].kernels});
    return channels;
  }

  // `pairings` are of the channels that are open among `pieces`.
  void Take(std::vector<MessagePairing> pairings, const std::vector<uint32_t>& pieces) {
    const std::vector<uint32_t> open = OpenOf(pieces);
    for (MessagePairing& pairing : pairings) {
      pieces_[open[pairing.a]].cluster = pieces_[open[pairing.b]].cluster = kInMessages;
      const uint32_t a = pieces_[open[pairing.a]].rank, b = pieces_[open[pairing.b]].rank;
      if (!pairing.exchange) {
        out_.messages.push_back({a, b, std::move(pairing.from_a), std::move(pairing.from_b)});
      } else if (a < b) {
        out_.communicators.push_back({.ranks = {a, b}, .kernels = {std::move(pairing.from_a), std::move(pairing.from_b)}, .spread = Nanos(), .margin = 0});
      } else {
        out_.communicators.push_back({.ranks = {b, a}, .kernels = {std::move(pairing.from_b), std::move(pairing.from_a)}, .spread = Nanos(), .margin = 0});
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
    const Piece* of_a = nullptr;
    const Piece* of_b = nullptr;
    for (const auto& [n, p] : clusters_of_[a]) {
      for (const auto& [m, q] : clusters_of_[b]) {
        if (n != m || pieces_[p].token != pieces_[q].token || std::min(pieces_[p].stays.size(), pieces_[q].stays.size()) < kLeastMeetings) continue;
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
      if (j < of_b->stays.size() && of_b->stays[j].end_ns <= s.end_ns + kMeetNs) meetings.push_back({s.end_ns, of_b->stays[j].end_ns});
    }
    return meetings;
  }

  // ---- what is left

  // A stream belongs to one communicator: operations that say nothing by their ends (a broadcast's root leaves early) go with the
  // others of their stream, where that holds on every member.
  void AdoptByStream() {
    std::map<Place, std::vector<uint32_t>> of_stream;
    for (uint32_t p = 0; p < pieces_.size(); ++p) of_stream[{pieces_[p].rank, pieces_[p].stream}].push_back(p);
    std::map<std::pair<uint64_t, std::vector<uint32_t>>, std::vector<uint32_t>> wanted;  // token and members -> pieces
    for (const auto& [stream, pieces] : of_stream) {
      std::vector<uint32_t> members;
      bool one = true;
      for (uint32_t p : pieces) {
        if (pieces_[p].cluster == kNobody || pieces_[p].cluster == kInMessages) continue;
        std::vector<uint32_t> ranks = RanksOf(pieces_[p].cluster);
        one &= members.empty() || members == ranks;
        members = std::move(ranks);
      }
      if (!one || members.empty()) continue;
      for (uint32_t p : pieces) {
        if (pieces_[p].cluster == kNobody && !pieces_[p].message) wanted[{pieces_[p].token, members}].push_back(p);
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
        if (std::isfinite(cluster.outside_ns)) communicator.margin = std::max(communicator.margin, (cluster.outside_ns + 1e3) / (cluster.inside_ns + 1e3));
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
    std::sort(out_.communicators.begin(), out_.communicators.end(), [](const InferredCommunicator& a, const InferredCommunicator& b) {
      return std::pair(a.ranks[0], a.kernels[0][0]) < std::pair(b.ranks[0], b.kernels[0][0]);
    });
  }

  std::span<const NamelessRank> ranks_;
  std::vector<Piece> pieces_;
  std::map<uint64_t, std::vector<uint32_t>> by_token_;  // in order of rank, then stream
  std::vector<uint64_t> spread_out_;                    // tokens, those that most ranks run first
  std::set<uint32_t> unaligned_;                        // pieces of hosts on no common clock
  std::vector<Cluster> clusters_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> clusters_of_;  // by rank: cluster and piece, of collectives
  InferredCommunicators out_;
};

}  // namespace

InferredCommunicators InferCommunicators(std::span<const NamelessRank> ranks) { return Inference(ranks).Run(); }

}  // namespace lockstep::align
