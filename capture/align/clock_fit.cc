#include "capture/align/clock_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/median.h"

namespace lockstep::capture {
namespace {

constexpr size_t kEnoughSamples = 5;
constexpr size_t kMostForSlope = 200;  // Theil-Sen compares every pair
constexpr size_t kLeastForSlope = 8;
// A correction must exceed this many standard errors. It must also exceed this share of a sample's
// uncertainty, or kSigmas times the samples' scatter if that is less. Over a slow link, ends differ by part
// of a transfer, and by a different part each time.
constexpr double kSigmas = 3.0;
constexpr double kUncertaintyShare = 0.25;
constexpr double kMadToSigma = 1.4826;
// Samples of up to this multiple of the least uncertainty count as equally sharp. Samples of up to
// kLargestUncertainty times the least uncertainty are used only if too few are sharp.
constexpr double kAsSharp = 2.0;
constexpr double kLargestUncertainty = 10.0;
// Slack doubles from the first value to the last. Constraints that need more slack come from kernels that are
// not one collective.
constexpr Nanos kFirstSlack = Nanos::Micros(1);
constexpr Nanos kLastSlack = Nanos::Seconds(1);

// A clock was set if the distance of ends changes at some moment by more than this many times their scatter
// plus this many nanoseconds.
constexpr double kStepSigmas = 10, kLeastStepNs = 50e3;
constexpr size_t kLeastBesideStep = 4;
constexpr size_t kMostParted = 64;
// A limit that contradicts the line by more than kWrongMatchNs is not exit skew but comes from a wrong match.
// At least the share kLeastKeptShare of the limits must remain without such limits.
constexpr double kWrongMatchNs = 10e3, kLeastKeptShare = 0.9;

// Limits by exits: a sample limits the lead to its distance of ends, plus or minus an allowance. The
// allowance is kSkews times the larger of two distances: between members that share a clock, and of the
// samples from their own line. If no clock is shared, a constant difference between the exits of two hosts
// would not show. The allowance is then at least 1 / kExitSkewPart of the transfer.
constexpr double kSkews = 3;
constexpr double kExitSkewPart = 10;
constexpr size_t kLeastExits = 4;
constexpr int64_t kEdgePart = 8;  // of the window
constexpr double kTypicalExits = 0.95;
constexpr double kTwoStampsNs = 2000;  // two stamps in whole microseconds

// Large operations over a slow link end far apart even on agreeing clocks, so only the sharpest samples
// count.
void KeepSharpest(std::vector<LeadSample>& samples) {
  std::sort(samples.begin(), samples.end(),
            [](const LeadSample& a, const LeadSample& b) { return a.uncertainty < b.uncertainty; });
  const double least = static_cast<double>(samples.front().uncertainty.ns());
  size_t keep = 0;
  while (keep < samples.size()) {
    const double uncertainty = static_cast<double>(samples[keep].uncertainty.ns());
    const bool sharp = uncertainty <= kAsSharp * least + 5000.0;
    const bool needed = keep < kEnoughSamples && uncertainty <= kLargestUncertainty * least;
    if (!sharp && !needed) break;
    ++keep;
  }
  samples.resize(std::max<size_t>(1, keep));
}

struct LineWithError {
  OffsetLine line;
  double error_ns;
};

// Leads over the time since an origin.
struct Points {
  std::vector<double> x, y;  // both in ns
};

Points PointsOf(const std::vector<LeadSample>& samples, HostTime origin) {
  Points points;
  for (const LeadSample& s : samples) {
    points.x.push_back(static_cast<double>((s.at - origin).ns()));
    points.y.push_back(static_cast<double>(s.lead.ns()));
  }
  return points;
}

// The median slope over pairs of points (Theil-Sen); nullopt if all points are at one moment.
std::optional<double> MedianSlope(const std::vector<double>& x, const std::vector<double>& y) {
  const size_t stride = std::max<size_t>(1, (x.size() + kMostForSlope - 1) / kMostForSlope);
  std::vector<double> slopes;
  for (size_t i = 0; i < x.size(); i += stride) {
    for (size_t j = i + stride; j < x.size(); j += stride) {
      if (x[i] != x[j]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
    }
  }
  if (slopes.empty()) return std::nullopt;
  return Median(std::move(slopes));
}

LineWithError RobustLine(const std::vector<LeadSample>& samples, HostTime origin) {
  auto [x, y] = PointsOf(samples, origin);
  OffsetLine line;
  const std::optional<double> slope = samples.size() >= kLeastForSlope ? MedianSlope(x, y) : std::nullopt;
  if (slope) {
    line.drift = *slope;
    double sum = 0, squares = 0;
    std::vector<double> residuals;
    for (size_t i = 0; i < x.size(); ++i) {
      sum += x[i];
      residuals.push_back(y[i] - line.drift * x[i]);
    }
    const double mean = sum / static_cast<double>(x.size());
    for (double v : x) squares += (v - mean) * (v - mean);
    const double middle = Median(residuals);
    for (double& r : residuals) r = std::fabs(r - middle);
    const double sigma = std::max(kMadToSigma * Median(residuals), 1.0);
    if (std::fabs(line.drift) < kSigmas * 1.25 * sigma / std::sqrt(squares)) line.drift = 0;
  }
  for (size_t i = 0; i < y.size(); ++i) y[i] -= line.drift * x[i];
  line.offset_ns = Median(y);
  for (double& v : y) v = std::fabs(v - line.offset_ns);
  const double spread = kMadToSigma * Median(y);
  const double uncertainty = static_cast<double>(samples[samples.size() / 2].uncertainty.ns());
  const double by_uncertainty = kUncertaintyShare * uncertainty / kSigmas;
  const double least = samples.size() >= kLeastForSlope ? std::min(by_uncertainty, spread) : by_uncertainty;
  const double error = std::max(1.25 * spread / std::sqrt(static_cast<double>(y.size())), least);
  if (line.drift == 0 && std::fabs(line.offset_ns) < kSigmas * error) line.offset_ns = 0;
  return {line, error};
}

// The value below which the share `share` of the values lies.
double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)))];
}

