// StepsFromPeriod(): finds the training steps of a capture without marks.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "analysis/prepare/stats.h"
#include "analysis/prepare/step_marks.h"
#include "base/sequence_period.h"
#include "base/split_mix.h"

namespace lockstep::analysis {
namespace {

// A signature is regular if most of its intervals have one length, to within this share. Lost records leave
// holes, which are whole multiples of it.
constexpr double kJitter = 0.25;
constexpr double kMostIntervals = 0.75;
constexpr int kLargestHole = 3;
constexpr size_t kLeastRecurrences = 3;
// Intervals that differ by at most this share are one period.
constexpr double kSamePeriod = 0.06;
// Every rank must have at least this many different kernels or copies of that period. One is enough if a rank
// has communication only, which is described better and of which a step has little.
constexpr size_t kLeastSignatures = 2;
constexpr size_t kLeastCollectives = 1;
// At most this share of the recurring kernels and copies may come less often. The period of a microbatch
// fails this rule, because some work is done only once per step.
constexpr double kMostRarer = 0.1;
// A period is divided into this many parts to compare positions. Ranks may lag behind each other by up to
// kLag of these parts.
constexpr size_t kPhases = 50;
constexpr size_t kLag = 8;

// One launch of a rank, in the order of launching.
struct Launch {
  HostTime issued;
  Nanos gap;  // time before it in which nothing was launched or ran
  uint64_t signature = 0;
  NameId name;
  // Of a collective that NCCL numbers: its group, and an id that is equal for its members on all ranks.
  uint32_t group = capture::kNone;
  uint64_t collective = 0;
};

// Kernels of collectives have few names. Communicator and size distinguish them. An unequal all-to-all has
// another size each time, and the messages of two peers may change places.
uint64_t SignatureOfCollective(const capture::Collective& c) {
  using capture::CollectiveOp;
  const bool message =
      c.op == CollectiveOp::kSend || c.op == CollectiveOp::kReceive || c.op == CollectiveOp::kSendReceive;
  const bool all_to_all = c.op == CollectiveOp::kAllToAll || c.op == CollectiveOp::kAllToAllV;
  if (message) return HashCombine(static_cast<uint64_t>(CollectiveOp::kSendReceive), 0);
  const uint64_t signature = HashCombine(static_cast<uint64_t>(c.op), c.group);
  return HashCombine(signature, all_to_all ? 0 : static_cast<uint64_t>(c.bytes));
}

uint64_t SignatureOf(const capture::RankData& rank, const capture::DeviceActivity& a,
                     bool only_communication) {
  if (only_communication && a.collective != capture::kNone)
    return SignatureOfCollective(rank.collectives[a.collective]);
  uint64_t signature = HashCombine(static_cast<uint64_t>(a.kind), a.name.value());
  if (a.kind == capture::ActivityKind::kKernel && a.detail < rank.kernel_details.size()) {
    const capture::KernelDetail& d = rank.kernel_details[a.detail];
    for (int i = 0; i < 3; ++i) signature = HashCombine(signature, (uint64_t{d.grid[i]} << 16) | d.block[i]);
  } else if (a.kind != capture::ActivityKind::kKernel && a.detail < rank.copy_details.size()) {
    signature = HashCombine(HashCombine(signature, rank.copy_details[a.detail].bytes),
                            rank.copy_details[a.detail].copy_kind);
  }
  return signature;
}

// Returns what the members of one collective have in common.
uint64_t IdOf(const capture::Collective& c) {
  using capture::MatchSource;
  const bool per_operation = c.source == MatchSource::kNcclSequence;
  const bool numbered = per_operation || c.source == MatchSource::kGroupSequence;
  if (!numbered || c.group == capture::kNone || c.sequence < 0) return 0;
  return HashCombine(HashCombine(per_operation ? static_cast<uint64_t>(c.op) + 1 : 0, c.group),
                     static_cast<uint64_t>(c.sequence));
}

// A step may have many equal collectives at irregular times. Their places in the period of the whole sequence
// distinguish them.
void DistinguishPlaces(std::vector<Launch>& launches) {
  std::vector<uint64_t> symbols;
  std::vector<Nanos> gaps;
  for (const Launch& launch : launches) {
    symbols.push_back(launch.signature);
    gaps.push_back(launch.gap);
  }
  const size_t period = SequencePeriod(symbols, gaps);
  for (size_t i = 0; period > 0 && i < launches.size(); ++i)
    launches[i].signature = HashCombine(launches[i].signature, i % period);
}

std::vector<Launch> LaunchesOf(const capture::RankData& rank, const CallIndex& calls,
                               bool only_communication) {
  struct Row {
    Launch launch;
    HostTime busy_until;
  };
  std::vector<Row> rows;
  rows.reserve(rank.activities.size());
  const std::vector<HostTime> issued = LaunchTimes(rank, calls);
  for (size_t i = 0; i < rank.activities.size(); ++i) {
    const capture::DeviceActivity& a = rank.activities[i];
    const uint32_t call = calls.Of(a.correlation);
    const bool member = only_communication && a.collective != capture::kNone;
    rows.push_back({{issued[i], Nanos(), SignatureOf(rank, a, only_communication), a.name,
                     member ? rank.collectives[a.collective].group : capture::kNone,
                     member ? IdOf(rank.collectives[a.collective]) : 0},
                    call == capture::kNone ? a.end : rank.api_calls[call].end});
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
  if (only_communication) DistinguishPlaces(out);
  return out;
}

// A signature that a rank launches repeatedly.
struct Recurring {
  uint64_t signature = 0;
  std::vector<uint32_t> places;  // indices into the launches
  double interval_ns = 0;        // usual interval; 0: irregular
};

std::vector<Recurring> RecurringOf(const std::vector<Launch>& launches) {
  std::map<uint64_t, std::vector<uint32_t>> by_signature;
  for (uint32_t i = 0; i < launches.size(); ++i) by_signature[launches[i].signature].push_back(i);
  std::vector<Recurring> out;
  for (auto& [signature, places] : by_signature) {
    if (places.size() < kLeastRecurrences) continue;
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
    const bool is = static_cast<double>(regular) >= kMostIntervals * static_cast<double>(intervals.size());
    out.push_back({signature, std::move(places), is ? usual : 0});
  }
  return out;
}

struct RankView {
  uint32_t rank_index = 0;
  bool only_communication = false;
  std::vector<Launch> launches;
  std::vector<Recurring> recurring;
};

bool SamePeriod(double a, double b) { return std::fabs(a - b) <= kSamePeriod * b; }

// True if the signature comes less than once per period, beyond the effect of lost records.
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
      size_t signatures = 0;
      for (const Recurring& r : view.recurring) {
        ++all;
        signatures += SamePeriod(r.interval_ns, period) ? 1 : 0;
        rarer += Rarer(view, r, period) ? 1 : 0;
      }
      return signatures >= (view.only_communication ? kLeastCollectives : kLeastSignatures);
    });
    if (fits && static_cast<double>(rarer) <= kMostRarer * static_cast<double>(all)) return period;
  }
  return 0;
}

