// All straight lines "offset + drift * time" that a set of causal constraints allows.
//
// Each constraint says that one clock's lead over another is, at some moment, at most or at least so much: a
// message cannot arrive before it was sent. What all of them leave is a convex region of (offset, drift); its
// height at a moment is how far the true lead can be from any estimate. One thread; after Solve() read-only.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_OFFSET_REGION_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_OFFSET_REGION_H_

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace lockstep::align {

// lead(t) = offset + drift * (t - origin)
struct OffsetLine {
  double offset_ns = 0;
  double drift = 0;
};

class OffsetRegion {
 public:
  // `max_drift`: no pair of clocks is believed to drift apart faster (1e-6 is 1 ppm).
  OffsetRegion(HostTime origin, double max_drift) : origin_(origin), max_drift_(max_drift) {}

  void AddUpper(HostTime at, Nanos lead) { uppers_.push_back({X(at), static_cast<double>(lead.ns())}); }
  void AddLower(HostTime at, Nanos lead) { lowers_.push_back({X(at), static_cast<double>(lead.ns())}); }

  // Reduces the constraints to their hulls. False when no line satisfies all of them, with `slack` given to
  // each.
  bool Solve(Nanos slack = Nanos());

  struct Range {
    double low_ns;  // -inf and +inf where nothing limits it
    double high_ns;
  };
  // What the lead can be at a moment. Solve() must have succeeded.
  Range At(HostTime at) const;

  // The nearest line inside the region: drift is clamped first, then offset.
  OffsetLine Clip(OffsetLine line) const;

  HostTime origin() const { return origin_; }

  // The same with only the constraints of [from, to]; to be solved.
  OffsetRegion Part(HostTime from, HostTime to) const;
  // The same without the constraints at moments strictly between these; to be solved.
  OffsetRegion Without(HostTime after, HostTime before) const;
  // The same without constraints that the line breaks by more than `tolerance_ns`; to be solved.
  OffsetRegion Obeyed(OffsetLine line, double tolerance_ns) const;
  size_t constraints() const { return uppers_.size() + lowers_.size(); }
  // Moments at which something is constrained, ascending.
  std::vector<HostTime> Moments() const;

 private:
  struct Point {
    double x;
    double y;
  };
  template <typename Keep>
  OffsetRegion Filtered(const Keep& keep) const;
  double X(HostTime t) const { return static_cast<double>((t - origin_).ns()); }
  double HighestOffset(double drift) const;  // +inf without upper constraints
  double LowestOffset(double drift) const;
  void FindDrifts();

  HostTime origin_;
  double max_drift_;
  std::vector<Point> uppers_;
  std::vector<Point> lowers_;
  std::vector<Point> upper_hull_;
  std::vector<Point> lower_hull_;
  double slack_ = 0;
  // Every drift at which the region has a corner, from its least to its greatest drift.
  std::vector<double> corner_drifts_;
};

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_OFFSET_REGION_H_
