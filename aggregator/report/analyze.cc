// The one call that makes a report: matching, clocks, times, verdict, rows.
#include <future>
#include <regex>

#include "aggregator/analysis/call_names.h"
#include "aggregator/analysis/collectives.h"
#include "aggregator/analysis/diagnosis.h"
#include "aggregator/analysis/launches.h"
#include "aggregator/analysis/steps.h"
#include "aggregator/analysis/time_partition.h"
#include "aggregator/report/report.h"
#include "aggregator/report/rows.h"

namespace lockstep::report {
namespace {

Analysis AnalyzeFinished(const store::Capture& capture) {
  Analysis out;
  out.matches = align::Match(capture);
  out.clock = align::EstimateClocks(capture, out.matches);
  std::vector<analysis::CallIndex> calls;
  calls.reserve(capture.ranks.size());
  for (const store::RankData& rank : capture.ranks) calls.emplace_back(rank);
  const analysis::Steps steps = analysis::FindSteps(capture, out.clock, calls);
  const analysis::CollectiveTimes times = analysis::TimeCollectives(capture, out.matches, out.clock);
  const analysis::CallNames names(capture);
  // The verdict takes most of the time and shares nothing with the rest but what is read-only by now. (Without a thread to spare
  // it runs where it is asked for.)
  std::future<analysis::Diagnosis> verdict = std::async(std::launch::async | std::launch::deferred, [&] {
    return analysis::Diagnose({capture, out.matches, out.clock, times, steps, calls, &names});
  });
  std::vector<analysis::TimePartition> partitions;
  for (size_t r = 0; r < capture.ranks.size(); ++r) {
    partitions.push_back(analysis::PartitionTime(capture, capture.ranks[r], times.parts[r]));
  }
  analysis::Diagnosis diagnosis;
  const RowInput rows{capture, out.matches, out.clock, times, steps, partitions, diagnosis};
  Report& report = out.report;
  report.ranks = MakeRankRows(rows);
  report.step_breakdown = MakeBreakdownRows(rows);
  report.collectives = MakeCollectiveRows(rows);
  diagnosis = verdict.get();
  AddRankGains(diagnosis, report.ranks);
  report.capture = MakeCaptureRow(rows);
  report.steps = MakeStepRows(rows);
  report.slowdown = MakeSlowdownRow(rows);
  report.stragglers = MakeStragglerRows(rows);
  report.fixes = MakeFixRows(rows);
  report.not_the_cause = diagnosis.not_the_cause;
  report.efficiency = MakeEfficiencyRow(rows);
  report.recommendations = MakeRecommendations(report);
  return out;
}

// The same capture with the user's kernels marked as communication; ids of strings stay what they are.
store::Capture WithCommunication(const store::Capture& capture, const std::regex& pattern) {
  store::Capture copy;
  copy.id = capture.id;
  copy.job = capture.job;
  copy.live = capture.live;
  copy.world_size = capture.world_size;
  copy.missing_ranks = capture.missing_ranks;
  copy.notes = capture.notes;
  copy.hosts = capture.hosts;
  copy.groups = capture.groups;
  copy.ranks = capture.ranks;
  std::vector<char> named;
  for (uint32_t i = 0; i < capture.strings.size(); ++i) {
    const std::string text(capture.Text(NameId(i)));
    copy.strings.Intern(text);
    named.push_back(std::regex_search(text, pattern) ? 1 : 0);
  }
  for (store::RankData& rank : copy.ranks) {
    for (store::DeviceActivity& a : rank.activities) {
      if (a.kind == store::ActivityKind::kKernel && a.name.value() < named.size() && named[a.name.value()] != 0) {
        a.communication = true;
      }
    }
  }
  store::Finish(copy);
  return copy;
}

}  // namespace

Analysis Analyze(const store::Capture& capture, const AnalyzeOptions& options) {
  if (options.communication_pattern.empty()) return AnalyzeFinished(capture);
  try {
    return AnalyzeFinished(WithCommunication(capture, std::regex(options.communication_pattern)));
  } catch (const std::regex_error&) {
    Analysis out = AnalyzeFinished(capture);
    out.report.capture.notes.push_back("'" + options.communication_pattern +
                                       "' is no regular expression; the rule for communication kernels was left out");
    return out;
  }
}

}  // namespace lockstep::report
