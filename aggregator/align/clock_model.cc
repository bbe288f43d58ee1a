#include "aggregator/align/clock_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <set>

#include "aggregator/align/collective_clock.h"
#include "aggregator/align/network_clock.h"

namespace lockstep::align {
namespace {

using store::kNone;

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
    evidence_ = CollectEvidence(capture, matches, reference_);
  }

  std::vector<HostClock> Run() {
    std::vector<std::vector<uint32_t>> neighbours(clocks_.size());
    for (const auto& [pair, unused] : evidence_) {
      neighbours[pair.first].push_back(pair.second);
      neighbours[pair.second].push_back(pair.first);
    }
    for (auto& n : neighbours) std::sort(n.begin(), n.end());
    std::vector<uint8_t> seen(clocks_.size(), 0);
    std::deque<uint32_t> queue = {reference_};
    seen[reference_] = 1;
    while (!queue.empty()) {
      const uint32_t from = queue.front();
      queue.pop_front();
      for (uint32_t to : neighbours[from]) {
        if (seen[to]) continue;
        seen[to] = 1;
        reached_over_.insert({std::min(from, to), std::max(from, to)});
        Refine(from, to);
        queue.push_back(to);
      }
    }
    CheckCycles();
    WidenBySteps();
    BlameReference();
    return std::move(clocks_);
  }

 private:
  // Without exchanges one host's clock is the job's: the one whose rank arrives last most often, since its short stays
  // limit the others' clocks most tightly.
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

  double LeadAt(const HostClock& clock, HostTime t) const {
    return static_cast<double>(clock.offset.ns()) + clock.drift * static_cast<double>((t - clock.anchor).ns());
  }

  // Gives `to` the clock that its collectives with `from` imply, when that is surer than what is known of it.
  void Refine(uint32_t from, uint32_t to) {
    const auto it = evidence_.find({std::min(from, to), std::max(from, to)});
    const uint32_t first = it->first.first;
    const ClockFit fit = FitPair(it->second, windows_[first]);
    const Nanos bound = Sum(clocks_[from].bound, fit.bound);
    if (fit.bound == Nanos::Max() || bound >= clocks_[to].bound) return;
    const double sign = first == from ? 1.0 : -1.0;
    const HostClock& base = clocks_[from];
    const double lead = LeadAt(base, fit.origin) + sign * fit.line.offset_ns;
    HostClock refined;
    refined.drift = base.drift + sign * fit.line.drift;
    refined.offset = Nanos(std::llround(lead));
    // The line was read on the first host's clock; the anchor is the same moment on the second's.
    refined.anchor = first == from ? HostTime(fit.origin.ns() + std::llround(fit.line.offset_ns)) : fit.origin;
    if (first == to) {
      // LeadAt(base) must be taken on base's own clock.
      const HostTime on_base(fit.origin.ns() + std::llround(fit.line.offset_ns));
      refined.offset = Nanos(std::llround(LeadAt(base, on_base) - fit.line.offset_ns));
    }
    refined.bound = bound;
    refined.method = clocks_[to].method == ClockMethod::kNetwork || clocks_[from].method == ClockMethod::kNetwork ||
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

  // A clock that is further from another estimate of it than both may be off is not as sure as it seemed: it was set in between.
  static void Widen(HostClock& clock, double apart_ns, Nanos allowed) {
    if (apart_ns <= static_cast<double>(allowed.ns())) return;
    clock.bound = Sum(clock.bound, Nanos(std::llround(apart_ns)) - allowed);
    clock.step_noticed = true;
  }

  // Hosts that meet without having been reached over each other close a cycle, around which all leads must sum to nothing.
  void CheckCycles() {
    std::vector<HostPair> pairs;
    for (const auto& [pair, unused] : evidence_) {
      if (!reached_over_.contains(pair)) pairs.push_back(pair);
    }
    std::sort(pairs.begin(), pairs.end());
    for (const HostPair& pair : pairs) {
      HostClock& first = clocks_[pair.first];
      HostClock& second = clocks_[pair.second];
      if (first.bound == Nanos::Max() || second.bound == Nanos::Max()) continue;
      const ClockFit fit = FitPair(evidence_.find(pair)->second, windows_[pair.first]);
      if (fit.bound == Nanos::Max()) continue;
      const HostTime on_second(fit.origin.ns() + std::llround(fit.line.offset_ns));
      const double said = LeadAt(second, on_second) - LeadAt(first, fit.origin);
      HostClock& looser = first.bound > second.bound ? first : second;
      Widen(looser, std::fabs(said - fit.line.offset_ns), Sum(Sum(first.bound, second.bound), fit.bound));
    }
  }

  // When every other clock seems to have been set, it was the reference's.
  void BlameReference() {
    const auto noticed = std::count_if(clocks_.begin(), clocks_.end(), [](const HostClock& c) { return c.step_noticed; });
    if (clocks_.size() < 3 || noticed + 1 < static_cast<std::ptrdiff_t>(clocks_.size()) || clocks_[reference_].step_noticed) return;
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

  const store::Capture& capture_;
  std::vector<HostInterval> windows_;
  std::vector<HostClock> clocks_;
  uint32_t reference_ = kNone;
  PairEvidence evidence_;
  std::set<HostPair> reached_over_;  // pairs that one of the two clocks comes from
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
