#include "capture/align/clock_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>

#include "capture/align/clock_paths.h"
#include "capture/align/collective_clock.h"
#include "capture/align/network_clock.h"

namespace lockstep::align {
namespace {

using store::kNone;

// Every pair in between adds at least this much.
constexpr double kHopNs = 100;
// Rounding, and the moment at which a range is read.
constexpr double kMarginNs = 5, kMarginShare = 1e-3;

Nanos Sum(Nanos a, Nanos b) { return a == Nanos::Max() || b == Nanos::Max() ? Nanos::Max() : a + b; }

// The stretch of each host's clock on which anything was recorded.
std::vector<HostInterval> Windows(const store::Capture& capture) {
  std::vector<HostInterval> windows(capture.hosts.size(), {HostTime::Max(), HostTime::Min()});
  const auto include = [&](HostInterval& w, HostTime from, HostTime to) {
    w.start = std::min(w.start, from);
    w.end = std::max(w.end, to);
  };
  for (const store::RankData& r : capture.ranks) {
    if (r.host >= windows.size()) continue;
    if (r.window.end > r.window.start) include(windows[r.host], r.window.start, r.window.end);
    if (!r.activities.empty()) include(windows[r.host], r.activities.front().start, r.activities.back().end);
  }
  for (HostInterval& w : windows) {
    if (w.start > w.end) w = {};
  }
  return windows;
}

// CLOCK_REALTIME of a host was set while it was recorded, going by the clock readings of its ranks.
Nanos SteppedBy(const store::RankData& rank) {
  Nanos stepped;
  for (size_t i = 1; i < rank.clocks.size(); ++i) {
    const store::ClockReading& a = rank.clocks[i - 1];
    const store::ClockReading& b = rank.clocks[i];
    const Nanos mono(std::llabs((b.monotonic - a.monotonic).ns()));
    const Nanos parted(std::llabs(((b.realtime - a.realtime) - (b.monotonic - a.monotonic)).ns()));
    const Nanos allowed = a.gap + b.gap + Nanos::Micros(200) + Nanos(mono.ns() / 1000);
    if (parted > allowed) stepped += parted;
  }
  return stepped;
}

class Estimator {
 public:
  Estimator(const store::Capture& capture, const Matches& matches)
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
    WidenBySteps();
    BlameReference();
    TightenByChains();
    return std::move(clocks_);
  }

 private:
  // Without exchanges one host's clock is the job's: the one whose rank arrives last most often, since its
  // short stays limit the others' clocks most tightly.
  uint32_t ReferenceFor(const Matches& matches) const {
    std::vector<uint64_t> last(capture_.hosts.size());
    for (const Instance& instance : matches.instances) {
      Nanos shortest = Nanos::Max();
      uint32_t host = kNone;
      for (const Member& m : instance.members) {
        const store::RankData& rank = capture_.ranks[m.rank_index];
        const store::DeviceActivity& a = rank.activities[rank.collectives[m.collective].activity];
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
    bool limits_only = false;   // too few meetings to show that a clock was set in between
    bool reached_over = false;  // one of the two clocks comes from it
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

  // From the reference outward, over those pairs first whose leads are known best.
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
        // Without a bound nothing is known; where no end tells the lead, the bound does.
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

  // Gives `to` the clock that its collectives with `from` imply, when that is surer than what is known of it.
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
    // The line was read on the first host's clock; the anchor is the same moment on the second's.
    refined.anchor =
        first == from ? HostTime(fit.origin.ns() + std::llround(fit.line.offset_ns)) : fit.origin;
    if (first == to) {
      // LeadAt(base) must be taken on base's own clock.
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
      // Two ways to the same clock must agree within what each may be off.
      const double apart = std::fabs(LeadAt(refined, refined.anchor) - LeadAt(clocks_[to], refined.anchor));
      Widen(refined, apart, refined.bound + clocks_[to].bound);
    }
    clocks_[to] = refined;
  }

  // A clock that is further from another estimate of it than both may be off is not as sure as it seemed: it
  // was set in between.
  static void Widen(HostClock& clock, double apart_ns, Nanos allowed) {
    if (apart_ns <= static_cast<double>(allowed.ns())) return;
    clock.bound = Sum(clock.bound, Nanos(std::llround(apart_ns)) - allowed);
    clock.step_noticed = true;
  }

  // Hosts that meet without having been reached over each other close a cycle, around which all leads must
  // sum to nothing.
  void CheckCycles() {
    for (const Pair& pair : pairs_) {
      if (pair.reached_over || pair.limits_only) continue;
      HostClock& first = clocks_[pair.hosts.first];
      HostClock& second = clocks_[pair.hosts.second];
      const ClockFit& fit = pair.found.fit;
      if (first.bound == Nanos::Max() || second.bound == Nanos::Max() || fit.bound == Nanos::Max()) continue;
      const HostTime on_second(fit.origin.ns() + std::llround(fit.line.offset_ns));
      const double said = LeadAt(second, on_second) - LeadAt(first, fit.origin);
      HostClock& looser = first.bound > second.bound ? first : second;
      Widen(looser, std::fabs(said - fit.line.offset_ns), Sum(Sum(first.bound, second.bound), fit.bound));
    }
  }

  // When every other clock seems to have been set, it was the reference's.
  void BlameReference() {
    const auto noticed =
        std::count_if(clocks_.begin(), clocks_.end(), [](const HostClock& c) { return c.step_noticed; });
    if (clocks_.size() < 3 || noticed + 1 < static_cast<std::ptrdiff_t>(clocks_.size()) ||
        clocks_[reference_].step_noticed)
      return;
    for (HostClock& c : clocks_) c.step_noticed = false;
    clocks_[reference_].step_noticed = true;
  }

  void WidenBySteps() {
    for (const store::RankData& rank : capture_.ranks) {
      if (rank.host >= clocks_.size() || clocks_[rank.host].step_noticed) continue;
      const Nanos stepped = SteppedBy(rank);
      if (stepped == Nanos()) continue;
      clocks_[rank.host].step_noticed = true;
      clocks_[rank.host].bound = Sum(clocks_[rank.host].bound, stepped);
    }
  }

  // Limits between clocks that ran straight hold at the window's ends too, and several pairs' limits in a row
  // limit the hosts at their ends: often more tightly than the pairs that the estimates came from, whose
  // bounds add up.
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
      // How wrongly the moment may be placed on that clock is nothing beside this.
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

  const store::Capture& capture_;
  std::vector<HostInterval> windows_;
  std::vector<HostClock> clocks_;
  std::vector<HostClock> from_network_;  // and the reference's
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

ClockModel EstimateClocks(const store::Capture& capture, const Matches& matches) {
  if (capture.hosts.size() <= 1) {
    std::vector<HostClock> one(capture.hosts.size());
    for (HostClock& h : one) h.bound = Nanos();
    return ClockModel(std::move(one));
  }
  return ClockModel(Estimator(capture, matches).Run());
}

}  // namespace lockstep::align
