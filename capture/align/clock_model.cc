#include "capture/align/clock_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>

#include "capture/align/clock_paths.h"
#include "capture/align/collective_clock.h"
#include "capture/align/network_clock.h"

namespace lockstep::capture {
namespace {

using capture::kNone;

// Each pair between the reference and a host adds at least this error.
constexpr double kHopNs = 100;
// Margins for rounding, and for the error of the moment at which a range is read.
constexpr double kMarginNs = 5, kMarginShare = 1e-3;

// Neither is negative. A sum that does not fit is as unknown as Max.
Nanos Sum(Nanos a, Nanos b) { return a > Nanos::Max() - b ? Nanos::Max() : a + b; }

// The interval of each host's clock that contains records.
std::vector<HostInterval> Windows(const capture::Capture& capture) {
  std::vector<HostInterval> windows(capture.hosts.size(), {HostTime::Max(), HostTime::Min()});
  const auto include = [&](HostInterval& w, HostTime from, HostTime to) {
    w.start = std::min(w.start, from);
    w.end = std::max(w.end, to);
  };
  for (const capture::RankData& r : capture.ranks) {
    if (r.host >= windows.size()) continue;
    if (r.window.end > r.window.start) include(windows[r.host], r.window.start, r.window.end);
    if (!r.activities.empty()) include(windows[r.host], r.activities.front().start, r.activities.back().end);
  }
  for (HostInterval& w : windows) {
    if (w.start > w.end) w = {};
  }
  return windows;
}

// The time by which CLOCK_REALTIME of the host was set during the recording, from the rank's clock readings.
Nanos SteppedBy(const capture::RankData& rank) {
  Nanos stepped;
  for (size_t i = 1; i < rank.clocks.size(); ++i) {
    const capture::ClockReading& a = rank.clocks[i - 1];
    const capture::ClockReading& b = rank.clocks[i];
    const Nanos mono(std::llabs((b.monotonic - a.monotonic).ns()));
    const Nanos parted(std::llabs(((b.realtime - a.realtime) - (b.monotonic - a.monotonic)).ns()));
    const Nanos allowed = a.gap + b.gap + Nanos::Micros(200) + Nanos(mono.ns() / 1000);
    if (parted > allowed) stepped = Sum(stepped, parted);
  }
  return stepped;
}

class Estimator {
 public:
  Estimator(const capture::Capture& capture, const Matches& matches)
      : capture_(capture), windows_(Windows(capture)), clocks_(capture.hosts.size()) {
    for (size_t h = 0; h < clocks_.size(); ++h) {
      const auto network = ClockFromNetwork(capture.hosts[h].exchanges, windows_[h]);
      clocks_[h].anchor = windows_[h].start;
      if (network) clocks_[h] = *network;
      if (network && (reference_ == kNone || clocks_[h].bound < clocks_[reference_].bound)) {
        reference_ = static_cast<uint32_t>(h);
      }
    }
    if (reference_ == kNone) {
      reference_ = ReferenceFor(matches);
      clocks_[reference_].bound = Nanos();
    }
    from_network_ = clocks_;
    evidence_ = CollectEvidence(capture, matches, reference_);
  }

  std::vector<HostClock> Run() {
    FitPairs();
    ReachHosts();
    CheckCycles();
    WidenByPairs();
    WidenBySteps();
    MarkReferenceStepped();
    TightenByChains();
    return std::move(clocks_);
  }

 private:
  // Without exchanges, one host's clock becomes the job's clock. The reference is the host whose rank arrives
  // last most often, because its short kernels limit the others' clocks most tightly.
  uint32_t ReferenceFor(const Matches& matches) const {
    std::vector<uint64_t> last(capture_.hosts.size());
    for (const Instance& instance : matches.instances) {
      Nanos shortest = Nanos::Max();
      uint32_t host = kNone;
      for (const Member& m : instance.members) {
        const capture::RankData& rank = capture_.ranks[m.rank_index];
        const capture::DeviceActivity& a = rank.activities[rank.collectives[m.collective].activity];
        if (a.end - a.start < shortest) {
          shortest = a.end - a.start;
          host = rank.host;
        }
      }
      if (host < last.size()) ++last[host];
    }
    return static_cast<uint32_t>(std::max_element(last.begin(), last.end()) - last.begin());
  }

