#include "aggregator/live/sample.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "analysis/prepare/steps.h"
#include "base/rpc/status_macros.h"
#include "formats/input/read_input.h"

namespace lockstep::aggregator {
namespace {

constexpr size_t kMostStragglers = 8;
constexpr size_t kMostGroups = 16;

// A rank's sums over the steps, and over the steps that the replay covers.
struct PerStep {
  double self_ns = 0;
  double lost_ns = 0;
  size_t steps = 0;
  size_t replayed = 0;
};

std::map<RankId, PerStep> PerStepOf(const report::Report& report) {
  std::map<RankId, PerStep> all;
  for (const report::StepRow& step : report.steps) {
    for (const report::StepRankRow& row : step.ranks) {
      PerStep& rank = all[row.rank];
      rank.self_ns += static_cast<double>(row.self.ns());
      ++rank.steps;
      if (!row.lost) continue;
      rank.lost_ns += static_cast<double>(row.lost->ns());
      ++rank.replayed;
    }
  }
  return all;
}

void AddRanks(const report::Report& report, v1::Sample& sample) {
  const std::map<RankId, PerStep> per_step = PerStepOf(report);
  std::map<RankId, uint64_t> lost;
  for (const report::LossRow& loss : report.capture.losses) lost[loss.rank] += loss.records;
  for (const report::RankRow& row : report.ranks) {
    v1::SampleRank& rank = *sample.add_ranks();
    rank.set_rank(row.rank.value());
    rank.set_host(row.host);
    rank.set_device(row.device);
    if (const auto at = per_step.find(row.rank); at != per_step.end() && at->second.steps > 0) {
      rank.set_self_ns_per_step(at->second.self_ns / static_cast<double>(at->second.steps));
      if (at->second.replayed > 0)
        rank.set_lost_ns_per_step(at->second.lost_ns / static_cast<double>(at->second.replayed));
    }
    rank.set_span_ns(row.span.ns());
    rank.set_exposed_wait_ns(row.exposed_wait.ns());
    rank.set_exposed_transfer_ns(row.exposed_transfer.ns());
    rank.set_idle_ns(row.idle.ns());
    if (row.overlap_fraction) rank.set_overlap_fraction(*row.overlap_fraction);
    // A rank with several devices has its losses in the first entry only.
    if (const auto at = lost.find(row.rank); at != lost.end())
      rank.set_lost_records(std::exchange(at->second, 0));
  }
}

void AddStragglers(const report::Report& report, v1::Sample& sample) {
  for (size_t i = 0; i < std::min(report.stragglers.size(), kMostStragglers); ++i) {
    const report::StragglerRow& row = report.stragglers[i];
    v1::SampleStraggler& straggler = *sample.add_stragglers();
    straggler.set_kind(row.kind);
    for (const RankId rank : row.ranks) straggler.add_ranks(rank.value());
    for (const std::string& host : row.hosts) straggler.add_hosts(host);
    straggler.set_cause(row.cause);
    straggler.set_verdict(row.verdict);
    if (row.confidence) straggler.set_confidence(*row.confidence);
    straggler.set_lost_ns_per_step(row.lost_ns_per_step);
    if (row.gain_ns_per_step) straggler.set_gain_ns_per_step(*row.gain_ns_per_step);
  }
}

void AddGroups(const report::Report& report, v1::Sample& sample) {
  std::vector<const report::CollectiveRow*> rows;
  for (const report::CollectiveRow& row : report.collectives) {
    if (row.skew.p99) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* a, const auto* b) { return *a->skew.p99 > *b->skew.p99; });
  if (rows.size() > kMostGroups) rows.resize(kMostGroups);
  for (const report::CollectiveRow* row : rows) {
    v1::SampleGroup& group = *sample.add_groups();
    group.set_group(row->group);
    group.set_size(row->group_size);
    group.set_op(row->op);
    group.set_count(row->count);
    group.set_skew_p50_ns(row->skew.p50.value_or(Nanos()).ns());
    group.set_skew_p99_ns(row->skew.p99->ns());
    const auto most = std::max_element(row->last_arrivals.begin(), row->last_arrivals.end(),
                                       [](const auto& a, const auto& b) { return a.count < b.count; });
    if (most == row->last_arrivals.end()) continue;
    group.set_last_rank(most->rank.value());
    group.set_last_count(most->count);
  }
}

void AddSlowdown(const report::SlowdownRow& slowdown, v1::Sample& sample) {
  if (slowdown.step_ns) sample.set_step_ns(*slowdown.step_ns);
  if (slowdown.ideal_step_ns) sample.set_ideal_step_ns(*slowdown.ideal_step_ns);
  if (slowdown.ratio) sample.set_ratio(*slowdown.ratio);
  if (slowdown.lost_ns_per_step) sample.set_lost_ns_per_step(*slowdown.lost_ns_per_step);
  if (slowdown.noise_floor_ns_per_step) sample.set_noise_floor_ns_per_step(*slowdown.noise_floor_ns_per_step);
}

void AddLosses(const report::Report& report, v1::Sample& sample) {
  std::map<std::pair<std::string, std::string>, uint64_t> sums;  // by stage and reason
  for (const report::LossRow& loss : report.capture.losses) sums[{loss.stage, loss.reason}] += loss.records;
  for (const auto& [key, records] : sums) {
    v1::Loss& loss = *sample.add_losses();
    loss.set_stage(key.first);
    loss.set_reason(key.second);
    loss.set_records(records);
  }
}

uint64_t RecordsOf(const capture::Capture& capture) {
  uint64_t records = 0;
  for (const capture::RankData& rank : capture.ranks)
    records += rank.activities.size() + rank.api_calls.size() + rank.ranges.size();
  return records;
}

}  // namespace

Summary Summarize(const capture::Capture& capture, const report::Analysis& analysis) {
  const report::Report& report = analysis.report;
  Summary summary;
  v1::Sample& sample = summary.sample;
  sample.set_world_size(report.capture.world_size);
  sample.set_hosts(report.capture.hosts);
  for (const RankId rank : report.capture.missing_ranks) sample.add_missing_ranks(rank.value());
  AddSlowdown(report.slowdown, sample);
  sample.set_verdict(report::VerdictSentence(report));
  AddStragglers(report, sample);
  AddRanks(report, sample);
  AddGroups(report, sample);
  sample.set_records(RecordsOf(capture));
  AddLosses(report, sample);
  if (report.capture.clock.bound) sample.set_clock_bound_ns(report.capture.clock.bound->ns());

  const analysis::Steps& steps = analysis.steps;
  if (steps.found()) {
    sample.set_steps(static_cast<uint32_t>(steps.count()));
    summary.steps = {static_cast<uint32_t>(steps.count()), steps.partial, report.slowdown.step_ns};
  }
  if (steps.marked() && steps.count() > 0) {
    const capture::Capture& analysed = analysis.reclassified != nullptr ? *analysis.reclassified : capture;
    const analysis::StepSpan last = analysis::SpansOf(analysed, analysis.clock, steps).back();
    sample.set_last_step(last.name);
    sample.set_last_step_begin_unix_ns(last.start.ns());
  }
  return summary;
}

absl::StatusOr<Summary> ReadSample(const std::string& folder, unsigned threads) {
  LOCKSTEP_ASSIGN_OR_RETURN(const capture::Capture capture, formats::LoadCapture(folder, {}));
  return Summarize(capture, report::Analyze(capture, {.threads = threads}));
}

}  // namespace lockstep::aggregator
