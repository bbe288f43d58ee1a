// StepsFromPeriod(): training steps of a capture in which nothing marks them.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "analysis/prepare/stats.h"
#include "analysis/prepare/step_marks.h"
#include "base/split_mix.h"

namespace lockstep::analysis {
namespace {

// A token that comes at intervals of one length, give or take this part of it, most of the time. Lost records
// leave holes: whole multiples of it.
constexpr double kJitter = 0.25;
constexpr double kMostly = 0.75;
constexpr int kLargestHole = 3;
constexpr size_t kLeastTimes = 3;
// Intervals this near to each other are one period.
constexpr double kSamePeriod = 0.06;
// Every rank must have so many different kernels or copies of that period, ...
constexpr size_t kLeastTokens = 2;
// ... and of the different ones it runs not more than this part may come less often: a period within the step
// (a microbatch) leaves out what is done once per step.
constexpr double kMostRarer = 0.1;
// Places within a period are compared in this many parts of it; ranks lag behind each other by up to so many
// of them.
constexpr size_t kPhases = 50;
constexpr size_t kLag = 8;

// One launch of a rank, in the order of launching.
struct Launch {
  HostTime issued;
  Nanos gap;  // nothing was launched, or ran, for so long before
  uint64_t token = 0;
  NameId name;
};

uint64_t TokenOf(const store::RankData& rank, const store::DeviceActivity& a) {
  uint64_t token = HashCombine(static_cast<uint64_t>(a.kind), a.name.value());
  if (a.kind == store::ActivityKind::kKernel && a.detail < rank.kernel_details.size()) {
    const store::KernelDetail& d = rank.kernel_details[a.detail];
    for (int i = 0; i < 3; ++i) token = HashCombine(token, (uint64_t{d.grid[i]} << 16) | d.block[i]);
  } else if (a.kind != store::ActivityKind::kKernel && a.detail < rank.copy_details.size()) {
    token = HashCombine(HashCombine(token, rank.copy_details[a.detail].bytes),
                        rank.copy_details[a.detail].copy_kind);
  }
  return token;
}

std::vector<Launch> LaunchesOf(const store::RankData& rank, const CallIndex& calls) {
  struct Row {
    Launch launch;
    HostTime busy_until;
  };
  std::vector<Row> rows;
  rows.reserve(rank.activities.size());
  for (const store::DeviceActivity& a : rank.activities) {
    const uint32_t call = calls.Of(a.correlation);
    rows.push_back({{Issued(rank, calls, a), Nanos(), TokenOf(rank, a), a.name},
                    call == store::kNone ? a.end : rank.api_calls[call].end});
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& x, const Row& y) { return x.launch.issued < y.launch.issued; });
  std::vector<Launch> out;
  HostTime busy = rows.empty() ? HostTime() : rows.front().launch.issued;
  for (Row& row : rows) {
    row.launch.gap = std::max(Nanos(), row.launch.issued - busy);
    busy = std::max(busy, row.busy_until);
    out.push_back(row.launch);
  }
  return out;
}

// Something that a rank launches again and again.
struct Recurring {
  uint64_t token = 0;
  std::vector<uint32_t> places;  // in the launches
  double interval_ns = 0;        // usual; 0: none is
};

std::vector<Recurring> RecurringOf(const std::vector<Launch>& launches) {
  std::map<uint64_t, std::vector<uint32_t>> by_token;
  for (uint32_t i = 0; i < launches.size(); ++i) by_token[launches[i].token].push_back(i);
  std::vector<Recurring> out;
  for (auto& [token, places] : by_token) {
    if (places.size() < kLeastTimes) continue;
    std::vector<double> intervals;
    for (size_t i = 1; i < places.size(); ++i)
      intervals.push_back(
          static_cast<double>((launches[places[i]].issued - launches[places[i - 1]].issued).ns()));
    const double usual = Median(intervals);
    const auto fits = [&](double x) {
      const double times = std::max(1.0, std::round(x / usual));
      return times <= kLargestHole && std::fabs(x - times * usual) <= kJitter * usual;
    };
    const auto regular = usual > 0 ? std::count_if(intervals.begin(), intervals.end(), fits) : 0;
    const bool is = static_cast<double>(regular) >= kMostly * static_cast<double>(intervals.size());
    out.push_back({token, std::move(places), is ? usual : 0});
  }
  return out;
}

struct RankView {
  uint32_t rank_index = 0;
  std::vector<Launch> launches;
  std::vector<Recurring> recurring;
};

bool SamePeriod(double a, double b) { return std::fabs(a - b) <= kSamePeriod * b; }

// Rarer than once per period, beyond what lost records explain.
bool Rarer(const RankView& view, const Recurring& r, double period) {
  const auto window = static_cast<double>((view.launches.back().issued - view.launches.front().issued).ns());
  return static_cast<double>(r.places.size()) < 0.8 * (window / period - 1);
}

// The period that fits all ranks; 0: none does.
double PeriodOf(const std::vector<RankView>& views) {
  std::vector<double> candidates;
  for (const Recurring& r : views.front().recurring) {
    if (r.interval_ns > 0) candidates.push_back(r.interval_ns);
  }
  std::sort(candidates.begin(), candidates.end());
  double before = 0;
  for (const double period : candidates) {
    if (before > 0 && SamePeriod(period, before)) continue;
    before = period;
    size_t rarer = 0, all = 0;
    const bool fits = std::all_of(views.begin(), views.end(), [&](const RankView& view) {
      size_t tokens = 0;
      for (const Recurring& r : view.recurring) {
        ++all;
        tokens += SamePeriod(r.interval_ns, period) ? 1 : 0;
        rarer += Rarer(view, r, period) ? 1 : 0;
      }
      return tokens >= kLeastTokens;
    });
    if (fits && static_cast<double>(rarer) <= kMostRarer * static_cast<double>(all)) return period;
  }
  return 0;
}

// What comes once per period on a rank and most regularly: its places divide the launches.
const Recurring& MarkerOf(const RankView& view, double period) {
  const Recurring* best = nullptr;
  for (const Recurring& r : view.recurring) {
    if (!SamePeriod(r.interval_ns, period)) continue;
    if (best == nullptr || r.places.size() > best->places.size()) best = &r;
  }
  return *best;
}

// A launch by where it comes in every period: the how-manieth of its token after the marker.
struct InPeriod {
  std::vector<uint32_t> places;  // of the launch in each period, or kNone
  Nanos gap;                     // median before it
  Nanos after_marker;            // median
};

std::vector<InPeriod> DividePeriods(const RankView& view, const Recurring& marker) {
  const size_t periods = marker.places.size();
  std::map<std::pair<uint64_t, uint32_t>, std::vector<uint32_t>> by_id;
  for (size_t k = 0; k < periods; ++k) {
    std::map<uint64_t, uint32_t> seen;
    const auto end = k + 1 < periods ? marker.places[k + 1] : static_cast<uint32_t>(view.launches.size());
    for (uint32_t i = marker.places[k]; i < end; ++i) {
      const uint64_t token = view.launches[i].token;
      auto& places = by_id[{token, seen[token]++}];
      places.resize(periods, store::kNone);
      places[k] = i;
    }
  }
  std::vector<InPeriod> out;
  for (auto& [id, places] : by_id) {
    std::vector<int64_t> gaps, after;
    for (size_t k = 0; k < periods; ++k) {
      if (places[k] == store::kNone) continue;
      gaps.push_back(view.launches[places[k]].gap.ns());
      after.push_back((view.launches[places[k]].issued - view.launches[marker.places[k]].issued).ns());
    }
    if (static_cast<double>(gaps.size()) < kMostly * static_cast<double>(periods)) continue;
    out.push_back(
        {std::move(places), Nanos(MedianInPlace(std::span(gaps))), Nanos(MedianInPlace(std::span(after)))});
  }
  std::sort(out.begin(), out.end(),
            [](const InPeriod& x, const InPeriod& y) { return x.after_marker < y.after_marker; });
  return out;
}

class Finder {
 public:
  Finder(const store::Capture& capture, const align::ClockModel& clock, std::vector<RankView> views,
         double period)
      : capture_(capture), clock_(clock), views_(std::move(views)), period_(period) {}