// The most frequent of a rank's signatures that come once per period. Its places divide the launches into
// periods.
const Recurring& MarkerOf(const RankView& view, double period) {
  const Recurring* best = nullptr;
  for (const Recurring& r : view.recurring) {
    if (!SamePeriod(r.interval_ns, period)) continue;
    if (best == nullptr || r.places.size() > best->places.size()) best = &r;
  }
  return *best;
}

// The launches at one position of every period: equal signature, and equally many of that signature since the
// marker.
struct InPeriod {
  std::vector<uint32_t> places;  // index of the launch in each period, or kNone
  Nanos gap;                     // median gap before it
  Nanos after_marker;            // median time after the marker
};

std::vector<InPeriod> DividePeriods(const RankView& view, const Recurring& marker) {
  const size_t periods = marker.places.size();
  std::map<std::pair<uint64_t, uint32_t>, std::vector<uint32_t>> by_id;
  for (size_t k = 0; k < periods; ++k) {
    std::map<uint64_t, uint32_t> seen;
    const auto end = k + 1 < periods ? marker.places[k + 1] : static_cast<uint32_t>(view.launches.size());
    for (uint32_t i = marker.places[k]; i < end; ++i) {
      const uint64_t signature = view.launches[i].signature;
      auto& places = by_id[{signature, seen[signature]++}];
      places.resize(periods, capture::kNone);
      places[k] = i;
    }
  }
  std::vector<InPeriod> out;
  for (auto& [id, places] : by_id) {
    std::vector<int64_t> gaps, after;
    for (size_t k = 0; k < periods; ++k) {
      if (places[k] == capture::kNone) continue;
      gaps.push_back(view.launches[places[k]].gap.ns());
      after.push_back((view.launches[places[k]].issued - view.launches[marker.places[k]].issued).ns());
    }
    if (static_cast<double>(gaps.size()) < kMostIntervals * static_cast<double>(periods)) continue;
    out.push_back(
        {std::move(places), Nanos(MedianInPlace(std::span(gaps))), Nanos(MedianInPlace(std::span(after)))});
  }
  std::sort(out.begin(), out.end(),
            [](const InPeriod& x, const InPeriod& y) { return x.after_marker < y.after_marker; });
  return out;
}

