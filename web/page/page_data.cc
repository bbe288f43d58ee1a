#include "web/page/page_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json/json_out.h"
#include "report/actions.h"
#include "report/first_line.h"
#include "report/recommendations.h"
#include "report/row_words.h"
#include "views/catalog/json_table.h"
#include "views/catalog/views.h"
#include "web/page/flame_chart.h"
#include "web/page/memory_curve.h"
#include "web/page/packed_data.h"
#include "web/page/timeline.h"

namespace lockstep::web {
namespace {

using report::Report;

constexpr size_t kMostRowsOfAView = 300;
// A picture cannot show more sizes of one collective apart.
constexpr size_t kMostSizes = 64;

// Builds a JSON object whose members are complete documents.
class Members {
 public:
  void Add(const char* name, const std::string& document) {
    absl::StrAppend(&text_, text_.empty() ? "{\"" : ",\"", name, "\":", document);
  }
  std::string Take() { return absl::StrCat(text_, "}"); }

 private:
  std::string text_;
};

void WriteAt(JsonOut& out, std::string_view name, NumbersAt at) {
  out.Key(name).BeginArray();
  out.Value(uint64_t{at.first});
  out.Value(uint64_t{at.count});
  out.EndArray();
}

std::string TextOf(std::string_view text) {
  JsonOut out;
  out.Value(text);
  return out.Take();
}

// Returns report.json without its steps, which are the largest part. StepsOf() writes them as numbers.
absl::StatusOr<std::string> ReportWithoutSteps(const Report& report) {
  Report rest = report;
  rest.steps.clear();
  StringSink sink;
  if (absl::Status s = report::WriteJson(rest, sink); !s.ok()) return s;
  return sink.text();
}

// Writes the cells by step, and within a step in the order of report.ranks.
std::string StepsOf(const Report& report, PackedData& data) {
  constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> lost, duration, wait, step_duration, parallel;
  std::vector<int64_t> numbers;
  const auto known = [](const std::optional<Nanos>& length) {
    return length ? static_cast<float>(length->ns()) : kUnknown;
  };
  for (const report::StepRow& step : report.steps) {
    numbers.push_back(step.step);
    step_duration.push_back(static_cast<float>(step.duration.ns()));
    parallel.push_back(step.efficiency.parallel ? static_cast<float>(*step.efficiency.parallel) : kUnknown);
    for (const report::StepRankRow& cell : step.ranks) {
      lost.push_back(known(cell.lost));
      duration.push_back(static_cast<float>(cell.duration.ns()));
      wait.push_back(known(cell.wait));
    }
  }
  JsonOut out;
  out.BeginObject();
  out.Member("numbers", numbers);
  WriteAt(out, "duration", data.AddRounded(step_duration));
  WriteAt(out, "parallel", data.AddRounded(parallel));
  WriteAt(out, "cell_lost", data.AddRounded(lost));
  WriteAt(out, "cell_duration", data.AddRounded(duration));
  WriteAt(out, "cell_wait", data.AddRounded(wait));
  out.EndObject();
  return out.Take();
}

// Writes the words of the text report that report.json lacks: the page to a team, the actions by urgency, and
// the names of stragglers and shared losses.
std::string WordsOf(const Report& report) {
  const report::FirstLine first = report::MakeFirstLine(report);
  JsonOut out;
  out.BeginObject();
  out.Member("page", first.page);
  out.Key("actions").BeginArray();
  for (const report::Recommendation& action : report::MakeRecommendations(report)) {
    out.BeginObject();
    out.Member("text", action.text);
    out.Member("can_wait", action.can_wait);
    out.EndObject();
  }
  out.EndArray();
  out.Key("stragglers").BeginArray();
  for (const report::StragglerRow& row : report.stragglers) {
    out.BeginObject();
    out.Member("name", report::StragglerName(report, row));
    out.Member("cause", report::CauseInWords(row.cause));
    out.Member("fix", row.fix);
    out.EndObject();
  }
  out.EndArray();
  out.Key("shared_losses").BeginArray();
  for (const report::SharedLossRow& row : report.shared_losses) {
    out.BeginObject();
    out.Member("name", report::SharedLossInWords(row.kind));
    out.Member("leads", first.shared == &row);
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
  return out.Take();
}

// Writes what report.json lacks of each collective, in the order of report.collectives.
std::string CollectivesOf(const Report& report) {
  JsonOut out;
  out.BeginArray();
  for (const report::CollectiveRow& row : report.collectives) {
    out.BeginObject();
    out.Member("skews", row.skew_counts);
    out.Member("members", row.members);
    out.Key("sizes").BeginArray();
    const size_t count = row.sizes_bytes.size(), shown = std::min(count, kMostSizes);
    for (size_t k = 0; k < shown; ++k) {
      const size_t at = shown > 1 ? k * (count - 1) / (shown - 1) : 0;
      out.BeginArray();
      out.Value(row.sizes_bytes[at]);
      out.Value(row.sizes_busbw_gbps[at]);
      out.Value(row.sizes_counts[at]);
      out.EndArray();
    }
    out.EndArray();
    out.EndObject();
  }
  out.EndArray();
  return out.Take();
}

std::string MemoryCurvesOf(const capture::Capture& capture, PackedData& data) {
  JsonOut out;
  out.BeginArray();
  for (const MemoryCurve& curve : MakeMemoryCurves(capture)) {
    out.BeginObject();
    out.Member("rank", curve.rank);
    out.Member("place", curve.place);
    out.Member("kind", curve.kind);
    out.Member("relative", curve.relative);
    WriteAt(out, "time", data.AddExact(curve.time_ns));
    WriteAt(out, "in_use", data.AddRounded(curve.in_use_bytes));
    out.Key("peaks").BeginArray();
    for (const MemoryPeak& peak : curve.peaks) {
      out.BeginObject();
      out.Member("time_ns", peak.time);
      out.Member("bytes", peak.bytes);
      out.Key("owners").BeginArray();
      for (const MemoryOwner& owner : peak.owners) {
        out.BeginObject();
        out.Member("name", owner.name);
        out.Member("bytes", owner.bytes);
        out.EndObject();
      }
      out.EndArray();
      out.Member("unknown_bytes", peak.unknown_bytes);
      out.EndObject();
    }
    out.EndArray();
    out.EndObject();
  }
  out.EndArray();
  return out.Take();
}

constexpr size_t kMostFlameRanks = 8;

// Returns the ranks whose stacks are shown beside the mean: the culprits, those of the timeline, the first
// ones.
std::vector<RankId> FlameRanks(const Report& report, const Timeline& timeline) {
  std::vector<RankId> ranks;
  const auto add = [&ranks](RankId rank) {
    if (ranks.size() < kMostFlameRanks && std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
      ranks.push_back(rank);
  };
  for (const report::StragglerRow& row : report.stragglers) {
    for (const RankId rank : row.ranks) add(rank);
  }
  for (const TimelineRank& rank : timeline.ranks) add(rank.rank);
  for (const report::RankRow& row : report.ranks) add(row.rank);
  return ranks;
}

std::string FlamesOf(const std::vector<FlameChart>& charts, PackedData& data) {
  constexpr std::string_view kNames[] = {"device", "host", "python"};
  JsonOut out;
  out.BeginArray();
  for (const FlameChart& chart : charts) {
    out.BeginObject();
    out.Member("kind", kNames[static_cast<size_t>(chart.kind)]);
    out.Member("names", chart.names);
    out.Member("counted_ranks", chart.counted_ranks);
    out.Member("left_out", chart.left_out);
    WriteAt(out, "name_at", data.AddExact(chart.name_at));
    WriteAt(out, "parent", data.AddExact(chart.parent));
    WriteAt(out, "mean", data.AddRounded(chart.mean_ns));
    out.Key("ranks").BeginArray();
    for (const FlameChart::Rank& rank : chart.ranks) {
      out.BeginObject();
      out.Member("rank", rank.rank);
      WriteAt(out, "time", data.AddRounded(rank.time_ns));
      out.EndObject();
    }
    out.EndArray();
    out.EndObject();
  }
  out.EndArray();
  return out.Take();
}

void WriteLane(JsonOut& out, const Lane& lane, PackedData& data) {
  out.BeginObject();
  out.Member("name", lane.name);
  out.Member("merged", lane.merged);
  WriteAt(out, "start", data.AddExact(lane.start));
  WriteAt(out, "length", data.AddRounded(lane.length));
  WriteAt(out, "wait", data.AddRounded(lane.wait));
  WriteAt(out, "name_at", data.AddExact(lane.name_at));
  WriteAt(out, "count", data.AddExact(lane.count));
  out.EndObject();
}

std::string TimelineOf(const Timeline& timeline, PackedData& data) {
  JsonOut out;
  out.BeginObject();
  out.Member("length_ns", timeline.window.length());
  out.Member("names", timeline.names);
  out.Key("steps").BeginArray();
  for (const analysis::StepSpan& step : timeline.steps) {
    out.BeginObject();
    out.Member("step", step.name);
    out.Member("start_ns", step.start - timeline.window.start);
    out.Member("end_ns", step.end - timeline.window.start);
    out.EndObject();
  }
  out.EndArray();
  out.Key("ranks").BeginArray();
  for (const TimelineRank& rank : timeline.ranks) {
    out.BeginObject();
    out.Member("rank", rank.rank);
    out.Member("part", rank.part);
    out.Key("lanes").BeginArray();
    for (const Lane& lane : rank.lanes) WriteLane(out, lane, data);
    out.EndArray();
    out.Member("busy_start_ns", rank.busy_start - timeline.window.start);
    out.Member("busy_width_ns", rank.busy_width);
    WriteAt(out, "busy", data.AddRounded(rank.busy));
    WriteAt(out, "queued", data.AddRounded(rank.queued));
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
  return out.Take();
}

// Returns every view that has rows, without options. Views with many rows are cut.
std::string ViewsOf(const PageInput& input, const capture::Capture& capture) {
  std::string all = "[";
  for (const views::View& view : views::Views()) {
    const auto analysis = [&]() -> const report::Analysis& { return input.analysis; };
    views::MadeView made = view.make({.capture = capture, .analysis = analysis}, {});
    const size_t rows = made.grid.rows();
    if (rows == 0) continue;
    made.grid.Truncate(kMostRowsOfAView);
    if (rows > kMostRowsOfAView) {
      made.notes.push_back(absl::StrCat("the first ", kMostRowsOfAView, " of ", rows, " rows; lockstep ",
                                        std::string(view.name), " prints all"));
    }
    Members members;
    members.Add("about", TextOf(view.about));
    members.Add("shown", TextOf(view.ColumnsOf({})));
    members.Add("table", views::JsonTable(view.name, made));
    absl::StrAppend(&all, all.size() > 1 ? "," : "", members.Take());
  }
  return all + "]";
}

}  // namespace

absl::StatusOr<std::string> PageData(const PageInput& input) {
  const Report& report = input.analysis.report;
  const capture::Capture& capture =
      input.analysis.reclassified ? *input.analysis.reclassified : input.capture;
  absl::StatusOr<std::string> rest = ReportWithoutSteps(report);
  if (!rest.ok()) return rest.status();
  PackedData data;
  Members members;
  members.Add("version", TextOf(LOCKSTEP_VERSION));
  members.Add("source", TextOf(input.source));
  members.Add("verdict", TextOf(report::VerdictSentence(report)));
  members.Add("text", TextOf(report::RenderText(report, {.lines = 0, .source = input.source})));
  members.Add("report", *rest);
  members.Add("steps", StepsOf(report, data));
  members.Add("words", WordsOf(report));
  members.Add("collectives", CollectivesOf(report));
  members.Add("memory", MemoryCurvesOf(capture, data));
  const Timeline timeline = MakeTimeline(capture, input.analysis);
  members.Add("timeline", TimelineOf(timeline, data));
  members.Add("flames", FlamesOf(MakeFlameCharts(capture, FlameRanks(report, timeline)), data));
  members.Add("views", ViewsOf(input, capture));
  return data.Seal(members.Take());
}

}  // namespace lockstep::web
