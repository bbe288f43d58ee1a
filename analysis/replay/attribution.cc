#include "analysis/replay/attribution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "analysis/replay/critical_path.h"
#include "analysis/replay/line_replay.h"

namespace lockstep::analysis {
namespace {

// Differences of a step's length below a nanosecond are not real.
constexpr double kExactNs = 1;
// Intervals that are refined together. The result depends on it.
constexpr size_t kRefinedTogether = 4;

class Splitter {
 public:
  Splitter(const Schedule& schedule, const Durations& ideal)
      : schedule_(schedule),
        graph_(schedule.graph()),
        ideal_(ideal),
        line_(std::in_place, schedule, ideal, Observed(graph_, ideal)),
        paths_(schedule) {}

  Attribution Run(const AttributionLimits& limits, const UseIdealTimes& use_ideal) {
    Evaluate(std::array{0.0, 1.0});
    if (use_ideal) use_ideal(IdealTimes());
    out_.lost = points_[1].total - points_[0].total;
    Open(0, 1);
    const double enough = std::max(kExactNs, limits.tolerance * std::fabs(out_.lost));
    while (out_.replays < limits.replays) {
      const std::vector<Interval> worst = TakeWorst(
          enough, std::min<size_t>(kRefinedTogether, static_cast<size_t>(limits.replays - out_.replays)));
      if (worst.empty()) break;
      Refine(worst);
    }
    for (const Interval& i : open_) {
      out_.unrefined = std::max(out_.unrefined, i.height);
      Charge(i);
    }
    line_.reset();
    PayCharges();
    return std::move(out_);
  }

 private:
  struct Point {
    double at;
    double total;
    double slope = 0;
    std::vector<PathNode> path;  // only moments whose unit differs between ideal and observed
  };
  // The interval between two points. Their tangents meet at `meet`, at most `height` below the curve.
  struct Interval {
    uint32_t low, high;
    double meet;
    double height;
  };

  std::vector<double> IdealTimes() const {
    std::vector<double> times(schedule_.nodes());
    for (uint32_t node = 0; node < times.size(); ++node) times[node] = line_->TimeAt(0, node);
    return times;
  }

  double Difference(NodeRef node) const {
    const uint32_t u = UnitOf(node);
    return node % 2 == 0 ? graph_.lag[u] - ideal_.lag[u] : graph_.work[u] - ideal_.work[u];
  }

  // The time that collectives add beside a kernel stays the same.
  static Durations Observed(const Graph& graph, const Durations& ideal) {
    Durations observed(graph);
    observed.contention = ideal.contention;
    return observed;
  }

  // Appends one point for each value.
  void Evaluate(std::span<const double> at) {
    while (!at.empty()) {
      const size_t count = std::min(at.size(), LineReplay::kPoints);
      EvaluateTogether(at.first(count));
      at = at.subspan(count);
    }
  }

  void EvaluateTogether(std::span<const double> at) {
    line_->Run(at);
    out_.replays += static_cast<int>(at.size());
    for (size_t i = 0; i < at.size(); ++i) {
      Point point{.at = at[i], .total = line_->TotalTime(i)};
      for (const PathNode& node : paths_.Find(line_->MomentsOf(i), line_->End(i))) {
        const double difference = Difference(node.node);
        if (difference == 0) continue;
        point.slope += node.weight * difference;
        point.path.push_back(node);
      }
      points_.push_back(std::move(point));
    }
  }

  // Removes the intervals in which the curve may lie highest above its tangents, and returns them, highest
  // first. At most `count`, all above `enough`.
  std::vector<Interval> TakeWorst(double enough, size_t count) {
    const auto open = static_cast<std::ptrdiff_t>(std::min(count, open_.size()));
    std::partial_sort(open_.begin(), open_.begin() + open, open_.end(),
                      [](const Interval& a, const Interval& b) {
                        return a.height != b.height ? a.height > b.height : a.low < b.low;
                      });
    const auto end = std::find_if(open_.begin(), open_.begin() + open,
                                  [&](const Interval& i) { return i.height <= enough; });
    std::vector<Interval> worst(open_.begin(), end);
    open_.erase(open_.begin(), end);
    return worst;
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

  void Refine(const std::vector<Interval>& intervals) {
    std::vector<double> at;
    for (const Interval& i : intervals) at.push_back(i.meet);
    auto middle = static_cast<uint32_t>(points_.size());
    Evaluate(at);
    for (const Interval& i : intervals) {
      const Point& a = points_[i.low];
      if (points_[middle].total - (a.total + a.slope * (i.meet - a.at)) <= kExactNs) {
        Charge(i);
      } else {
        Open(i.low, middle);
        Open(middle, i.high);
      }
      ++middle;
    }
  }

  void Charge(const Interval& i) {
    charges_.push_back({i.low, i.meet - points_[i.low].at});
    charges_.push_back({i.high, points_[i.high].at - i.meet});
  }

  // The sums need memory, so they begin when the replay has given back its own.
  void PayCharges() {
    out_.cost.assign(graph_.units.size(), 0.0);
    out_.weight.assign(2 * graph_.units.size(), 0.0f);
    for (const auto& [point, width] : charges_) Pay(points_[point], width);
  }

  void Pay(const Point& point, double width) {
    for (const PathNode& node : point.path) {
      out_.cost[UnitOf(node.node)] += width * node.weight * Difference(node.node);
      out_.weight[node.node] += static_cast<float>(width * node.weight);
    }
  }

  const Schedule& schedule_;
  const Graph& graph_;
  const Durations ideal_;
  std::optional<LineReplay> line_;  // until the charges are paid
  PathFinder paths_;
  std::vector<Point> points_;
  std::vector<Interval> open_;
  struct PointCharge {
    uint32_t point;
    double width;
  };
  std::vector<PointCharge> charges_;
  Attribution out_;
};

}  // namespace

Attribution Attribute(const Schedule& schedule, const Durations& ideal, const AttributionLimits& limits,
                      const UseIdealTimes& use_ideal) {
  return Splitter(schedule, ideal).Run(limits, use_ideal);
}

}  // namespace lockstep::analysis
