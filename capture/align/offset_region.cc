#include "capture/align/offset_region.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace lockstep::capture {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// The chain of points, left to right, that are the lowest (`sign` 1) or the highest (`sign` -1) along some
// slope.
template <typename Point>
std::vector<Point> Hull(std::vector<Point> points, double sign) {
  std::sort(points.begin(), points.end(),
            [&](const Point& a, const Point& b) { return a.x != b.x ? a.x < b.x : sign * a.y < sign * b.y; });
  std::vector<Point> hull;
  for (const Point& p : points) {
    if (!hull.empty() && hull.back().x == p.x) continue;
    while (hull.size() >= 2) {
      const Point& a = hull[hull.size() - 2];
      const Point& b = hull.back();
      const double turn = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x);
      if (sign * turn > 0) break;
      hull.pop_back();
    }
    hull.push_back(p);
  }
  return hull;
}

}  // namespace

double OffsetRegion::HighestOffset(double drift) const {
  double lowest = kUnbounded;
  for (const Point& p : upper_hull_) lowest = std::min(lowest, p.y - drift * p.x);
  return lowest + slack_;
}

double OffsetRegion::LowestOffset(double drift) const {
  double highest = -kUnbounded;
  for (const Point& p : lower_hull_) highest = std::max(highest, p.y - drift * p.x);
  return highest - slack_;
}

bool OffsetRegion::Solve(Nanos slack) {
  slack_ = static_cast<double>(slack.ns());
  upper_hull_ = Hull(uppers_, 1.0);
  lower_hull_ = Hull(lowers_, -1.0);
  FindDrifts();
  return !corner_drifts_.empty();
}

// The height of the region over a drift is concave and piecewise linear, and its kinks are the slopes of the
// hulls' edges. So the drifts with a height of 0 or more form one interval.
void OffsetRegion::FindDrifts() {
  std::vector<double> kinks = {-max_drift_, max_drift_};
  for (const auto* hull : {&upper_hull_, &lower_hull_}) {
    for (size_t i = 1; i < hull->size(); ++i) {
      const double slope = ((*hull)[i].y - (*hull)[i - 1].y) / ((*hull)[i].x - (*hull)[i - 1].x);
      if (std::fabs(slope) < max_drift_) kinks.push_back(slope);
    }
  }
  std::sort(kinks.begin(), kinks.end());
  corner_drifts_.clear();
  double before = 0;
  for (size_t i = 0; i < kinks.size(); ++i) {
    const double height = HighestOffset(kinks[i]) - LowestOffset(kinks[i]);
    const bool crosses = i > 0 && (before < 0) != (height < 0);
    if (crosses && std::isfinite(before) && std::isfinite(height)) {
      corner_drifts_.push_back(kinks[i - 1] + (kinks[i] - kinks[i - 1]) * (before / (before - height)));
    }
    if (height >= 0) corner_drifts_.push_back(kinks[i]);
    before = height;
  }
}

OffsetRegion::Range OffsetRegion::At(HostTime at) const {
  Range range{kUnbounded, -kUnbounded};
  for (double drift : corner_drifts_) {
    range.high_ns = std::max(range.high_ns, HighestOffset(drift) + drift * X(at));
    range.low_ns = std::min(range.low_ns, LowestOffset(drift) + drift * X(at));
  }
  return range;
}

// keep(point, sign): `sign` is 1 for an upper constraint and -1 for a lower one.
template <typename Keep>
OffsetRegion OffsetRegion::Filtered(const Keep& keep) const {
  OffsetRegion part(origin_, max_drift_);
  std::copy_if(uppers_.begin(), uppers_.end(), std::back_inserter(part.uppers_),
               [&](const Point& p) { return keep(p, 1.0); });
  std::copy_if(lowers_.begin(), lowers_.end(), std::back_inserter(part.lowers_),
               [&](const Point& p) { return keep(p, -1.0); });
  return part;
}

OffsetRegion OffsetRegion::Part(HostTime from, HostTime to) const {
  return Filtered([&](const Point& p, double) { return p.x >= X(from) && p.x <= X(to); });
}

OffsetRegion OffsetRegion::Without(HostTime after, HostTime before) const {
  return Filtered([&](const Point& p, double) { return p.x <= X(after) || p.x >= X(before); });
}

OffsetRegion OffsetRegion::Obeyed(OffsetLine line, double tolerance_ns) const {
  return Filtered([&](const Point& p, double sign) {
    return sign * (line.offset_ns + line.drift * p.x - p.y) <= tolerance_ns;
  });
}

std::vector<HostTime> OffsetRegion::Moments() const {
  std::vector<HostTime> moments;
  for (const auto* points : {&uppers_, &lowers_}) {
    for (const Point& p : *points) moments.push_back(origin_ + Nanos(static_cast<int64_t>(p.x)));
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  return moments;
}

OffsetLine OffsetRegion::Clip(OffsetLine line) const {
  line.drift = std::clamp(line.drift, corner_drifts_.front(), corner_drifts_.back());
  const double low = LowestOffset(line.drift);
  const double high = HighestOffset(line.drift);
  // At a root of the height, rounding may leave `low` slightly above `high`.
  line.offset_ns = low < high ? std::clamp(line.offset_ns, low, high) : (low + high) / 2;
  return line;
}

}  // namespace lockstep::capture