  MarkedSteps Run() {
    for (const RankView& view : views_) markers_.push_back(&MarkerOf(view, period_));
    for (size_t v = 0; v < views_.size(); ++v) {
      divided_.push_back(DividePeriods(views_[v], *markers_[v]));
      FindLead(v);
    }
    const size_t phase = CommonPhase();
    MarkedSteps out;
    out.of_rank.resize(capture_.ranks.size());
    for (size_t v = 0; v < views_.size(); ++v) {
      const InPeriod& cut = CutOf(v, phase);
      out.of_rank[views_[v].rank_index] = MarksAt(v, cut);
      if (v == 0) out.how = Words(cut, out.of_rank[views_[v].rank_index].size() - 1);
    }
    return out;
  }

 private:
  JobTime JobOf(size_t v, HostTime t) const {
    return clock_.ToJob(capture_.ranks[views_[v].rank_index].host, t);
  }

  // How much later in the period than on the first rank a rank's marker comes, 0..1.
  void FindLead(size_t v) {
    std::vector<double> leads;
    for (uint32_t p : markers_[v]->places) {
      const JobTime at = JobOf(v, views_[v].launches[p].issued);
      const auto& reference = markers_[0]->places;
      const auto after = std::upper_bound(reference.begin(), reference.end(), at, [&](JobTime t, uint32_t r) {
        return t < JobOf(0, views_[0].launches[r].issued);
      });
      if (after == reference.begin() || after == reference.end()) continue;
      const JobTime from = JobOf(0, views_[0].launches[*(after - 1)].issued),
                    to = JobOf(0, views_[0].launches[*after].issued);
      leads.push_back(static_cast<double>((at - from).ns()) /
                      std::max(1.0, static_cast<double>((to - from).ns())));
    }
    lead_.push_back(Median(std::move(leads)));
  }

