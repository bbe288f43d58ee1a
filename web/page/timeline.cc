#include "web/page/timeline.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/collectives.h"
#include "analysis/prepare/launches.h"
#include "analysis/time/utilization.h"
#include "web/page/timeline_ranks.h"

namespace lockstep::web {
namespace {

using capture::DeviceActivity;
using capture::RankData;

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
// Boxes narrower than the window divided by kFinest are merged with their neighbours. At a zoom of 20 this is
// one pixel.
constexpr int64_t kFinest = 20000;
constexpr size_t kMostBoxes = 6000;   // per lane
constexpr size_t kLongestName = 160;  // names of C++ templates can have kilobytes
constexpr int64_t kBins = 400;
// Without steps a window may last minutes, and a picture of it would show no details.
constexpr Nanos kLongestWindow = Nanos::Seconds(2);

enum LaneKind : size_t { kCompute, kCommunication, kCopies, kLanes };
constexpr const char* kLaneNames[kLanes] = {"compute", "communication", "copies"};

LaneKind LaneOf(const DeviceActivity& a) {
  if (a.type() == capture::WorkType::kMemory) return kCopies;
  return a.communication ? kCommunication : kCompute;
}

// Numbers the names in the order in which they are first drawn.
class Names {
 public:
  Names(const capture::Capture& capture, std::vector<std::string>& out) : capture_(capture), out_(out) {}
  float At(const DeviceActivity& a) {
    const auto [it, fresh] = places_.try_emplace(a.name, out_.size());
    if (fresh) {
      std::string name(capture_.Text(a.name));
      if (name.empty()) name = a.kind == capture::ActivityKind::kKernel ? "kernel" : "copy";
      if (name.size() > kLongestName) name = name.substr(0, kLongestName) + "...";
      out_.push_back(std::move(name));
    }
    return static_cast<float>(it->second);
  }

 private:
  const capture::Capture& capture_;
  std::vector<std::string>& out_;
  absl::flat_hash_map<NameId, size_t> places_;
};

struct Box {
  Nanos start, end;  // relative to the window's start
  float name_at = 0;
  std::optional<Nanos> wait;
};

// Adds boxes to a lane. A box that is too narrow to be visible is merged into the previous one if that is
// also narrow and near.
class LaneFiller {
 public:
  LaneFiller(Lane& lane, Nanos finest) : lane_(lane), finest_(finest) {}
  void Add(const Box& box) {
    const bool narrow = box.end - box.start < finest_;
    const bool full = lane_.start.size() >= kMostBoxes;
    if (!lane_.start.empty() && (full || (narrow && last_narrow_ && box.start - last_end_ < finest_))) {
      last_end_ = std::max(last_end_, box.end);
      lane_.length.back() = static_cast<float>((last_end_ - last_start_).ns());
      lane_.wait.back() = kUnknown;
      lane_.count.back() += 1;
      ++lane_.merged;
      last_narrow_ = full || last_end_ - last_start_ < finest_;
      return;
    }
    last_start_ = box.start;
    last_end_ = box.end;
    last_narrow_ = narrow;
    lane_.start.push_back(static_cast<float>(box.start.ns()));
    lane_.length.push_back(static_cast<float>((box.end - box.start).ns()));
    lane_.wait.push_back(box.wait ? static_cast<float>(box.wait->ns()) : kUnknown);
    lane_.name_at.push_back(box.name_at);
    lane_.count.push_back(1);
  }