class Finder {
 public:
  Finder(const capture::Capture& capture, const capture::ClockModel& clock, std::vector<RankView> views,
         double period)
      : capture_(capture), clock_(clock), views_(std::move(views)), period_(period) {}

  MarkedSteps Run() {
    for (const RankView& view : views_) markers_.push_back(&MarkerOf(view, period_));
    for (size_t v = 0; v < views_.size(); ++v) {
      divided_.push_back(DividePeriods(views_[v], *markers_[v]));
      FindLead(v);
    }
    const size_t phase = CommonPhase();
    std::vector<const InPeriod*> cuts;
    for (size_t v = 0; v < views_.size(); ++v) cuts.push_back(&CutOf(v, phase));
    ShareCuts(cuts);
    MarkedSteps out;
    out.of_rank.resize(capture_.ranks.size());
    for (size_t v = 0; v < views_.size(); ++v) {
      const InPeriod& cut = *cuts[v];
      out.of_rank[views_[v].rank_index] = MarksAt(v, cut);
      if (v == 0) out.how = Words(cut, out.of_rank[views_[v].rank_index].size() - 1);
    }
    return out;
  }

 private:
  JobTime JobOf(size_t v, HostTime t) const {
    return clock_.ToJob(capture_.ranks[views_[v].rank_index].host, t);
  }

  // Finds the delay of a rank's marker after the first rank's, as a share of the period (0..1).
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

  // The part of the period that follows the longest gap without launches on all ranks together.
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

  // The launch near that phase with the longest gap before it, or the next launch if none is near.
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

  // A rank that comes late has its longest gap before another collective than the others. The ranks that
  // share collectives then begin their steps with the collective with which most of them begin.
  void ShareCuts(std::vector<const InPeriod*>& cuts) const {
    // By collective, the ranks that begin a step with it.
    absl::flat_hash_map<uint64_t, std::vector<uint32_t>> begins;
    for (uint32_t v = 0; v < views_.size(); ++v) {
      for (const uint64_t id : CollectivesAt(v, *cuts[v])) begins[id].push_back(v);
    }
    if (begins.empty()) return;
    std::vector<absl::flat_hash_set<uint32_t>> groups(views_.size());
    for (size_t v = 0; v < views_.size(); ++v) {
      for (const Launch& launch : views_[v].launches) groups[v].insert(launch.group);
    }
    std::vector<bool> shared(views_.size());
    while (true) {
      // The rank whose begins most ranks share.
      size_t best = 0, most = 1;
      for (size_t v = 0; v < views_.size(); ++v) {
        if (shared[v]) continue;
        for (const uint64_t id : CollectivesAt(v, *cuts[v])) {
          if (begins[id].size() <= most) continue;
          most = begins[id].size();
          best = v;
        }
      }
      if (most == 1) return;
      const std::vector<uint64_t> chosen = CollectivesAt(best, *cuts[best]);
      const uint32_t group = GroupAt(best, *cuts[best]);
      for (size_t v = 0; v < views_.size(); ++v) {
        if (shared[v] || !groups[v].contains(group)) continue;
        const InPeriod* same = With(v, {chosen.begin(), chosen.end()});
        if (same == nullptr) continue;
        cuts[v] = same;
        shared[v] = true;
      }
      for (const uint64_t id : chosen) begins[id].clear();
      shared[best] = true;
    }
  }

