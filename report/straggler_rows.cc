// Makes the verdict's part of the report: slowdown, stragglers, fixes.
#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "report/actions.h"
#include "report/rows.h"
#include "report/text_layout.h"

namespace lockstep::report {
namespace {

using analysis::Finding;
using analysis::LengthText;

// Lateness below this fraction of the window is not mentioned.
constexpr double kLeastShownShare = 0.02;

// Empty: the source does not name the host.
std::string HostOf(const capture::Capture& capture, uint32_t rank_index) {
  const uint32_t host = capture.ranks[rank_index].host;
  return host >= capture.hosts.size() ? "" : capture.hosts[host].name;
}

// The same in words.
std::string HostInWords(const capture::Capture& capture, uint32_t rank_index) {
  const std::string host = HostOf(capture, rank_index);
  return host.empty() ? absl::StrFormat("rank %d's host", capture.ranks[rank_index].rank.value()) : host;
}

std::string VerdictName(analysis::Verdict verdict) {
  switch (verdict) {
    case analysis::Verdict::kSure:
      return "sure";
    case analysis::Verdict::kLikely:
      return "likely";
    case analysis::Verdict::kUndecided:
      return "undecided";
  }
  return "undecided";
}

std::string Where(const capture::Capture& capture, uint32_t rank_index) {
  const capture::RankData& rank = capture.ranks[rank_index];
  return absl::StrFormat("GPU %d of %s", rank.device.value(), HostInWords(capture, rank_index));
}

ActionTarget TargetOf(const capture::Capture& capture, const Finding& f) {
  ActionTarget target;
  if (f.since_step) target.since = absl::StrFormat(" at step %d", *f.since_step);
  if (f.rank_indices.empty()) return target;
  target.gpu = Where(capture, f.rank_indices[0]);
  target.host = HostInWords(capture, f.rank_indices[0]);
  const capture::RankData& first = capture.ranks[f.rank_indices[0]];
  target.gpu_id =
      first.properties.uuid.empty() ? std::to_string(first.device.value()) : first.properties.uuid;
  std::vector<RankId> ranks;
  for (uint32_t r : f.rank_indices) ranks.push_back(capture.ranks[r].rank);
  target.ranks = RankList(ranks, 3);
  target.leaves_host = f.leaves_host;
  return target;
}

void AddLateness(const RowInput& in, const Finding& f, StragglerRow& row) {
  if (f.rank_indices.empty()) return;
  std::optional<Nanos> late = f.late;
  if (!late && in.steps.count() < analysis::kLeastSteps) {
    late = LatenessFromBefore(in)[f.rank_indices[0]];
    if (late && static_cast<double>(late->ns()) < kLeastShownShare * in.diagnosis.step_ns) late.reset();
  }
  if (!late) return;
  row.evidence.push_back(
      "came " + LengthText(static_cast<double>(late->ns())) + " late from before the window" +
      (f.late && in.steps.count() > 1 ? " of each step" : "") + ": what it did before is not in the capture");
}

// By step: 1 if any of the findings costs time in it. Empty: not known of one of them.
std::vector<uint8_t> AffectedSteps(const analysis::Diagnosis& diagnosis,
                                   const std::vector<uint32_t>& entries) {
  std::vector<uint8_t> affected;
  for (uint32_t e : entries) {
    const std::vector<uint8_t>& own = diagnosis.findings[e].is_affected;
    if (own.empty()) return {};
    affected.resize(own.size(), 0);
    for (size_t k = 0; k < own.size(); ++k) affected[k] |= own[k];
  }
  return affected;
}

}  // namespace

SlowdownRow MakeSlowdownRow(const RowInput& in) {
  const analysis::Diagnosis& d = in.diagnosis;
  SlowdownRow row;
  row.noise_floor_ns_per_step = d.noise_floor_ns;
  if (d.step_durations.empty() || d.step_ns <= 0) return row;
  row.step_ns = d.step_ns;
  if (!d.has_ideal) return row;
  row.ideal_step_ns = d.ideal_step_ns;
  if (d.ideal_step_ns > 0) {
    row.ratio = d.step_ns / d.ideal_step_ns;
    if (d.step_durations.size() >= analysis::kLeastSteps)
      row.interval = Range{d.ratio_interval.low, d.ratio_interval.high};
  }
  row.lost_ns_per_step = d.lost_ns;
  row.noise_ns_per_step = d.noise_ns;
  row.unlisted_ns_per_step = d.unlisted_ns;
  row.unexplained_ns_per_step = d.unexplained_ns;
  return row;
}

std::vector<StragglerRow> MakeStragglerRows(const RowInput& in) {
  std::vector<StragglerRow> rows;
  const auto steps = static_cast<double>(std::max<size_t>(1, in.steps.count()));
  const std::vector<Nanos> caused = analysis::CausedWaitInSteps(in.capture, in.matches, in.times, in.steps);
  for (const Finding& f : in.diagnosis.findings) {
    StragglerRow row;
    row.kind = std::string(analysis::CulpritKindName(f.kind));
    for (uint32_t r : f.rank_indices) {
      row.ranks.push_back(in.capture.ranks[r].rank);
      const std::string host = HostOf(in.capture, r);
      if (!host.empty() && std::find(row.hosts.begin(), row.hosts.end(), host) == row.hosts.end())
        row.hosts.push_back(host);
      row.caused_wait_ns_per_step += static_cast<double>(caused[r].ns()) / steps;
    }
    row.cause = std::string(analysis::CauseName(f.cause));
    row.lost_ns_per_step = f.lost_ns;
    if (in.diagnosis.has_ideal && in.diagnosis.lost_ns > 0) row.share = f.lost_ns / in.diagnosis.lost_ns;
    row.gain_ns_per_step = f.gain_ns;
    if (in.steps.count() >= analysis::kLeastSteps)
      row.gain_interval = Range{f.gain_interval.low, f.gain_interval.high};
    row.verdict = VerdictName(f.verdict);
    row.confidence = f.confidence;
    row.since_step = f.since_step;
    row.until_step = f.until_step;
    row.affected_steps = f.steps_affected;
    row.excess_before_ns = f.before_ns;
    row.excess_since_ns = f.since_ns;
    row.evidence = f.evidence;
    AddLateness(in, f, row);
    row.delayed_ranks = f.delayed_ranks;
    const ActionTarget target = TargetOf(in.capture, f);
    row.action = ActionFor(f.cause, f.kind, target);
    row.fix = FixVerb(f.cause, f.kind, target);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<FixRow> MakeFixRows(const RowInput& in) {
  std::vector<FixRow> rows;
  for (const analysis::FixSet& set : in.diagnosis.fixes) {
    const std::vector<double>& gains = set.gain_per_step;
    FixRow row{.entries = set.entries,
               .gain_ns_per_step =
                   std::accumulate(gains.begin(), gains.end(), 0.0) / static_cast<double>(gains.size())};
    if (gains.size() >= analysis::kLeastSteps) {
      const analysis::Interval95 interval =
          analysis::BootstrapMean(gains, AffectedSteps(in.diagnosis, set.entries));
      row.gain_interval = Range{interval.low, interval.high};
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::report
