#include "history/output/history_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/log/clean_text.h"
#include "history/output/aligned_rows.h"
#include "history/words.h"

namespace lockstep::history {
namespace {

constexpr Align kLeft = Align::kLeft, kRight = Align::kRight;
// Rows of a list that a reader still looks at; --format json has all.
constexpr size_t kShownPoints = 60, kShownSuspects = 8, kShownRanks = 16, kShownSteps = 20;
constexpr size_t kChartColumns = 40;
constexpr size_t kLongestVerdict = 100;

std::string MaybeLength(std::optional<double> ns) { return ns ? LengthWords(*ns) : "-"; }

// Cuts the verdict at the end of a word.
std::string ShortVerdict(const std::string& verdict) {
  if (verdict.size() <= kLongestVerdict) return verdict;
  const std::string cut = CleanText(verdict, kLongestVerdict);
  return absl::StrCat(cut.substr(0, cut.rfind(' ')), " …");
}

std::string HeadLines(const CaptureHead& head) {
  std::string text = absl::StrCat("capture ", head.id, "\n  job ", head.job);
  if (head.job != head.job_id) absl::StrAppend(&text, " (", head.job_id, ")");
  absl::StrAppend(&text, ", ", TimeWords(head.captured), " UTC, ",
                  CountWords(static_cast<size_t>(head.world_size), "rank", "ranks"), " on ",
                  CountWords(static_cast<size_t>(head.hosts), "host", "hosts"), ", ",
                  CountWords(static_cast<size_t>(head.steps), "step", "steps"), "\n");
  if (head.partial) text += "  the capture is not whole: ranks are missing or incomplete\n";
  if (head.lost_records > 0) absl::StrAppend(&text, "  ", head.lost_records, " records were lost\n");
  return absl::StrCat(text, "  ", head.verdict, "\n");
}

std::string MetricLines(const CaptureHead& head) {
  AlignedRows rows({kLeft, kRight}, 2);
  for (const Metric& metric : Metrics()) rows.Add({metric.title, MetricText(metric, head.*metric.value)});
  return rows.Text();
}

std::string FindingLines(const std::vector<Finding>& findings) {
  AlignedRows rows({kRight, kRight, kLeft, kLeft}, 2);
  for (const Finding& finding : findings) {
    rows.Add({MaybeLength(finding.lost_ns_per_step),
              finding.gain_ns_per_step ? absl::StrCat("gain ", LengthWords(*finding.gain_ns_per_step)) : "",
              FindingWords(finding), finding.verdict});
  }
  return rows.Text();
}

std::string RankLines(const std::vector<RankSummary>& ranks) {
  AlignedRows rows({kRight, kLeft, kLeft, kRight, kRight, kRight}, 2);
  rows.Add({"rank", "host", "device", "compute", "exposed", "idle"});
  for (size_t i = 0; i < std::min(ranks.size(), kShownRanks); ++i) {
    const RankSummary& rank = ranks[i];
    rows.Add({absl::StrCat(rank.rank.value()), rank.host, rank.device_name.value_or("-"),
              LengthWords(static_cast<double>(rank.compute.ns())),
              LengthWords(static_cast<double>(rank.exposed_communication.ns())),
              LengthWords(static_cast<double>(rank.idle.ns()))});
  }
  return rows.Text();
}

std::string StepLines(const std::vector<StepSummary>& steps) {
  AlignedRows rows({kRight, kRight, kRight, kRight}, 2);
  rows.Add({"step", "duration", "mean wait", "costliest rank"});
  for (size_t i = 0; i < std::min(steps.size(), kShownSteps); ++i) {
    const StepSummary& step = steps[i];
    rows.Add({absl::StrCat(step.step), LengthWords(static_cast<double>(step.duration.ns())),
              MaybeLength(step.wait_ns),
              step.costliest_rank ? absl::StrCat(step.costliest_rank->value()) : "-"});
  }
  return rows.Text();
}

// Says that a list was cut.
std::string MoreLine(size_t all, size_t shown, const char* many) {
  if (all <= shown) return "";
  return absl::StrCat("  and ", all - shown, " more ", many, ", which --format json lists\n");
}

std::string SuspectWords(const Suspect& suspect) {
  switch (suspect.kind) {
    case Suspect::Kind::kLabel:
      return suspect.before.empty() ? absl::StrCat(suspect.name, " ", suspect.after)
                                    : absl::StrCat(suspect.name, " ", suspect.before, " -> ", suspect.after);
    case Suspect::Kind::kHost:
      return absl::StrCat("host ", suspect.after, " joined");
    case Suspect::Kind::kCulprit:
      return absl::StrCat("reports name host ", suspect.after, ": ", suspect.cause);
    case Suspect::Kind::kDevice:
      return absl::StrCat("devices are ", suspect.after, ": the job runs on other hardware");
    case Suspect::Kind::kWorldSize:
      return absl::StrCat("ranks ", suspect.before, " -> ", suspect.after,
                          ": the captures are of jobs of other sizes");
  }
  return "";
}

std::string SuspectLines(const TrendChange& change) {
  const size_t before = change.change.first - change.change.before_begin;
  const size_t after = change.change.after_end - change.change.first;
  if (change.suspects.empty()) return "  no label, host, device or size changed at the same time\n";
  AlignedRows rows({kLeft, kLeft}, 2);
  for (size_t i = 0; i < std::min(change.suspects.size(), kShownSuspects); ++i) {
    const Suspect& suspect = change.suspects[i];
    rows.Add(
        {SuspectWords(suspect), absl::StrCat("in ", suspect.with_after, " of ", after, " captures after, ",
                                             suspect.with_before, " of ", before, " before")});
  }
  return rows.Text() + MoreLine(change.suspects.size(), kShownSuspects, "differences");
}

std::string ChangeLines(const Trend& trend, const TrendChange& change) {
  const Metric& metric = *trend.metric;
  const CaptureHead& first = trend.points[change.change.first].head;
  const char* word = &metric == &Metrics().front() ? (change.worse ? "SLOWER" : "FASTER")
                                                   : (change.worse ? "WORSE" : "BETTER");
  return absl::StrCat(
      word, " since ", TimeWords(first.captured), " UTC, capture ", first.id, "\n  ", metric.title, " ",
      MetricText(metric, change.change.before), " -> ", MetricText(metric, change.change.after), " (",
      ShiftWords(change.change.before, change.change.after), "); chance of such a change without a cause ",
      absl::StrFormat("%.2g%%", 100 * change.change.probability), "\n", SuspectLines(change));
}

std::string ChartOf(double value, double least, double most) {
  const double share = most > least ? (value - least) / (most - least) : 0;
  return absl::StrCat("|", std::string(static_cast<size_t>(std::lround(share * (kChartColumns - 1))), ' '),
                      "*");
}

std::string ChartLines(const Trend& trend) {
  const auto [least, most] =
      std::minmax_element(trend.points.begin(), trend.points.end(),
                          [](const TrendPoint& a, const TrendPoint& b) { return a.value < b.value; });
  const size_t first = trend.points.size() > kShownPoints ? trend.points.size() - kShownPoints : 0;
  AlignedRows rows({kLeft, kRight, kLeft}, 2);
  for (size_t i = first; i < trend.points.size(); ++i) {
    const TrendPoint& point = trend.points[i];
    const bool changed = std::any_of(trend.changes.begin(), trend.changes.end(),
                                     [i](const TrendChange& change) { return change.change.first == i; });
    rows.Add({absl::StrCat(TimeWords(point.head.captured), changed ? " !" : "",
                           point.head.partial ? " partial" : ""),
              MetricText(*trend.metric, point.value), ChartOf(point.value, least->value, most->value)});
  }
  std::string text = rows.Text();
  if (first > 0)
    absl::StrAppend(&text, "  ", first, " older captures are not shown; --format json has all\n");
  return text;
}

std::string TrendEnd(const Trend& trend) {
  std::string text;
  if (trend.changes.empty()) {
    text = absl::StrFormat(
        "no change of at least %.2g%% that chance makes in fewer than %.2g%% of such series\n",
        100 * trend.options.least_shift, 100 * trend.options.false_alarms);
  }
  if (trend.without_value > 0) {
    absl::StrAppend(&text, CountWords(trend.without_value, "capture has", "captures have"), " no ",
                    trend.metric->title, " and ", trend.without_value == 1 ? "is" : "are", " left out\n");
  }
  return text;
}

std::string SideWords(const ComparedSide& side) {
  return side.captures.size() == 1 && side.captures[0].head.id == side.name
             ? absl::StrCat("capture ", side.name)
             : absl::StrCat("job ", side.name, ", medians of ",
                            CountWords(side.captures.size(), "capture", "captures"));
}

std::string ComparedFindingLines(const Comparison& comparison) {
  AlignedRows rows({kLeft, kRight, kLeft, kLeft}, 2);
  const bool many = comparison.a.captures.size() > 1 || comparison.b.captures.size() > 1;
  for (const ComparedFinding& f : comparison.findings) {
    rows.Add({f.in_a == 0   ? "new"
              : f.in_b == 0 ? "gone"
                            : "in both",
              MaybeLength(f.finding.lost_ns_per_step), FindingWords(f.finding),
              many ? absl::StrCat("in ", f.in_a, " of ", comparison.a.captures.size(), " captures of A, ",
                                  f.in_b, " of ", comparison.b.captures.size(), " of B")
                   : ""});
  }
  return rows.Text();
}

}  // namespace

std::string JobsText(const std::vector<JobRow>& jobs) {
  AlignedRows rows({kLeft, kRight, kLeft, kRight, kLeft}, 0);
  rows.Add({"job", "captures", "last (UTC)", "step", "verdict of the last"});
  for (const JobRow& job : jobs) {
    rows.Add({job.job, absl::StrCat(job.captures), TimeWords(job.last.captured),
              MaybeLength(job.last.step_ns), ShortVerdict(job.last.verdict)});
  }
  return rows.Text();
}

std::string CapturesText(const std::vector<CaptureHead>& captures) {
  AlignedRows rows({kLeft, kLeft, kRight, kRight, kLeft}, 0);
  rows.Add({"capture", "captured (UTC)", "ranks", "step", "verdict"});
  for (const CaptureHead& capture : captures) {
    rows.Add({capture.id, TimeWords(capture.captured), absl::StrCat(capture.world_size),
              MaybeLength(capture.step_ns), ShortVerdict(capture.verdict)});
  }
  return rows.Text();
}

std::string CaptureText(const CaptureSummary& capture) {
  std::string text = HeadLines(capture.head);
  if (!capture.labels.empty()) absl::StrAppend(&text, "  labels ", LabelWords(capture.labels), "\n");
  absl::StrAppend(&text, MetricLines(capture.head));
  absl::StrAppend(&text, "findings\n",
                  capture.findings.empty() ? "  none\n" : FindingLines(capture.findings));
  absl::StrAppend(&text, "ranks\n", RankLines(capture.ranks),
                  MoreLine(capture.ranks.size(), kShownRanks, "ranks"));
  absl::StrAppend(&text, "steps\n", StepLines(capture.steps),
                  MoreLine(capture.steps.size(), kShownSteps, "steps"));
  return text;
}

std::string TrendText(const Trend& trend) {
  std::string text = absl::StrCat("job ", trend.job, ": ", trend.metric->title, " of ",
                                  CountWords(trend.points.size(), "capture", "captures"), "\n");
  if (!trend.points.empty()) absl::StrAppend(&text, ChartLines(trend));
  for (const TrendChange& change : trend.changes) absl::StrAppend(&text, ChangeLines(trend, change));
  return text + TrendEnd(trend);
}

std::string ComparisonText(const Comparison& comparison) {
  std::string text = absl::StrCat("A: ", SideWords(comparison.a), "\nB: ", SideWords(comparison.b), "\n");
  AlignedRows rows({kLeft, kRight, kRight, kRight, kLeft}, 2);
  rows.Add({"", "A", "B", "change", ""});
  for (const ComparedMetric& m : comparison.metrics) {
    if (!m.a && !m.b) continue;
    const bool known = m.a && m.b;
    const bool worse = known && *m.a != *m.b && (*m.b > *m.a) == (m.metric->better == Better::kLower);
    rows.Add({m.metric->title, MetricText(*m.metric, m.a), MetricText(*m.metric, m.b),
              known ? ShiftWords(*m.a, *m.b) : "", worse ? "worse" : ""});
  }
  absl::StrAppend(&text, rows.Text());
  if (!comparison.labels.empty()) text += "labels\n";
  for (const ComparedLabel& label : comparison.labels) {
    absl::StrAppend(&text, "  ", label.name, " ", label.a.empty() ? "(none)" : label.a, " -> ",
                    label.b.empty() ? "(none)" : label.b, "\n");
  }
  return absl::StrCat(text, "findings\n",
                      comparison.findings.empty() ? "  none\n" : ComparedFindingLines(comparison));
}

}  // namespace lockstep::history
