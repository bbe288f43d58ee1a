// Analyze(): makes a report from a capture, by matching, clocks, times, verdict and rows.
#include <future>
#include <regex>
#include <utility>

#include "analysis/explain/diagnosis.h"
#include "analysis/explain/shared_losses.h"
#include "analysis/replay/prepared.h"
#include "analysis/time/time_partition.h"
#include "base/parallel.h"
#include "capture/infer/infer_groups.h"
#include "report/recommendations.h"
#include "report/report.h"
#include "report/rows.h"

namespace lockstep::report {
namespace {

Analysis AnalyzeFinished(const capture::Capture& capture, const AnalyzeOptions& options) {
  const unsigned threads = ThreadCount(options.threads);
  analysis::Prepared p(capture, threads, options.disk);
  // The verdict takes most of the time. It shares only read-only data with the rest, so it runs on its own
  // thread. With one thread, it runs when get() is called.
  const auto policy = threads > 1 ? std::launch::async | std::launch::deferred : std::launch::deferred;
  std::future<analysis::Diagnosis> verdict =
      std::async(policy, [&p] { return analysis::Diagnose(p.input()); });
  std::vector<analysis::TimePartition> partitions(capture.ranks.size());
  ParallelFor(threads, capture.ranks.size(), [&](unsigned, size_t r) {
    partitions[r] = analysis::PartitionTime(capture, capture.ranks[r], p.times.parts[r]);
  });
  analysis::Diagnosis diagnosis;
  const RowInput rows{capture, p.matches, p.clock, p.times, p.steps, partitions, diagnosis, threads};
  Analysis out;
  Report& report = out.report;
  report.ranks = MakeRankRows(rows);
  AddRankEfficiencies(rows, report.ranks);
  report.step_breakdown = MakeBreakdownRows(rows);
  report.collectives = MakeCollectiveRows(rows);
  diagnosis = verdict.get();
  const std::vector<analysis::SharedLoss> shared = analysis::FindSharedLosses(p.input(), diagnosis);
  AddRankGains(diagnosis, report.ranks);
  report.capture = MakeCaptureRow(rows);
  report.steps = MakeStepRows(rows);
  report.slowdown = MakeSlowdownRow(rows);
  report.stragglers = MakeStragglerRows(rows);
  report.shared_losses = MakeSharedLossRows(shared, capture.ranks.size());
  report.not_judged = MakeNotJudgedRows(rows, shared);
  report.fixes = MakeFixRows(rows);
  report.not_the_cause = diagnosis.not_the_cause;
  report.waiting = MakeWaitingRow(rows);
  report.efficiency = MakeEfficiencyRow(rows);
  for (Recommendation& r : MakeRecommendations(report)) report.recommendations.push_back(std::move(r.text));
  if (diagnosis.layout.stages > 0) out.stage_of = std::move(diagnosis.layout.stage_of);
  out.steps = std::move(p.steps);
  out.matches = std::move(p.matches);
  out.clock = std::move(p.clock);
  return out;
}

// Returns a copy of the capture with the user's kernels marked as communication. Ids of strings stay the
// same.
capture::Capture WithCommunication(const capture::Capture& capture, const std::regex& pattern) {
  capture::Capture copy;
  copy.id = capture.id;
  copy.job = capture.job;
  copy.live = capture.live;
  copy.world_size = capture.world_size;
  copy.missing_ranks = capture.missing_ranks;
  copy.incomplete = capture.incomplete;
  copy.wanted_steps = capture.wanted_steps;
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
  for (capture::RankData& rank : copy.ranks) {
    for (capture::DeviceActivity& a : rank.activities) {
      if (a.kind == capture::ActivityKind::kKernel && a.name.value() < named.size() &&
          named[a.name.value()] != 0) {
        a.communication = true;
      }
    }
  }
  capture::Finish(copy);
  capture::InferGroups(copy);
  return copy;
}

}  // namespace

Analysis Analyze(const capture::Capture& capture, const AnalyzeOptions& options) {
  if (options.communication_pattern.empty()) return AnalyzeFinished(capture, options);
  try {
    auto copy = std::make_shared<const capture::Capture>(
        WithCommunication(capture, std::regex(options.communication_pattern)));
    if (options.disk != nullptr) options.disk->Take(*copy);
    Analysis out = AnalyzeFinished(*copy, options);
    out.reclassified = std::move(copy);
    return out;
  } catch (const std::regex_error&) {
    Analysis out = AnalyzeFinished(capture, options);
    out.report.capture.notes.push_back(
        "'" + options.communication_pattern +
        "' is not a regular expression; the rule for communication kernels was left out");
    return out;
  }
}

}  // namespace lockstep::report
