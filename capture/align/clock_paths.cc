#include "capture/align/clock_paths.h"

#include <cmath>
#include <deque>

namespace lockstep::capture {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Sums of the same numbers in a different order may differ by this.
constexpr double kRoundingNs = 1e-3;

struct Edge {
  uint32_t to;
  double length_ns;
};

class Graph {
 public:
  // `backward`: paths lead from every node to the origin instead of from it.
  Graph(size_t nodes, std::span<const LeadRange> ranges, bool backward) : edges_(nodes) {
    for (const LeadRange& r : ranges) {
      Add(backward ? r.to : r.from, backward ? r.from : r.to, r.high_ns);
      Add(backward ? r.from : r.to, backward ? r.to : r.from, -r.low_ns);
    }
  }

  // Lengths may be negative. nullopt: the sum of a cycle is negative.
  std::optional<std::vector<double>> Shortest(uint32_t origin) const {
    std::vector<double> length(edges_.size(), kInfinity);
    std::vector<uint32_t> hops(edges_.size(), 0);
    std::vector<uint8_t> queued(edges_.size(), 0);
    std::deque<uint32_t> queue = {origin};
    length[origin] = 0;
    while (!queue.empty()) {
      const uint32_t from = queue.front();
      queue.pop_front();
      queued[from] = 0;
      for (const Edge& e : edges_[from]) {
        if (length[from] + e.length_ns >= length[e.to] - kRoundingNs) continue;
        length[e.to] = length[from] + e.length_ns;
        hops[e.to] = hops[from] + 1;
        if (hops[e.to] >= edges_.size()) return std::nullopt;
        if (queued[e.to]) continue;
        queued[e.to] = 1;
        queue.push_back(e.to);
      }
    }
    return length;
  }

 private:
  void Add(uint32_t from, uint32_t to, double length_ns) {
    if (std::isfinite(length_ns) && from < edges_.size() && to < edges_.size())
      edges_[from].push_back({to, length_ns});
  }

  std::vector<std::vector<Edge>> edges_;
};

}  // namespace

std::optional<std::vector<NodeRange>> ChainRanges(size_t nodes, uint32_t origin,
                                                  std::span<const LeadRange> ranges) {
  const auto highs = Graph(nodes, ranges, false).Shortest(origin);
  const auto lows = highs ? Graph(nodes, ranges, true).Shortest(origin) : std::nullopt;
  if (!lows) return std::nullopt;
  std::vector<NodeRange> out(nodes);
  for (size_t n = 0; n < nodes; ++n) {
    out[n] = {-(*lows)[n], (*highs)[n]};
    if (out[n].low_ns > out[n].high_ns + kRoundingNs) return std::nullopt;
  }
  return out;
}

}  // namespace lockstep::capture
