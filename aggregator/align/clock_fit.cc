#include "aggregator/align/clock_fit.h"

#include <algorithm>
#include <cmath>

namespace lockstep::align {
namespace {

constexpr size_t kEnoughSamples = 5;
constexpr size_t kMostForSlope = 200;  // Theil-Sen looks at every pair
constexpr size_t kLeastForSlope = 8;
// A correction must exceed this many standard errors, and this part of what one sample may be off.
constexpr double kSigmas = 3.0;
constexpr double kBlurShare = 0.25;
constexpr double kMadToSigma = 1.4826;
// Twice the blur of the sharpest is still as good; ten times is used only when there is nothing else.
constexpr double kAsSharp = 2.0;
constexpr double kBluntest = 10.0;
// Slack is tried from here by doubling. Constraints that need more than a second belong to different things.
constexpr Nanos kFirstSlack = Nanos::Micros(1);
constexpr Nanos kLastSlack = Nanos::Seconds(1);

double Median(std::vector<double> v) {
  const size_t k = v.size() / 2;
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(k), v.end());
  if (v.size() % 2 == 1) return v[k];
  return (v[k] + *std::max_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(k))) / 2;
}

// Large operations over a slow link end far apart on agreeing clocks, so only the sharpest samples say anything.
void KeepSharpest(std::vector<LeadSample>& samples) {
  std::sort(samples.begin(), samples.end(), [](const LeadSample& a, const LeadSample& b) { return a.blur < b.blur; });
  const double least = static_cast<double>(samples.front().blur.ns());
  size_t keep = 0;
  while (keep < samples.size()) {
    const double blur = static_cast<double>(samples[keep].blur.ns());
    const bool sharp = blur <= kAsSharp * least + 5000.0;
    const bool needed = keep < kEnoughSamples && blur <= kBluntest * least;
    if (!sharp && !needed) break;
    ++keep;
  }
  samples.resize(std::max<size_t>(1, keep));
}

OffsetLine RobustLine(const std::vector<LeadSample>& samples, HostTime origin) {
  std::vector<double> x, y;
  for (const LeadSample& s : samples) {
    x.push_back(static_cast<double>((s.at - origin).ns()));
    y.push_back(static_cast<double>(s.lead.ns()));
  }
  OffsetLine line;
  const size_t stride = std::max<size_t>(1, (samples.size() + kMostForSlope - 1) / kMostForSlope);
  std::vector<double> slopes;
  for (size_t i = 0; i < x.size(); i += stride) {
    for (size_t j = i + stride; j < x.size(); j += stride) {
      if (x[i] != x[j]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
    }
  }
  if (samples.size() >= kLeastForSlope && !slopes.empty()) {
    line.drift = Median(slopes);
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
  const double blur = static_cast<double>(samples[samples.size() / 2].blur.ns());
  const double error = std::max(1.25 * spread / std::sqrt(static_cast<double>(y.size())), kBlurShare * blur / kSigmas);
  if (line.drift == 0 && std::fabs(line.offset_ns) < kSigmas * error) line.offset_ns = 0;
  return line;
}

// How far the region is from the line at a moment.
double Away(const OffsetRegion& region, const ClockFit& fit, HostTime t) {
  const OffsetRegion::Range range = region.At(t);
  const double lead = fit.line.offset_ns + fit.line.drift * static_cast<double>((t - fit.origin).ns());
  return std::max(range.high_ns - lead, lead - range.low_ns);
}

void SetBound(ClockFit& fit, double worst) {
  // Rounding: one nanosecond for the offset, one for the line.
  if (worst < 1e17) fit.bound = Nanos(static_cast<int64_t>(std::ceil(worst))) + Nanos(2);
}

// One clock was set once: up to some moment one line fits, from some moment on another does. False when that is not so.
bool FitAcrossStep(const OffsetRegion& region, HostInterval window, ClockFit& fit) {
  const std::vector<HostTime> moments = region.Moments();
  if (moments.size() < 2) return false;
  // The last moment up to which everything fits, and the first from which everything does.
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
  if (after > before + 1) return false;  // more than one step
  OffsetRegion first = region.Part(moments.front(), moments[before]);
  OffsetRegion second = region.Part(moments[after], moments.back());
  if (!first.Solve(kFirstSlack) || !second.Solve(kFirstSlack)) return false;
  // The line stays where the longer side puts it.
  const bool longer_first = before + 1 >= moments.size() - after;
  fit.line = (longer_first ? first : second).Clip(fit.line);
  fit.stepped = true;
  const HostTime last_before = moments[std::min(before + 1, moments.size() - 1)], first_after = moments[after == 0 ? 0 : after - 1];
  SetBound(fit, std::max({Away(first, fit, window.start), Away(first, fit, last_before), Away(second, fit, first_after), Away(second, fit, window.end)}));
  return fit.bound != Nanos::Max();
}

}  // namespace

ClockFit FitLead(std::vector<LeadSample> samples, OffsetRegion& region, HostInterval window) {
  ClockFit fit;
  fit.origin = region.origin();
  if (!samples.empty()) {
    KeepSharpest(samples);
    fit.line = RobustLine(samples, fit.origin);
  }
  if (!region.Solve(kFirstSlack * 2) && FitAcrossStep(region, window, fit)) return fit;
  Nanos slack;
  while (!region.Solve(slack)) {
    slack = slack == Nanos() ? kFirstSlack : slack * 2;
    if (slack > kLastSlack) return fit;
  }
  fit.stepped = slack > kFirstSlack * 2;
  fit.line = region.Clip(fit.line);
  // The region's edges are convex and concave over time, so the ends of the window are the worst of it.
  SetBound(fit, std::max(Away(region, fit, window.start), Away(region, fit, window.end)) + 2 * static_cast<double>(slack.ns()));
  return fit;
}

}  // namespace lockstep::align
