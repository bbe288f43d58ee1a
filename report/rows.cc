#include "report/rows.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analysis/explain/causes.h"
#include "analysis/time/collective_table.h"
#include "analysis/time/step_breakdown.h"
#include "analysis/time/step_table.h"
#include "base/parallel.h"
#include "report/device_notes.h"

namespace lockstep::report {
namespace {

using capture::RankData;

// Returns the host's lead over the job's clock at the time `t`.
Nanos LeadAt(const capture::HostClock& clock, JobTime t) {
  const double since = static_cast<double>(t.ns() - clock.anchor.ns());
  return clock.offset + Nanos(std::llround(clock.drift * since));
}

std::string MethodName(capture::ClockMethod method) {
  switch (method) {
    case capture::ClockMethod::kNetwork:
      return "network";
    case capture::ClockMethod::kCollectives:
      return "collectives";
    case capture::ClockMethod::kBoth:
      return "both";
    case capture::ClockMethod::kNone:
      return "none";
  }
  return "none";
}

std::optional<Nanos> Known(Nanos bound) {
  if (bound == Nanos::Max()) return std::nullopt;
  return bound;
}

std::optional<std::string> KnownText(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return text;
}

HostTime FirstStamp(const capture::Capture& capture, const RankData& rank) {
  if (!capture.live && rank.window.end > rank.window.start) return rank.window.start;
  HostTime first = HostTime::Max();
  if (!rank.activities.empty()) first = std::min(first, rank.activities.front().start);
  if (!rank.api_calls.empty()) first = std::min(first, rank.api_calls.front().start);
  return first;
}

HostTime LastStamp(const RankData& rank) {
  HostTime last = rank.window.end;
  for (const capture::DeviceActivity& a : rank.activities) last = std::max(last, a.end);
  return last;
}

void AddLosses(const capture::Capture& capture, CaptureRow& row) {
  for (const RankData& rank : capture.ranks) {
    if (rank.unseen_graph_launches > 0)
      row.graphs_not_visible.push_back({rank.rank, rank.unseen_graph_launches});
    for (const capture::Loss& loss : rank.losses) {
      row.losses.push_back({.rank = rank.rank,
                            .stage = loss.stage,
                            .kind = loss.kind,
                            .records = loss.records,
                            .from_ns = loss.from.ns(),
                            .to_ns = loss.to.ns(),
                            .reason = loss.reason});
    }
  }
}

MatchingRow MakeMatchingRow(const RowInput& in) {
  const capture::Matches& m = in.matches;
  MatchingRow row{.matched_fraction = m.MatchedFraction(),
                  .by = {.nccl_seq = m.by_nccl_sequence,
                         .pg_seq = m.by_group_sequence,
                         .order = m.by_order,
                         .graph = m.by_graph,
                         .inferred = m.by_inferred},
                  .conflicts = m.conflicts,
                  .unmatched = m.unmatched,
                  .partial = m.partial,
                  .cut_by_window = m.cut_by_window,
                  .partner_lost = m.partner_lost};
  row.instances = row.by.nccl_seq + row.by.pg_seq + row.by.graph + row.by.order + row.by.inferred;
  return row;
}

// `row` has its begin and its length.
void AddClocks(const RowInput& in, const std::vector<std::string>& hosts, CaptureRow& row) {
  std::optional<JobTime> middle;
  if (row.start_unix_ns) middle = JobTime(*row.start_unix_ns + row.duration->ns() / 2);
  for (size_t h = 0; h < in.clock.hosts().size(); ++h) {
    const capture::HostClock& clock = in.clock.hosts()[h];
    const auto bound = Known(clock.bound);
    row.clock.hosts.push_back(
        {.host = hosts[h],
         .offset = bound ? std::optional(middle ? LeadAt(clock, *middle) : clock.offset) : std::nullopt,
         .drift_ppm = bound ? std::optional(clock.drift * 1e6) : std::nullopt,
         .bound = bound,
         .method = MethodName(clock.method)});
  }
}

// `steps` are the numbers of the last steps of the window.
std::string UnfinishedText(const std::vector<int64_t>& steps) {
  if (steps.size() == 1) {
    return absl::StrCat("step ", steps.front(),
                        " is not used: the window ended before all of its device work was done");
  }
  return absl::StrCat("steps ", steps.front(), " to ", steps.back(),
                      " are not used: the window ended before all of their device work was done");
}

// Adds remarks that a reader of the numbers needs.
void AddNotes(const RowInput& in, const std::vector<std::string>& hosts, CaptureRow& row) {
  row.notes = in.capture.notes;
  if (!in.steps.how.empty()) row.notes.push_back(in.steps.how);
  if (in.steps.begin_unknown)
    row.notes.push_back("step " + std::to_string(*in.steps.begin_unknown) +
                        " is not used: nothing was recorded before it, so its begin is uncertain");
  if (!in.steps.unfinished.empty()) row.notes.push_back(UnfinishedText(in.steps.unfinished));
  for (std::string& note : DeviceNotes(in.capture, hosts)) row.notes.push_back(std::move(note));
  for (size_t h = 0; h < in.clock.hosts().size(); ++h) {
    if (!in.clock.hosts()[h].step_noticed) continue;
    row.notes.push_back("the clock of host " + hosts[h] +
                        " was set during the capture; its bound is widened by that much");
  }
  if (in.diagnosis.edges > 0 && in.diagnosis.cut_edges * 1000 > in.diagnosis.edges) {
    row.notes.push_back("the replay left out " + std::to_string(in.diagnosis.cut_edges) + " of " +
                        std::to_string(in.diagnosis.edges) + " dependencies that the records contradict");
  }
  if (!in.diagnosis.has_ideal) {
    row.notes.push_back(
        "no ideal step is known, so neither is the slowdown: with each kind of work at its median over ranks "
        "and steps a step would take " +
        analysis::LengthText(in.diagnosis.ideal_step_ns) + ", longer than the " +
        analysis::LengthText(in.diagnosis.step_ns) +
        " observed. Ranks that take turns in what they do, or steps that hold different work, have no "
        "typical step");
  }
  if (in.matches.partial > 0) {
    const Nanos most = analysis::MostUnseenWait(in.capture, in.matches, in.times, in.steps) /
                       static_cast<int64_t>(std::max<size_t>(1, in.steps.count()));
    row.notes.push_back(std::to_string(in.matches.partial) +
                        " collectives lack ranks or records: what the others waited for each other is the "
                        "least it can be, and they waited for the "
                        "missing at most " +
                        analysis::LengthText(static_cast<double>(most.ns())) + " per step");
  }
  if (in.times.stalled > 0) {
    row.notes.push_back(std::to_string(in.times.stalled) +
                        " collectives were held up on the rank that came last, while the others were "
                        "through: they did not wait for it");
  }
  if (in.times.disagreeing > 0) {
    row.notes.push_back(
        std::to_string(in.times.disagreeing) +
        " collectives whose waiting differs between durations and clocks by more than the clocks' bound");
  }
}

}  // namespace

std::vector<std::string> HostNames(const capture::Capture& capture) {
  absl::flat_hash_map<std::string_view, uint32_t> seen;
  for (const capture::Host& host : capture.hosts) ++seen[host.name];
  std::vector<std::string> names;
  for (const capture::Host& host : capture.hosts) {
    const bool shared = seen[host.name] > 1 && !host.id.empty();
    names.push_back(shared && !host.name.empty() ? host.name + "/" + host.id : host.ShownName());
  }
  return names;
}

std::vector<std::optional<Nanos>> LatenessFromBefore(const RowInput& in) {
  std::vector<std::optional<Nanos>> late(in.capture.ranks.size());
  if (in.clock.bound() == Nanos::Max()) return late;
  if (in.steps.marked()) return analysis::StepLateness(in.capture, in.clock, in.steps);
  // A live window opens on all ranks at the same time. The first record then says nothing about the rank.
  if (in.capture.live) return late;
  std::vector<JobTime> first;
  JobTime earliest = JobTime::Max();
  for (const RankData& rank : in.capture.ranks) {
    const HostTime stamp = FirstStamp(in.capture, rank);
    first.push_back(stamp == HostTime::Max() ? JobTime::Max() : in.clock.ToJob(rank.host, stamp));
    earliest = std::min(earliest, first.back());
  }
  for (size_t r = 0; r < late.size(); ++r) {
    if (first[r] != JobTime::Max()) late[r] = first[r] - earliest;
  }
  return late;
}

CaptureRow MakeCaptureRow(const RowInput& in) {
  const capture::Capture& c = in.capture;
  CaptureRow row;
  row.id = c.id;
  row.job = c.job;
  row.source = c.live ? "live" : "import";
  row.world_size = c.world_size;
  row.hosts = static_cast<uint32_t>(c.hosts.size());
  row.named_hosts = static_cast<uint32_t>(std::count_if(
      c.hosts.begin(), c.hosts.end(), [](const capture::Host& host) { return !host.name.empty(); }));
  // Without any device work, the window counts as one step.
  row.steps = in.diagnosis.step_ns > 0 ? static_cast<uint32_t>(in.steps.count()) : 0;
  row.missing_ranks = c.missing_ranks;
  row.partial = c.partial();
  for (const capture::IncompleteRank& rank : c.incomplete)
    row.incomplete.push_back(
        {.rank = rank.rank, .reason = rank.reason, .asked = rank.asked, .recorded = rank.recorded});
  JobTime first = JobTime::Max(), last = JobTime::Min();
  for (const RankData& rank : c.ranks) {
    const HostTime start =
        c.live && rank.window.end > rank.window.start ? rank.window.start : FirstStamp(c, rank);
    if (start == HostTime::Max()) continue;
    first = std::min(first, in.clock.ToJob(rank.host, start));
    last = std::max(last, in.clock.ToJob(rank.host, LastStamp(rank)));
  }
  if (first < last) {
    row.start_unix_ns = first.ns();
    row.duration = last - first;
  }
  AddLosses(c, row);
  row.clock.bound = Known(in.clock.bound());
  const std::vector<std::string> hosts = HostNames(c);
  AddClocks(in, hosts, row);
  row.matching = MakeMatchingRow(in);
  AddNotes(in, hosts, row);
  return row;
}

std::vector<RankRow> MakeRankRows(const RowInput& in) {
  const std::vector<std::optional<Nanos>> late = LatenessFromBefore(in);
  const std::vector<Nanos> caused = analysis::CausedWaitInSteps(in.capture, in.matches, in.times, in.steps);
  const std::vector<std::string> hosts = HostNames(in.capture);
  std::vector<RankRow> rows;
  for (size_t r = 0; r < in.capture.ranks.size(); ++r) {
    const RankData& rank = in.capture.ranks[r];
    const analysis::TimePartition& p = in.partitions[r];
    rows.push_back(
        {.rank = rank.rank,
         .host = rank.host < hosts.size() ? hosts[rank.host] : "",
         .device = rank.device.value(),
         .device_name = KnownText(rank.properties.name),
         .device_uuid = KnownText(rank.properties.uuid),
         .pid = rank.pid,
         .incarnation = rank.incarnation,
         .span = p.span,
         .compute = p.compute,
         .communication = p.communication,
         .memory = p.memory,
         .overlap = p.overlap,
         .overlap_fraction = p.overlap_fraction,
         .exposed_communication = p.exposed_communication,
         .exposed_transfer = p.exposed_transfer,
         .exposed_wait = p.exposed_wait,
         .exposed_unsplit = p.exposed_unsplit,
         .exposed_memory = p.exposed_memory,
         .idle = p.idle,
         .wait = p.wait,
         .transfer = p.transfer,
         .unsplit = p.unsplit,
         .wait_by_clock = in.clock.bound() == Nanos::Max() ? std::nullopt : std::optional(p.wait_by_clock),
         .caused_wait = caused[r],
         .late_from_before = late[r],
         .gpu_utilization = p.gpu_utilization,
         .sm_efficiency = p.sm_efficiency,
         .achieved_occupancy = p.achieved_occupancy,
         .tensor_core_fraction = p.tensor_core_fraction});
    rows.back().source_file = rank.source_file;
  }
  return rows;
}

void AddRankGains(const analysis::Diagnosis& diagnosis, std::vector<RankRow>& rows) {
  for (size_t r = 0; r < rows.size() && r < diagnosis.rank_gains.size(); ++r) {
    if (!std::isnan(diagnosis.rank_gains[r])) rows[r].gain_ns_per_step = diagnosis.rank_gains[r];
    rows[r].gain_at_most_ns_per_step = diagnosis.rank_gain_bounds[r];
  }
}

std::vector<StepRow> MakeStepRows(const RowInput& in) {
  std::vector<StepRow> rows(in.steps.count());
  for (size_t k = 0; k < rows.size(); ++k) {
    rows[k].step = in.steps.names[k];
    if (k < in.diagnosis.step_durations.size())
      rows[k].duration = Nanos(static_cast<int64_t>(in.diagnosis.step_durations[k]));
    rows[k].ranks.resize(in.capture.ranks.size());
  }
  std::vector<std::vector<Nanos>> compute(rows.size(), std::vector<Nanos>(in.capture.ranks.size())),
      active = compute;
  ParallelFor(in.threads, in.capture.ranks.size(), [&](unsigned, size_t r) {
    const auto times = analysis::TimeSteps(in.capture.ranks[r], in.steps.ranks[r], in.times.parts[r]);
    for (size_t k = 0; k < times.size() && k < rows.size(); ++k) {
      StepRankRow& row = rows[k].ranks[r];
      row = {.rank = in.capture.ranks[r].rank,
             .duration = times[k].duration,
             .self = times[k].self,
             .wait = times[k].wait,
             .overlap = times[k].overlap};
      if (in.diagnosis.has_ideal && r < in.diagnosis.rank_step_lost.size())
        row.lost = Nanos(std::llround(in.diagnosis.rank_step_lost[r][k]));
      compute[k][r] = times[k].compute;
      active[k][r] = times[k].active;
    }
  });
  for (size_t k = 0; k < rows.size(); ++k)
    rows[k].efficiency = ToRow(analysis::EfficiencyOf(compute[k], active[k], rows[k].duration));
  return rows;
}

std::vector<BreakdownRow> MakeBreakdownRows(const RowInput& in) {
  std::vector<BreakdownRow> rows(in.capture.ranks.size());
  ParallelFor(in.threads, rows.size(), [&](unsigned, size_t r) {
    const analysis::StepBreakdown b =
        analysis::BreakDownSteps(in.capture, in.capture.ranks[r], in.steps.ranks[r]);
    rows[r] = {.rank = in.capture.ranks[r].rank,
               .kernel = b.kernel,
               .memcpy = b.memcpy,
               .memset = b.memset,
               .communication = b.communication,
               .runtime = b.runtime,
               .dataloader = b.dataloader,
               .cpu_exec = b.cpu_exec,
               .other = b.other};
  });
  return rows;
}

std::vector<CollectiveRow> MakeCollectiveRows(const RowInput& in) {
  std::vector<CollectiveRow> rows;
  for (const analysis::CollectiveSummary& s :
       analysis::SummarizeCollectives(in.capture, in.matches, in.clock, in.times)) {
    const capture::Group& group = in.capture.groups[s.group];
    CollectiveRow row{.group = group.ShownName(),
                      .group_size = s.group_size,
                      .op = std::string(capture::CollectiveOpName(s.op)),
                      .count = s.count,
                      .bytes = s.bytes,
                      .bytes_count = s.bytes_count,
                      .duration = s.duration,
                      .wait = s.wait,
                      .transfer = s.transfer,
                      .skew = {s.skew_mean, s.skew_p50, s.skew_p99, s.skew_max},
                      .skew_counts = s.skew_counts,
                      .algbw_gbps = s.algorithm_gbps,
                      .busbw_gbps = s.bus_gbps};
    for (const auto& [rank_index, times] : s.last_arrivals) {
      row.last_arrivals.push_back({in.capture.ranks[rank_index].rank, times});
    }
    row.members = group.members;
    std::sort(row.members.begin(), row.members.end());
    for (const analysis::SizeBandwidth& size : s.sizes) {
      row.sizes_bytes.push_back(size.bytes);
      row.sizes_busbw_gbps.push_back(size.bus_gbps);
      row.sizes_counts.push_back(size.count);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace lockstep::report