  static double LeadAt(const HostClock& clock, HostTime t) {
    return static_cast<double>(clock.offset.ns()) +
           clock.drift * static_cast<double>((t - clock.anchor).ns());
  }

  struct Pair {
    HostPair hosts;
    PairFit found;
    bool limits_only = false;   // has limits but no samples, so a clock step would not show
    bool reached_over = false;  // the clock of one of the two hosts was derived from this pair
  };

  void FitPairs() {
    std::vector<HostPair> pairs;
    for (const auto& [pair, unused] : evidence_) pairs.push_back(pair);
    std::sort(pairs.begin(), pairs.end());
    pairs_of_.resize(clocks_.size());
    for (const HostPair& hosts : pairs) {
      for (uint32_t h : {hosts.first, hosts.second})
        pairs_of_[h].push_back(static_cast<uint32_t>(pairs_.size()));
      const HostPairEvidence& evidence = evidence_.find(hosts)->second;
      pairs_.push_back({hosts, FitPair(evidence, windows_[hosts.first]), evidence.limits_only});
    }
    evidence_.clear();
  }

  // Derives clocks from the reference outward, first over the pairs whose leads are best known.
  void ReachHosts() {
    using Place = std::pair<double, uint32_t>;  // error, host
    std::vector<double> least(clocks_.size(), std::numeric_limits<double>::infinity());
    std::vector<uint32_t> over(clocks_.size(), kNone);
    std::vector<uint8_t> done(clocks_.size(), 0);
    std::priority_queue<Place, std::vector<Place>, std::greater<>> queue;
    least[reference_] = 0;
    queue.push({0, reference_});
    while (!queue.empty()) {
      const uint32_t host = queue.top().second;
      queue.pop();
      if (done[host]) continue;
      done[host] = 1;
      if (over[host] != kNone) {
        Pair& pair = pairs_[over[host]];
        pair.reached_over = true;
        Refine(pair, pair.hosts.first == host ? pair.hosts.second : pair.hosts.first, host);
      }
      for (uint32_t p : pairs_of_[host]) {
        const uint32_t to = pairs_[p].hosts.first == host ? pairs_[p].hosts.second : pairs_[p].hosts.first;
        // A pair without a bound says nothing. If no ends show the lead, the bound is its error.
        const ClockFit& fit = pairs_[p].found.fit;
        if (done[to] || pairs_[p].limits_only || fit.bound == Nanos::Max()) continue;
        const double error =
            std::hypot(least[host], std::min(fit.error_ns, static_cast<double>(fit.bound.ns())) + kHopNs);
        if (error >= least[to]) continue;
        least[to] = error;
        over[to] = p;
        queue.push({error, to});
      }
    }
  }

  // Gives `to` the clock that its collectives with `from` imply, if the new bound is below the known one.
  void Refine(const Pair& pair, uint32_t from, uint32_t to) {
    const uint32_t first = pair.hosts.first;
    const ClockFit& fit = pair.found.fit;
    const Nanos bound = Sum(clocks_[from].bound, fit.bound);
    if (fit.bound == Nanos::Max() || bound >= clocks_[to].bound) return;
    const double sign = first == from ? 1.0 : -1.0;
    const HostClock& base = clocks_[from];
    const double lead = LeadAt(base, fit.origin) + sign * fit.line.offset_ns;
    HostClock refined;
    refined.drift = base.drift + sign * fit.line.drift;
    refined.offset = Nanos(std::llround(lead));
    // The line was fitted on the first host's clock. The anchor is the same moment on the clock of `to`.
    refined.anchor =
        first == from ? HostTime(fit.origin.ns() + std::llround(fit.line.offset_ns)) : fit.origin;
    if (first == to) {
      // LeadAt(base) needs a moment on base's own clock.
      const HostTime on_base(fit.origin.ns() + std::llround(fit.line.offset_ns));
      refined.offset = Nanos(std::llround(LeadAt(base, on_base) - fit.line.offset_ns));
    }
    refined.bound = bound;
    refined.method = clocks_[to].method == ClockMethod::kNetwork ||
                             clocks_[from].method == ClockMethod::kNetwork ||
                             clocks_[from].method == ClockMethod::kBoth
                         ? ClockMethod::kBoth
                         : ClockMethod::kCollectives;
    refined.step_noticed = clocks_[to].step_noticed || fit.stepped;
    if (clocks_[to].bound != Nanos::Max()) {
      // Two estimates of one clock must agree within the sum of their bounds.
      const double apart = std::fabs(LeadAt(refined, refined.anchor) - LeadAt(clocks_[to], refined.anchor));
      Widen(refined, apart, refined.bound + clocks_[to].bound);
    }
    clocks_[to] = refined;
  }