// The distances of the samples from a line of their own, whether its drift is significant or not.
std::vector<double> Residuals(const std::vector<LeadSample>& samples, HostTime origin) {
  auto [x, y] = PointsOf(samples, origin);
  const double drift = MedianSlope(x, y).value_or(0);
  for (size_t i = 0; i < x.size(); ++i) y[i] -= drift * x[i];
  const double middle = Median(y);
  for (double& v : y) v -= middle;
  return y;
}

// True if samples lie all over the window: the gaps at both edges are at most as wide as that between two
// samples. If a clock was set in a wider gap, no sample would show it.
bool Cover(const std::vector<LeadSample>& samples, HostInterval window) {
  std::vector<HostTime> at;
  for (const LeadSample& s : samples) at.push_back(s.at);
  std::sort(at.begin(), at.end());
  Nanos widest = (window.end - window.start) / kEdgePart;
  for (size_t i = 1; i < at.size(); ++i) widest = std::max(widest, (at[i] - at[i - 1]) * 3 / 2);
  return at.front() - window.start <= widest && window.end - at.back() <= widest;
}

// The region with limits by exits; nullopt if the samples do not show their exit skew, do not cover the
// window, or contradict the other limits.
std::optional<OffsetRegion> LimitByExits(std::vector<LeadSample> samples, const OffsetRegion& region,
                                         HostInterval window) {
  std::erase_if(samples, [](const LeadSample& s) { return !s.exit_skew; });
  if (samples.size() < kLeastExits) return std::nullopt;
  KeepSharpest(samples);
  if (samples.size() < kLeastExits || !Cover(samples, window)) return std::nullopt;
  const std::vector<double> residuals = Residuals(samples, region.origin());
  std::vector<double> apart, skews, transfers;
  for (size_t i = 0; i < samples.size(); ++i) {
    apart.push_back(std::fabs(residuals[i]));
    transfers.push_back(static_cast<double>(samples[i].uncertainty.ns()));
    if (*samples[i].exit_skew != Nanos::Max())
      skews.push_back(static_cast<double>(samples[i].exit_skew->ns()));
  }
  // The largest one counts: a clock that was set in between shows as distance from the line.
  const double farthest = *std::max_element(apart.begin(), apart.end());
  const bool shared_clock = !skews.empty();
  const double shown = shared_clock ? Quantile(std::move(skews), kTypicalExits) : 0;
  double allowed = kTwoStampsNs + kSkews * std::max(shown, farthest);
  if (!shared_clock) {
    // The line took two values from the samples, which show no other scatter than that from the line.
    const double count = static_cast<double>(samples.size());
    allowed = std::max(kTwoStampsNs + kSkews * farthest * count / (count - 2),
                       Median(std::move(transfers)) / kExitSkewPart);
  }
  for (; allowed <= static_cast<double>(kLastSlack.ns()); allowed *= 2) {
    OffsetRegion limited = region;
    for (size_t i = 0; i < samples.size(); ++i) {
      limited.AddUpper(samples[i].at, samples[i].lead + Nanos(std::llround(allowed)));
      limited.AddLower(samples[i].at, samples[i].lead - Nanos(std::llround(allowed)));
    }
    if (limited.Solve()) return limited;
  }
  return std::nullopt;
}

