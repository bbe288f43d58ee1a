// The set of all straight lines "offset + drift * time" that satisfy a set of causal constraints.
//
// Each constraint limits one clock's lead over another at one moment, from above or from below, because a
// message cannot arrive before it was sent. Together they leave a convex region of (offset, drift). The
// region's height at a moment bounds the error of any line inside it. For one thread; after Solve()
// read-only.
#ifndef LOCKSTEP_CAPTURE_ALIGN_OFFSET_REGION_H_
#define LOCKSTEP_CAPTURE_ALIGN_OFFSET_REGION_H_

#include <cstddef>
#include <vector>

#include "base/time.h"

namespace lockstep::capture {

// lead(t) = offset + drift * (t - origin)
struct OffsetLine {
  double offset_ns = 0;
  double drift = 0;
};

class OffsetRegion {
 public:
  // `max_drift`: no pair of clocks drifts apart faster than this (1e-6 is 1 ppm).
  OffsetRegion(HostTime origin, double max_drift) : origin_(origin), max_drift_(max_drift) {}

  void AddUpper(HostTime at, Nanos lead) { uppers_.push_back({X(at), static_cast<double>(lead.ns())}); }
  void AddLower(HostTime at, Nanos lead) { lowers_.push_back({X(at), static_cast<double>(lead.ns())}); }

  // Reduces the constraints to their hulls. Returns false if no line satisfies all of them, with `slack`
  // added to each.
  bool Solve(Nanos slack = Nanos());

  struct Range {
    double low_ns;  // -inf and +inf where nothing limits it
    double high_ns;
  };
  // Range of the lead at a moment. Requires a successful Solve().
  Range At(HostTime at) const;

  // The nearest line inside the region: drift is clamped first, then offset.
  OffsetLine Clip(OffsetLine line) const;

  HostTime origin() const { return origin_; }

  // This region with only the constraints in [from, to]; the result is not solved.
  OffsetRegion Part(HostTime from, HostTime to) const;
  // This region without the constraints strictly between `after` and `before`; the result is not solved.
  OffsetRegion Without(HostTime after, HostTime before) const;
  // This region without constraints that `line` breaks by more than `tolerance_ns`; the result is not solved.
  OffsetRegion Obeyed(OffsetLine line, double tolerance_ns) const;
  size_t constraints() const { return uppers_.size() + lowers_.size(); }
  // Moments of the constraints, ascending.
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
  // Drifts of the region's corners, from its least to its greatest drift.
  std::vector<double> corner_drifts_;
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_OFFSET_REGION_H_