  // If two estimates of a clock differ by more than `allowed`, the clock was set in between. Widens its bound
  // by the excess.
  static void Widen(HostClock& clock, double apart_ns, Nanos allowed) {
    if (apart_ns <= static_cast<double>(allowed.ns())) return;
    clock.bound = Sum(clock.bound, Nanos(std::llround(apart_ns)) - allowed);
    clock.step_noticed = true;
  }

  // A pair from which no clock was derived closes a cycle. Around a cycle, all leads must sum to 0.
  void CheckCycles() {
    for (const Pair& pair : pairs_) {
      if (pair.reached_over || pair.limits_only) continue;
      HostClock& first = clocks_[pair.hosts.first];
      HostClock& second = clocks_[pair.hosts.second];
      const ClockFit& fit = pair.found.fit;
      if (first.bound == Nanos::Max() || second.bound == Nanos::Max() || fit.bound == Nanos::Max()) continue;
      const HostTime on_second(fit.origin.ns() + std::llround(fit.line.offset_ns));
      const double indirect_lead = LeadAt(second, on_second) - LeadAt(first, fit.origin);
      HostClock& looser = first.bound > second.bound ? first : second;
      Widen(looser, std::fabs(indirect_lead - fit.line.offset_ns),
            Sum(Sum(first.bound, second.bound), fit.bound));
    }
  }

  // If every clock but the reference's seems to have been set, the reference's clock was.
  void MarkReferenceStepped() {
    const auto noticed =
        std::count_if(clocks_.begin(), clocks_.end(), [](const HostClock& c) { return c.step_noticed; });
    if (clocks_.size() < 3 || noticed + 1 < static_cast<std::ptrdiff_t>(clocks_.size()) ||
        clocks_[reference_].step_noticed)
      return;
    for (HostClock& c : clocks_) c.step_noticed = false;
    clocks_[reference_].step_noticed = true;
  }

  // The pair over which a clock was derived may show only a part of the step by which the clock was set. The
  // bound covers the largest part that any pair shows.
  void WidenByPairs() {
    for (const Pair& pair : pairs_) {
      if (!pair.found.fit.stepped || pair.found.fit.bound == Nanos::Max()) continue;
      for (const uint32_t h : {pair.hosts.first, pair.hosts.second}) {
        if (clocks_[h].step_noticed) clocks_[h].bound = std::max(clocks_[h].bound, pair.found.fit.bound);
      }
    }
  }

  void WidenBySteps() {
    for (const capture::RankData& rank : capture_.ranks) {
      if (rank.host >= clocks_.size() || clocks_[rank.host].step_noticed) continue;
      const Nanos stepped = SteppedBy(rank);
      if (stepped == Nanos()) continue;
      clocks_[rank.host].step_noticed = true;
      clocks_[rank.host].bound = Sum(clocks_[rank.host].bound, stepped);
    }
  }

  // Limits between clocks that ran straight hold at the window's ends too. A chain of limits over several
  // pairs bounds a host's lead at both ends. This bound is often tighter than that of the estimate, which
  // adds up the bounds of its pairs.
  void TightenByChains() {
    const auto origin = static_cast<uint32_t>(clocks_.size());  // the job's clock
    HostTime begin = HostTime::Max(), end = HostTime::Min();
    for (size_t h = 0; h < clocks_.size(); ++h) {
      if (clocks_[h].bound == Nanos::Max() || windows_[h].end <= windows_[h].start) continue;
      begin = std::min(begin, OnJob(clocks_[h], windows_[h].start));
      end = std::max(end, OnJob(clocks_[h], windows_[h].end));
    }
    if (begin >= end) return;
    const auto at_begin = ChainRanges(origin + 1, origin, RangesAt(begin, origin));
    const auto at_end = ChainRanges(origin + 1, origin, RangesAt(end, origin));
    if (!at_begin || !at_end) return;
    for (size_t h = 0; h < clocks_.size(); ++h) {
      if (!clocks_[h].step_noticed) Narrow(clocks_[h], begin, (*at_begin)[h], end, (*at_end)[h]);
    }
  }