// Takes the middle of the region if no ends show the lead. Messages take about equally long in both
// directions, so the lead is near the middle of the limits from both sides.
void TakeMiddle(const OffsetRegion& region, HostInterval window, ClockFit& fit) {
  const HostTime middle = window.start + (window.end - window.start) / 2;
  const OffsetRegion::Range range = region.At(middle);
  const double width = range.high_ns - range.low_ns;
  if (!std::isfinite(width)) return;
  fit.error_ns = kUncertaintyShare * width / 2;
  const double lead = (range.low_ns + range.high_ns) / 2;
  if (std::fabs(lead) < fit.error_ns) return;
  fit.line.offset_ns = lead;
}

// Largest distance of the region's edges from the line at a moment.
double Away(const OffsetRegion& region, const ClockFit& fit, HostTime t) {
  const OffsetRegion::Range range = region.At(t);
  const double lead = fit.line.offset_ns + fit.line.drift * static_cast<double>((t - fit.origin).ns());
  return std::max(range.high_ns - lead, lead - range.low_ns);
}

void SetBound(ClockFit& fit, double worst) {
  // Adds 2 ns for rounding: one for the offset, one for the line.
  if (worst < 1e17) fit.bound = Nanos(static_cast<int64_t>(std::ceil(worst))) + Nanos(2);
}

// The interval in which one clock was set.
struct Gap {
  HostTime last_before, first_after;
};

// Finds the interval between the limits that one line obeys and the later limits that another line obeys.
// nullopt: two lines do not suffice.
std::optional<Gap> GapOfLimits(const OffsetRegion& region) {
  const std::vector<HostTime> moments = region.Moments();
  if (moments.size() < 2) return std::nullopt;
  // Find the last moment up to which all limits fit, and the first moment from which all limits fit.
  size_t good = 0, bad = moments.size() - 1;
  while (bad - good > 1) {
    const size_t middle = (good + bad) / 2;
    (region.Part(moments.front(), moments[middle]).Solve(kFirstSlack) ? good : bad) = middle;
  }
  const size_t before = good;
  good = moments.size() - 1;
  bad = 0;
  while (good - bad > 1) {
    const size_t middle = (good + bad) / 2;
    (region.Part(moments[middle], moments.back()).Solve(kFirstSlack) ? good : bad) = middle;
  }
  const size_t after = good;
  if (after > before + 1) return std::nullopt;  // more than one step
  return Gap{after == 0 ? moments[0] : moments[after - 1], moments[std::min(before + 1, moments.size() - 1)]};
}

double Scatter(std::span<const LeadSample> samples, double middle) {
  std::vector<double> apart;
  for (const LeadSample& s : samples) apart.push_back(std::fabs(static_cast<double>(s.lead.ns()) - middle));
  return kMadToSigma * Median(std::move(apart));
}

double MiddleLead(std::span<const LeadSample> samples) {
  std::vector<double> leads;
  for (const LeadSample& s : samples) leads.push_back(static_cast<double>(s.lead.ns()));
  return Median(std::move(leads));
}

// Limits of long operations are too loose to show a small clock step. Ends show it: they keep one distance
// before a moment and another distance after it. `samples` are ordered by time.
std::optional<Gap> GapOfSamples(std::span<const LeadSample> samples) {
  std::optional<Gap> best;
  double clearest = 1;
  const auto [least, most] =
      std::minmax_element(samples.begin(), samples.end(),
                          [](const LeadSample& a, const LeadSample& b) { return a.lead < b.lead; });
  if (least == samples.end() || static_cast<double>((most->lead - least->lead).ns()) <= kLeastStepNs)
    return best;
  const size_t stride = std::max<size_t>(1, samples.size() / kMostParted);
  for (size_t at = kLeastBesideStep; at + kLeastBesideStep <= samples.size(); at += stride) {
    const double before = MiddleLead(samples.first(at)), after = MiddleLead(samples.subspan(at));
    if (std::fabs(after - before) <= clearest * kLeastStepNs) continue;
    const double scatter = std::max(Scatter(samples.first(at), before), Scatter(samples.subspan(at), after));
    const double clear = std::fabs(after - before) / (kStepSigmas * scatter + kLeastStepNs);
    if (clear <= clearest) continue;
    clearest = clear;
    // With a stride, the moment is known only to within one stride.
    best =
        Gap{samples[at - std::min(stride, at)].at, samples[std::min(at + stride - 1, samples.size() - 1)].at};
  }
  return best;
}

