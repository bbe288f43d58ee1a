#include "capture/infer/host_alignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "capture/infer/joint_kernels.h"

namespace lockstep::capture {
namespace {

// A clock guess needs at least this many shared kernels, and this share of them. Guesses within kAgreeNs
// agree.
constexpr uint32_t kLeastForClock = 3;
constexpr double kLeastShareForClock = 0.5;
constexpr double kAgreeNs = 5e3;
constexpr size_t kGuessesPerName = 16;  // per name and pair of streams
constexpr double kLeastWaited = 0.05;
// A few pairs may keep a distance by chance, so they weigh less.
constexpr double kFewPairs = 4;
constexpr double kStampNs = 500;

class HostAlignment {
 public:
  HostAlignment(std::span<const NamelessRank> ranks, KernelPieces& pieces) : ranks_(ranks), pieces_(pieces) {}

  // Searches breadth first from the first host. A host joins if it shares a name with one on the common
  // clock.
  std::vector<uint32_t> Run() {
    std::map<uint32_t, std::vector<uint32_t>> of_host;  // pieces
    for (uint32_t p = 0; p < pieces_.list.size(); ++p)
      of_host[ranks_[pieces_.list[p].rank].host].push_back(p);
    if (of_host.empty()) return {};
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
    std::vector<uint32_t> alone;
    for (const auto& [host, pieces] : of_host) {
      if (!known.contains(host)) alone.insert(alone.end(), pieces.begin(), pieces.end());
    }
    return alone;
  }

 private:
  // Moves `pieces`, all of one host, to the clock of `reference`. Every pair of channels of one name gives a
  // guess. Guesses from one communicator agree. The others scatter by the delays between their ranks.
  bool AlignHost(const std::vector<uint32_t>& reference, const std::vector<uint32_t>& pieces) {
    // Messages leave their ranks at different times, so they are used only without other kernels.
    std::vector<ClockGuess> guesses = GuessesOf(reference, pieces, false);
    AddJointGuesses(reference, pieces, guesses);
    if (guesses.empty()) guesses = GuessesOf(reference, pieces, true);
    if (guesses.empty()) return false;
    const ClockGuess* best = nullptr;
    double best_support = 0;
    for (const ClockGuess& g : guesses) {
      double support = 0;
      for (const ClockGuess& h : guesses) {
        if (std::fabs(h.line.At(g.line.origin_ns) - g.line.offset_ns) <= kAgreeNs) support += WeightOf(h);
      }
      // Among guesses that agree, the sharpest wins, because its own weight counts twice.
      support += WeightOf(g);
      if (support > best_support) {
        best_support = support;
        best = &g;
      }
    }
    for (uint32_t p : pieces) {
      for (KernelInterval& s : pieces_.list[p].intervals) {
        s.start_ns -= best->line.At(s.start_ns);
        s.end_ns -= best->line.At(s.end_ns);
      }
    }
    return true;
  }

  // If ends lie no nearer than starts, the ranks only work in step, and the guess has little weight.
  static double WeightOf(const ClockGuess& g) {
    const Coincidence& c = g.coincidence;
    const auto pairs = static_cast<double>(c.pairs);
    const double waited = std::max(kLeastWaited, 1 - c.end_spread_ns / (c.start_spread_ns + kStampNs));
    return waited * pairs / ((c.end_spread_ns + kStampNs) * (pairs + kFewPairs));
  }

  // Hosts may share only operations of all ranks, which run among those of smaller communicators. Inside a
  // host, its clock shows them.
  void AddJointGuesses(const std::vector<uint32_t>& reference, const std::vector<uint32_t>& pieces,
                       std::vector<ClockGuess>& guesses) const {
    const auto ours = JointKernelsOf(reference), theirs = JointKernelsOf(pieces);
    for (const auto& [what, kernels] : ours) {
      const auto same = theirs.find(what);
      if (same == theirs.end()) continue;
      const auto guess = GuessClock(kernels, same->second);
      if (guess && guess->coincidence.share >= kLeastShareForClock &&
          guess->coincidence.pairs >= kLeastForClock)
        guesses.push_back(*guess);
    }
  }

  // The kernels of one host's ranks that end together, by signature and stream.
  std::map<std::pair<uint64_t, uint32_t>, std::vector<KernelInterval>> JointKernelsOf(
      const std::vector<uint32_t>& pieces) const {
    std::map<std::pair<uint64_t, uint32_t>, std::vector<std::span<const KernelInterval>>> alike;
    for (uint32_t p : pieces) {
      const KernelPiece& piece = pieces_.list[p];
      if (!piece.message) alike[{piece.signature, piece.stream}].emplace_back(piece.intervals);
    }
    std::map<std::pair<uint64_t, uint32_t>, std::vector<KernelInterval>> out;
    for (const auto& [what, sequences] : alike) {
      for (uint32_t i : FindJointKernels(sequences)) out[what].push_back(sequences[0][i]);
    }
    return out;
  }

  // Ranks that run one program number their streams alike, so pairs on one stream are tried first.
  std::vector<ClockGuess> GuessesOf(const std::vector<uint32_t>& reference,
                                    const std::vector<uint32_t>& pieces, bool message) const {
    std::vector<ClockGuess> guesses;
    for (const bool one_stream : {true, false}) {
      for (uint64_t signature : pieces_.spread_out) {
        std::map<std::pair<uint32_t, uint32_t>, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>>
            by_streams;
        for (uint32_t a : reference) {
          for (uint32_t b : pieces) {
            const KernelPiece& x = pieces_.list[a];
            const KernelPiece& y = pieces_.list[b];
            if (x.signature != signature || y.signature != signature || x.message != message ||
                (x.stream == y.stream) != one_stream)
              continue;
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

  // Tries the diagonals in turn: first ranks at the same place of their hosts.
  void Guess(const std::vector<uint32_t>& reference, const std::vector<uint32_t>& pieces,
             std::vector<ClockGuess>& guesses) const {
    size_t tried = 0;
    for (size_t turn = 0; turn < pieces.size(); ++turn) {
      for (size_t i = 0; i < reference.size(); ++i, ++tried) {
        if (tried == kGuessesPerName) return;
        const KernelPiece& b = pieces_.list[pieces[(i + turn) % pieces.size()]];
        const auto guess = GuessClock(pieces_.list[reference[i]].intervals, b.intervals);
        const size_t least = std::min<size_t>(kLeastForClock, b.intervals.size());
        if (guess && guess->coincidence.share >= kLeastShareForClock && guess->coincidence.pairs >= least)
          guesses.push_back(*guess);
      }
    }
  }

  std::span<const NamelessRank> ranks_;
  KernelPieces& pieces_;
};

}  // namespace

std::vector<uint32_t> AlignHosts(std::span<const NamelessRank> ranks, KernelPieces& pieces) {
  return HostAlignment(ranks, pieces).Run();
}

}  // namespace lockstep::capture
