#include "aggregator/analysis/attribution.h"

#include <algorithm>
#include <cmath>

namespace lockstep::analysis {
namespace {

// Breakpoints beyond this share what is left between their neighbours.
constexpr int kDeepest = 10;

class Splitter {
 public:
  Splitter(const Graph& graph, Replay& replay, const Timing& ideal, Timing& scratch, size_t steps, double tolerance)
      : graph_(graph), replay_(replay), ideal_(ideal), mixed_(scratch), steps_(static_cast<double>(steps)), tolerance_(tolerance) {
    out_.cost.assign(graph.units.size(), 0.0);
  }

  Attribution Run() {
    const Point low = Evaluate(0), high = Evaluate(1);
    out_.lost = high.total - low.total;
    tolerance_ns_ = std::max(1.0, tolerance_ * std::fabs(out_.lost));
    Split(low, high, 0);
    // What the tolerance left over is spread in proportion, so that the sum is exact.
    double sum = 0;
    for (double c : out_.cost) sum += c;
    if (sum != 0 && std::fabs(out_.lost - sum) <= std::fabs(0.05 * out_.lost)) {
      for (double& c : out_.cost) c *= out_.lost / sum;
    }
    return std::move(out_);
  }

 private:
  struct Point {
    double at;
    double total;
    double slope = 0;
    std::vector<NodeRef> path;  // only moments whose unit differs between ideal and observed
  };

  double Difference(NodeRef node) const {
    const uint32_t u = UnitOf(node);
    return node % 2 == 0 ? graph_.lead[u] - ideal_.lead[u] : graph_.work[u] - ideal_.work[u];
  }

  Point Evaluate(double at) {
    ++out_.replays;
    mixed_.lead.resize(ideal_.lead.size());
    mixed_.work.resize(ideal_.work.size());
    for (size_t u = 0; u < ideal_.lead.size(); ++u) {
      mixed_.lead[u] = ideal_.lead[u] + at * (graph_.lead[u] - ideal_.lead[u]);
      mixed_.work[u] = ideal_.work[u] + at * (graph_.work[u] - ideal_.work[u]);
    }
    replay_.Run(mixed_);
    Point point{.at = at, .total = replay_.StepTime() * steps_};
    point.path.reserve(4096);
    for (NodeRef node : replay_.CriticalPath()) {
      const double difference = Difference(node);
      if (difference == 0) continue;
      point.slope += difference;
      point.path.push_back(node);
    }
    return point;
  }

  void Charge(const Point& point, double weight) {
    for (NodeRef node : point.path) out_.cost[UnitOf(node)] += weight * Difference(node);
  }

  // The tangents at both ends bound the curve from below; where they meet on it, there is no other breakpoint between.
  void Split(const Point& low, const Point& high, int depth) {
    const double width = high.at - low.at;
    if (depth >= kDeepest || (high.slope - low.slope) * width <= tolerance_ns_) {
      Charge(low, width / 2);
      Charge(high, width / 2);
      return;
    }
    const double meet =
        (high.total - high.slope * high.at - low.total + low.slope * low.at) / (low.slope - high.slope);
    const double at = std::clamp(meet, low.at + width * 1e-6, high.at - width * 1e-6);
    const Point middle = Evaluate(at);
    if (middle.total - (low.total + low.slope * (at - low.at)) <= tolerance_ns_) {
      Charge(low, at - low.at);
      Charge(high, high.at - at);
      return;
    }
    Split(low, middle, depth + 1);
    Split(middle, high, depth + 1);
  }

  const Graph& graph_;
  Replay& replay_;
  const Timing& ideal_;
  Timing& mixed_;
  double steps_;
  double tolerance_;
  double tolerance_ns_ = 0;
  Attribution out_;
};

}  // namespace

Attribution Attribute(const Graph& graph, Replay& replay, const Timing& ideal, Timing& scratch, size_t steps, double tolerance) {
  return Splitter(graph, replay, ideal, scratch, steps, tolerance).Run();
}

}  // namespace lockstep::analysis
