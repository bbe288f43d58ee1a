#include "aggregator/analysis/attribution.h"

#include <algorithm>
#include <cmath>

namespace lockstep::analysis {
namespace {

// Of a step's length nothing below a nanosecond is real.
constexpr double kExactNs = 1;

class Splitter {
 public:
  Splitter(const Graph& graph, Replay& replay, const Timing& ideal) : graph_(graph), replay_(replay), ideal_(ideal), mixed_(ideal) {
    out_.cost.assign(graph.units.size(), 0.0);
    out_.weight.assign(2 * graph.units.size(), 0.0f);
  }

  Attribution Run(const AttributionLimits& limits, std::vector<double>* at_ideal) {
    Evaluate(0);
    if (at_ideal != nullptr) *at_ideal = replay_.moments();
    Evaluate(1);
    out_.lost = points_[1].total - points_[0].total;
    Open(0, 1);
    while (!open_.empty() && out_.replays < limits.replays) {
      // Best first: where the curve could lie highest above its tangents.
      const auto worst = std::max_element(open_.begin(), open_.end(), [](const Interval& a, const Interval& b) { return a.height < b.height; });
      if (worst->height <= std::max(kExactNs, limits.tolerance * std::fabs(out_.lost))) break;
      const Interval interval = *worst;
      open_.erase(worst);
      Refine(interval);
    }
    for (const Interval& i : open_) {
      out_.unrefined = std::max(out_.unrefined, i.height);
      Charge(i);
    }
    return std::move(out_);
  }

 private:
  struct Point {
    double at;
    double total;
    double slope = 0;
    std::vector<PathNode> path;  // only moments whose unit differs between ideal and observed
  };
  // Between two points; at `meet` their tangents do, at most `height` below the curve.
  struct Interval {
    uint32_t low, high;
    double meet;
    double height;
  };

  double Difference(NodeRef node) const {
    const uint32_t u = UnitOf(node);
    return node % 2 == 0 ? graph_.lead[u] - ideal_.lead[u] : graph_.work[u] - ideal_.work[u];
  }

  void Evaluate(double at) {
    ++out_.replays;
    for (size_t u = 0; u < ideal_.lead.size(); ++u) {
      mixed_.lead[u] = ideal_.lead[u] + at * (graph_.lead[u] - ideal_.lead[u]);
      mixed_.work[u] = ideal_.work[u] + at * (graph_.work[u] - ideal_.work[u]);
    }
    replay_.Run(mixed_);
    Point point{.at = at, .total = replay_.TotalTime()};
    for (const PathNode& node : replay_.CriticalPath()) {
      const double difference = Difference(node.node);
      if (difference == 0) continue;
      point.slope += node.weight * difference;
      point.path.push_back(node);
    }
    points_.push_back(std::move(point));
  }

  // The curve is convex: it lies above both tangents and below the chord.
  void Open(uint32_t low, uint32_t high) {
    const Point& a = points_[low];
    const Point& b = points_[high];
    const double width = b.at - a.at, bend = b.slope - a.slope;
    Interval i{low, high, a.at + width / 2, 0};
    if (bend > 0 && width > 0) {
      i.meet = std::clamp((a.total - a.slope * a.at - b.total + b.slope * b.at) / bend, a.at, b.at);
      i.height = bend * (i.meet - a.at) * (b.at - i.meet) / width;
    }
    open_.push_back(i);
  }

  void Refine(const Interval& i) {
    Evaluate(i.meet);
    const auto middle = static_cast<uint32_t>(points_.size()) - 1;
    const Point& a = points_[i.low];
    if (points_[middle].total - (a.total + a.slope * (i.meet - a.at)) <= kExactNs) {
      Charge(i);
      points_.pop_back();
      return;
    }
    Open(i.low, middle);
    Open(middle, i.high);
  }

  void Charge(const Interval& i) {
    Charge(points_[i.low], i.meet - points_[i.low].at);
    Charge(points_[i.high], points_[i.high].at - i.meet);
  }

  void Charge(const Point& point, double width) {
    for (const PathNode& node : point.path) {
      out_.cost[UnitOf(node.node)] += width * node.weight * Difference(node.node);
      out_.weight[node.node] += static_cast<float>(width * node.weight);
    }
  }

  const Graph& graph_;
  Replay& replay_;
  const Timing& ideal_;
  Timing mixed_;
  std::vector<Point> points_;
  std::vector<Interval> open_;
  Attribution out_;
};

}  // namespace

Attribution Attribute(const Graph& graph, Replay& replay, const Timing& ideal, const AttributionLimits& limits,
                      std::vector<double>* at_ideal) {
  return Splitter(graph, replay, ideal).Run(limits, at_ideal);
}

}  // namespace lockstep::analysis