 private:
  Lane& lane_;
  const Nanos finest_;
  Nanos last_start_, last_end_;
  bool last_narrow_ = false;
};

std::vector<Lane> LanesOf(const RankData& rank, const std::vector<analysis::Part>& parts,
                          const capture::ClockModel& clock, JobInterval window, Names& names) {
  std::vector<Lane> lanes(kLanes);
  std::vector<LaneFiller> fillers;
  const Nanos finest(std::max<int64_t>(1, window.length().ns() / kFinest));
  for (size_t k = 0; k < kLanes; ++k) {
    lanes[k].name = kLaneNames[k];
    fillers.emplace_back(lanes[k], finest);
  }
  for (const DeviceActivity& a : rank.activities) {
    const JobInterval at{clock.ToJob(rank.host, a.start), clock.ToJob(rank.host, a.end)};
    if (at.end <= window.start || at.start >= window.end || at.length() <= Nanos()) continue;
    Box box{.start = std::max(at.start, window.start) - window.start,
            .end = std::min(at.end, window.end) - window.start,
            .name_at = names.At(a)};
    // The wait of a box that the window cuts would be drawn at the wrong place.
    if (a.collective < parts.size() && parts[a.collective].split && at.start >= window.start)
      box.wait = parts[a.collective].wait;
    fillers[LaneOf(a)].Add(box);
  }
  return lanes;
}

void AddQueued(const RankData& rank, HostTime start, TimelineRank& out) {
  const analysis::CallIndex calls(rank);
  const auto width = static_cast<double>(out.busy_width.ns());
  const size_t bins = out.busy.size();
  const HostTime end = start + out.busy_width * static_cast<int64_t>(bins);
  std::vector<double> edges(bins, 0);        // of bins that an activity waits in for a part
  std::vector<double> changes(bins + 1, 0);  // of the number of activities that wait in a whole bin
  bool any = false;
  for (const DeviceActivity& a : rank.activities) {
    const uint32_t call = calls.Of(a.correlation);
    if (call == capture::kNone) continue;
    any = true;
    const HostTime from = std::max(rank.api_calls[call].start, start), to = std::min(a.start, end);
    if (from >= to) continue;
    const double first = static_cast<double>((from - start).ns()) / width;
    const double last = static_cast<double>((to - start).ns()) / width;
    const auto first_bin = static_cast<size_t>(first),
               last_bin = std::min(static_cast<size_t>(last), bins - 1);
    if (first_bin >= last_bin) {
      edges[last_bin] += last - first;
      continue;
    }
    edges[first_bin] += static_cast<double>(first_bin + 1) - first;
    edges[last_bin] += last - static_cast<double>(last_bin);
    ++changes[first_bin + 1];
    --changes[last_bin];
  }
  double whole = 0;
  for (size_t k = 0; any && k < bins; ++k) {
    whole += changes[k];
    out.queued.push_back(static_cast<float>(whole + edges[k]));
  }
}

void AddBusy(const RankData& rank, const capture::ClockModel& clock, TimelineRank& out) {
  HostTime first = HostTime::Max(), last = HostTime::Min();
  for (const DeviceActivity& a : rank.activities) {
    first = std::min(first, a.start);
    last = std::max(last, a.end);
  }
  if (first >= last) return;
  const Nanos width((last - first).ns() / kBins + 1);
  const analysis::UtilizationSeries series = analysis::MeasureUtilization(rank, width, kBins + 1);
  out.busy_start = clock.ToJob(rank.host, series.start);
  out.busy_width = series.width;
  out.busy.assign(series.busy.begin(), series.busy.end());
  AddQueued(rank, series.start, out);
}

// Returns the interval of the step in which that rank cost most and of the step after it.
JobInterval WindowOf(const capture::Capture& capture, const report::Analysis& analysis,
                     const std::vector<analysis::StepSpan>& spans, uint32_t culprit) {
  if (spans.empty()) {
    const RankData& rank = capture.ranks[culprit];
    const JobTime start = analysis.clock.ToJob(rank.host, rank.window.start);
    return {start, std::min(analysis.clock.ToJob(rank.host, rank.window.end), start + kLongestWindow)};
  }
  size_t worst = 0;
  Nanos most = Nanos(std::numeric_limits<int64_t>::min());
  for (size_t k = 0; k < analysis.report.steps.size() && k < spans.size(); ++k) {
    const auto& ranks = analysis.report.steps[k].ranks;
    const Nanos lost = culprit < ranks.size() ? ranks[culprit].lost.value_or(Nanos()) : Nanos();
    if (lost > most) most = lost, worst = k;
  }
  const size_t last = std::min(worst + 1, spans.size() - 1);
  return {spans[worst].start, std::max(spans[last].end, spans[worst].end)};
}

}  // namespace

Timeline MakeTimeline(const capture::Capture& capture, const report::Analysis& analysis) {
  Timeline out;
  const std::vector<ChosenRank> chosen = ChooseRanks(capture, analysis);
  if (chosen.empty()) return out;
  std::vector<analysis::StepSpan> spans;
  if (analysis.steps.found()) spans = analysis::SpansOf(capture, analysis.clock, analysis.steps);
  out.window = WindowOf(capture, analysis, spans, chosen[0].index);
  for (const analysis::StepSpan& span : spans) {
    if (span.end > out.window.start && span.start < out.window.end) out.steps.push_back(span);
  }
  const analysis::CollectiveTimes times =
      analysis::TimeCollectives(capture, analysis.matches, analysis.clock);
  Names names(capture, out.names);
  for (const ChosenRank& c : chosen) {
    const RankData& rank = capture.ranks[c.index];
    TimelineRank row{.rank = rank.rank, .part = c.part};
    row.lanes = LanesOf(rank, times.parts[c.index], analysis.clock, out.window, names);
    AddBusy(rank, analysis.clock, row);
    out.ranks.push_back(std::move(row));
  }
  return out;
}

}  // namespace lockstep::web