void KeepLongerSide(std::vector<LeadSample>& samples, const Gap& gap) {
  const bool first = gap.last_before - samples.front().at >= samples.back().at - gap.first_after;
  std::erase_if(samples,
                [&](const LeadSample& s) { return first ? s.at > gap.last_before : s.at < gap.first_after; });
}

// Fits a clock that was set once, within `gap`. Returns false if the limits on either side still contradict
// each other.
bool FitAcrossStep(const OffsetRegion& region, HostInterval window, const Gap& gap, ClockFit& fit) {
  const std::vector<HostTime> moments = region.Moments();
  if (moments.empty()) return false;
  OffsetRegion first = region.Part(moments.front(), gap.last_before);
  OffsetRegion second = region.Part(gap.first_after, moments.back());
  if (!first.Solve(kFirstSlack) || !second.Solve(kFirstSlack)) return false;
  // The longer side decides where the line lies.
  const bool longer_first = gap.last_before - moments.front() >= moments.back() - gap.first_after;
  fit.line = (longer_first ? first : second).Clip(fit.line);
  fit.stepped = true;
  SetBound(fit, std::max({Away(first, fit, window.start), Away(first, fit, gap.first_after),
                          Away(second, fit, gap.last_before), Away(second, fit, window.end)}));
  return fit.bound != Nanos::Max();
}

// Leaves out a few limits that contradict the others while one line fits before and after them. They come
// from kernels that were wrongly matched as one collective.
bool DropWrongMatches(const std::optional<Gap>& gap, const ClockFit& fit, OffsetRegion& region) {
  const std::vector<HostTime> moments = region.Moments();
  const auto beside = [&](HostTime from, HostTime to) {
    return static_cast<size_t>(
        std::count_if(moments.begin(), moments.end(), [&](HostTime t) { return t >= from && t <= to; }));
  };
  std::vector<OffsetRegion> candidates;
  if (gap && beside(moments.front(), gap->last_before) >= kLeastBesideStep &&
      beside(gap->first_after, moments.back()) >= kLeastBesideStep) {
    candidates.push_back(region.Without(gap->last_before, gap->first_after));
  }
  if (!gap && std::isfinite(fit.error_ns))
    candidates.push_back(region.Obeyed(fit.line, kStepSigmas * fit.error_ns + kWrongMatchNs));
  for (OffsetRegion& c : candidates) {
    if (static_cast<double>(c.constraints()) < kLeastKeptShare * static_cast<double>(region.constraints()) ||
        !c.Solve(kFirstSlack * 2))
      continue;
    region = std::move(c);
    return true;
  }
  return false;
}

}  // namespace

ClockFit FitLead(std::vector<LeadSample> samples, OffsetRegion& region, HostInterval window) {
  ClockFit fit;
  fit.origin = region.origin();
  std::sort(samples.begin(), samples.end(),
            [](const LeadSample& a, const LeadSample& b) { return a.at < b.at; });
  const std::optional<Gap> by_samples = GapOfSamples(samples);
  const std::vector<LeadSample> all = samples;
  if (!samples.empty()) {
    if (by_samples) KeepLongerSide(samples, *by_samples);
    KeepSharpest(samples);
    const LineWithError found = RobustLine(samples, fit.origin);
    fit.line = found.line;
    fit.error_ns = found.error_ns;
  }
  if (by_samples && FitAcrossStep(region, window, *by_samples, fit)) return fit;
  if (!region.Solve(kFirstSlack * 2)) {
    const std::optional<Gap> by_limits = GapOfLimits(region);
    if (!DropWrongMatches(by_limits, fit, region) && by_limits &&
        FitAcrossStep(region, window, *by_limits, fit))
      return fit;
  }
  Nanos slack;
  while (!region.Solve(slack)) {
    slack = slack == Nanos() ? kFirstSlack : slack * 2;
    if (slack > kLastSlack) {
      fit.contradicted = true;
      return fit;
    }
  }
  fit.stepped = slack > kFirstSlack * 2;
  if (slack == Nanos() && !by_samples) {
    if (std::optional<OffsetRegion> limited = LimitByExits(all, region, window)) region = *std::move(limited);
  }
  if (samples.empty()) TakeMiddle(region, window, fit);
  fit.line = region.Clip(fit.line);
  // The region's edges are convex and concave over time, so the error is largest at an end of the window.
  SetBound(fit, std::max(Away(region, fit, window.start), Away(region, fit, window.end)) +
                    2 * static_cast<double>(slack.ns()));
  return fit;
}

}  // namespace lockstep::capture