  static HostTime OnJob(const HostClock& clock, HostTime t) {
    return HostTime(t.ns() - clock.offset.ns() -
                    static_cast<int64_t>(clock.drift * static_cast<double>((t - clock.anchor).ns())));
  }

  static double LeadAtJob(const HostClock& clock, HostTime job) { return LeadAt(clock, job + clock.offset); }

  std::vector<LeadRange> RangesAt(HostTime moment, uint32_t origin) const {
    std::vector<LeadRange> ranges;
    for (uint32_t h = 0; h < clocks_.size(); ++h) {
      if (from_network_[h].bound == Nanos::Max() || from_network_[h].step_noticed) continue;
      const double lead = LeadAtJob(from_network_[h], moment),
                   bound = static_cast<double>(from_network_[h].bound.ns());
      ranges.push_back({origin, h, lead - bound, lead + bound});
    }
    for (const Pair& pair : pairs_) {
      const HostClock& first = clocks_[pair.hosts.first];
      if (pair.found.fit.contradicted || pair.found.fit.stepped || first.step_noticed ||
          clocks_[pair.hosts.second].step_noticed)
        continue;
      const HostTime on_first(moment.ns() + std::llround(LeadAtJob(first, moment)));
      const OffsetRegion::Range range = pair.found.region.At(on_first);
      // The error of placing the moment on that clock is negligible beside this margin.
      const double width = range.high_ns - range.low_ns;
      const double margin = kMarginNs + (std::isfinite(width) ? kMarginShare * width : 0);
      ranges.push_back({pair.hosts.first, pair.hosts.second, range.low_ns - margin, range.high_ns + margin});
    }
    return ranges;
  }

  static void Narrow(HostClock& clock, HostTime begin, const NodeRange& at_begin, HostTime end,
                     const NodeRange& at_end) {
    const double from =
        std::clamp(LeadAtJob(clock, begin), at_begin.low_ns, std::max(at_begin.low_ns, at_begin.high_ns));
    const double to =
        std::clamp(LeadAtJob(clock, end), at_end.low_ns, std::max(at_end.low_ns, at_end.high_ns));
    const double worst =
        std::max({at_begin.high_ns - from, from - at_begin.low_ns, at_end.high_ns - to, to - at_end.low_ns});
    if (!(worst + kMarginNs < static_cast<double>(clock.bound.ns()))) return;
    clock.drift = (to - from) / (static_cast<double>((end - begin).ns()) + to - from);
    clock.offset = Nanos(std::llround(from));
    clock.anchor = HostTime(begin.ns() + clock.offset.ns());
    clock.bound = Nanos(static_cast<int64_t>(std::ceil(worst + kMarginNs)));
  }

  const capture::Capture& capture_;
  std::vector<HostInterval> windows_;
  std::vector<HostClock> clocks_;
  std::vector<HostClock> from_network_;  // from exchanges alone, and the reference's clock
  uint32_t reference_ = kNone;
  PairEvidence evidence_;
  std::vector<Pair> pairs_;                      // by hosts
  std::vector<std::vector<uint32_t>> pairs_of_;  // by host
};

}  // namespace

Nanos ClockModel::bound() const {
  if (hosts_.size() < 2) return Nanos();
  Nanos first, second;
  for (const HostClock& h : hosts_) {
    if (h.bound > first) {
      second = first;
      first = h.bound;
    } else {
      second = std::max(second, h.bound);
    }
  }
  return Sum(first, second);
}

ClockModel EstimateClocks(const capture::Capture& capture, const Matches& matches) {
  if (capture.hosts.size() <= 1) {
    std::vector<HostClock> one(capture.hosts.size());
    for (HostClock& h : one) h.bound = Nanos();
    return ClockModel(std::move(one));
  }
  return ClockModel(Estimator(capture, matches).Run());
}

}  // namespace lockstep::capture