  uint32_t GroupAt(size_t v, const InPeriod& p) const {
    const auto place =
        std::find_if(p.places.begin(), p.places.end(), [](uint32_t i) { return i != capture::kNone; });
    return place == p.places.end() ? capture::kNone : views_[v].launches[*place].group;
  }
  // Returns the numbered collectives at one position of every period.
  std::vector<uint64_t> CollectivesAt(size_t v, const InPeriod& p) const {
    std::vector<uint64_t> ids;
    for (const uint32_t place : p.places) {
      if (place != capture::kNone && views_[v].launches[place].collective != 0)
        ids.push_back(views_[v].launches[place].collective);
    }
    return ids;
  }
  // Returns the position that has most of these collectives, if a rank has such a one; else null.
  const InPeriod* With(size_t v, const absl::flat_hash_set<uint64_t>& ids) const {
    for (const InPeriod& p : divided_[v]) {
      const std::vector<uint64_t> own = CollectivesAt(v, p);
      const auto same = std::count_if(own.begin(), own.end(), [&](uint64_t id) { return ids.contains(id); });
      if (same > 0 && 2 * static_cast<size_t>(same) > std::min(own.size(), ids.size())) return &p;
    }
    return nullptr;
  }

  std::vector<StepMark> MarksAt(size_t v, const InPeriod& cut) const {
    const RankView& view = views_[v];
    std::vector<HostTime> begins;
    for (size_t k = 0; k < cut.places.size(); ++k) {
      // If the launch's record is lost, its usual time is used.
      const HostTime usual = view.launches[markers_[v]->places[k]].issued + cut.after_marker;
      begins.push_back(cut.places[k] == capture::kNone ? usual : view.launches[cut.places[k]].issued);
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
      if (p != capture::kNone) name = capture_.Text(views_[0].launches[p].name);
    }
    name = name.substr(0, name.find_first_of("(<"));
    return absl::StrFormat(
        "no range marks the steps: %d steps of %.4g ms were inferred from periodic launches; each begins at "
        "%s, after the longest recurring gap (%.3g ms)",
        steps, period_ * 1e-6, name.empty() ? "a launch" : std::string(name), cut.gap.millis());
  }

  const capture::Capture& capture_;
  const capture::ClockModel& clock_;
  std::vector<RankView> views_;
  double period_;
  std::vector<const Recurring*> markers_;
  std::vector<std::vector<InPeriod>> divided_;
  std::vector<double> lead_;
};

}  // namespace

std::optional<MarkedSteps> StepsFromPeriod(const capture::Capture& capture, const capture::ClockModel& clock,
                                           const std::vector<CallIndex>& calls) {
  std::vector<RankView> views;
  for (uint32_t r = 0; r < capture.ranks.size(); ++r) {
    if (capture.ranks[r].activities.empty()) continue;
    const capture::RankData& rank = capture.ranks[r];
    const bool only = capture::HasOnlyCommunication(rank);
    RankView view{r, only, LaunchesOf(rank, calls[r], only), {}};
    view.recurring = RecurringOf(view.launches);
    views.push_back(std::move(view));
  }
  if (views.empty()) return std::nullopt;
  const double period = PeriodOf(views);
  if (period <= 0) return std::nullopt;
  return Finder(capture, clock, std::move(views), period).Run();
}

}  // namespace lockstep::analysis