  size_t PhaseOf(size_t v, const InPeriod& p) const {
    const double phase = lead_[v] + static_cast<double>(p.after_marker.ns()) / period_;
    return static_cast<size_t>((phase - std::floor(phase)) * kPhases) % kPhases;
  }

  // The part of the period before which all ranks together launch nothing for longest.
  size_t CommonPhase() const {
    std::array<double, kPhases> score{};
    for (size_t v = 0; v < views_.size(); ++v) {
      std::array<double, kPhases> gap{};
      double most = 1;
      for (const InPeriod& p : divided_[v]) {
        double& g = gap[PhaseOf(v, p)];
        g = std::max(g, static_cast<double>(p.gap.ns()));
        most = std::max(most, g);
      }
      for (size_t i = 0; i < kPhases; ++i) {
        double near = 0;
        for (size_t k = 0; k <= 2 * kLag; ++k) near = std::max(near, gap[(i + kPhases - kLag + k) % kPhases]);
        score[i] += near / most;
      }
    }
    return static_cast<size_t>(std::max_element(score.begin(), score.end()) - score.begin());
  }

  // Of the launches near that phase the one after the longest gap; where there is none near, the next one.
  const InPeriod& CutOf(size_t v, size_t phase) const {
    const InPeriod* best = nullptr;
    const InPeriod* next = nullptr;
    size_t next_away = kPhases;
    for (const InPeriod& p : divided_[v]) {
      const size_t away = (PhaseOf(v, p) + kPhases - phase) % kPhases;
      if ((away <= kLag || away >= kPhases - kLag) && (best == nullptr || p.gap > best->gap)) best = &p;
      if (away < next_away) {
        next_away = away;
        next = &p;
      }
    }
    return best != nullptr ? *best : *next;
  }

  std::vector<StepMark> MarksAt(size_t v, const InPeriod& cut) const {
    const RankView& view = views_[v];
    std::vector<HostTime> begins;
    for (size_t k = 0; k < cut.places.size(); ++k) {
      // A lost record: where it usually comes.
      const HostTime usual = view.launches[markers_[v]->places[k]].issued + cut.after_marker;
      begins.push_back(cut.places[k] == store::kNone ? usual : view.launches[cut.places[k]].issued);
    }
    std::vector<StepMark> marks;
    for (size_t k = 0; k < begins.size(); ++k) {
      const bool last = k + 1 == begins.size();
      const HostTime end = last ? view.launches.back().issued + Nanos(1) : begins[k + 1];
      if (end <= begins[k]) continue;
      marks.push_back({.host = {begins[k], end}, .number = std::nullopt, .whole = !last});
    }
    return marks;
  }

  std::string Words(const InPeriod& cut, size_t steps) const {
    std::string_view name;
    for (uint32_t p : cut.places) {
      if (p != store::kNone) name = capture_.Text(views_[0].launches[p].name);
    }
    name = name.substr(0, name.find_first_of("(<"));
    return absl::StrFormat(
        "nothing marks the steps: %d of %.4g ms were found from what every rank launches periodically; each "
        "begins at %s, after the longest "
        "gap that recurs (%.3g ms)",
        steps, period_ * 1e-6, name.empty() ? "a launch" : std::string(name), cut.gap.millis());
  }

  const store::Capture& capture_;
  const align::ClockModel& clock_;
  std::vector<RankView> views_;
  double period_;
  std::vector<const Recurring*> markers_;
  std::vector<std::vector<InPeriod>> divided_;
  std::vector<double> lead_;
};

}  // namespace

std::optional<MarkedSteps> StepsFromPeriod(const store::Capture& capture, const align::ClockModel& clock,
                                           const std::vector<CallIndex>& calls) {
  std::vector<RankView> views;
  for (uint32_t r = 0; r < capture.ranks.size(); ++r) {
    if (capture.ranks[r].activities.empty()) continue;
    RankView view{r, LaunchesOf(capture.ranks[r], calls[r]), {}};
    view.recurring = RecurringOf(view.launches);
    views.push_back(std::move(view));
  }
  if (views.empty()) return std::nullopt;
  const double period = PeriodOf(views);
  if (period <= 0) return std::nullopt;
  return Finder(capture, clock, std::move(views), period).Run();
}

}  // namespace lockstep::analysis
