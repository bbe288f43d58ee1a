// Computes the efficiencies of the report: of the job, of each group, and of each rank.
#include <algorithm>

#include "analysis/time/efficiency.h"
#include "report/rows.h"

namespace lockstep::report {
namespace {

// Returns the time from the first start to the last end of device work on any rank.
Nanos Elapsed(const RowInput& in) {
  JobTime first = JobTime::Max(), last = JobTime::Min();
  for (size_t r = 0; r < in.capture.ranks.size(); ++r) {
    const capture::RankData& rank = in.capture.ranks[r];
    if (rank.activities.empty()) continue;
    const JobTime start = in.clock.ToJob(rank.host, rank.activities.front().start);
    first = std::min(first, start);
    last = std::max(last, start + in.partitions[r].span);
  }
  return first < last ? last - first : Nanos();
}

// Adds transfer and serialisation. Serialisation is the efficiency that the dependencies alone allow: the
// product of a typical job's part (pipeline bubble, order of collectives) and the stragglers' part.
void AddSerialisation(const analysis::Diagnosis& d, double most_compute, double elapsed, EfficiencyRow& row) {
  if (d.step_ns <= 0 || d.transfer_free_step_ns <= 0) return;
  row.transfer = d.transfer_free_step_ns / d.step_ns;
  row.serialisation = (most_compute / elapsed) / *row.transfer;
  if (!d.has_ideal || d.ideal_transfer_free_step_ns <= 0 || d.ideal_compute_ns <= 0) return;
  row.serialisation_typical = d.ideal_compute_ns / d.ideal_transfer_free_step_ns;
  row.serialisation_stragglers = *row.serialisation / *row.serialisation_typical;
}

void AddGroups(const RowInput& in, std::span<const Nanos> compute, std::span<const Nanos> active,
               Nanos elapsed, EfficiencyRow& row) {
  std::vector<std::vector<uint32_t>> members(in.capture.groups.size());
  for (const capture::Instance& instance : in.matches.instances) {
    if (!instance.complete || instance.group >= members.size() ||
        instance.members.size() <= members[instance.group].size())
      continue;
    members[instance.group].clear();
    for (const capture::Member& m : instance.members) members[instance.group].push_back(m.rank_index);
  }
  for (uint32_t g = 0; g < members.size(); ++g) {
    if (members[g].size() < 2 || members[g].size() == in.capture.ranks.size()) continue;
    std::vector<Nanos> group_compute, group_active;
    for (uint32_t r : members[g]) {
      group_compute.push_back(compute[r]);
      group_active.push_back(active[r]);
    }
    const capture::Group& group = in.capture.groups[g];
    row.groups.push_back({.group = group.ShownName(),
                          .ranks = static_cast<uint32_t>(members[g].size()),
                          .factors = ToRow(analysis::EfficiencyOf(group_compute, group_active, elapsed))});
  }
}

}  // namespace

EfficiencyFactors ToRow(const analysis::Efficiency& e) {
  return {e.parallel, e.load_balance, e.communication, e.orchestration};
}

EfficiencyRow MakeEfficiencyRow(const RowInput& in) {
  EfficiencyRow row;
  std::vector<Nanos> compute, active;
  for (const analysis::TimePartition& p : in.partitions) {
    compute.push_back(p.compute);
    active.push_back(p.span - p.idle);
  }
  const Nanos elapsed = Elapsed(in);
  row.factors = ToRow(analysis::EfficiencyOf(compute, active, elapsed));
  if (!row.factors.parallel) return row;
  const analysis::LoadBalance split = analysis::SplitLoadBalance(compute, in.diagnosis.layout);
  row.load_balance_stage = split.stage;
  row.load_balance_data = split.data;
  row.load_balance_tensor = split.tensor;
  AddSerialisation(in.diagnosis, static_cast<double>(std::max_element(compute.begin(), compute.end())->ns()),
                   static_cast<double>(elapsed.ns()), row);
  if (in.diagnosis.has_ideal && in.diagnosis.step_ns > 0)
    row.critical_communication_ns_per_step = in.diagnosis.critical_communication_ns;
  AddGroups(in, compute, active, elapsed, row);
  return row;
}

void AddRankEfficiencies(const RowInput& in, std::vector<RankRow>& rows) {
  const auto elapsed = static_cast<double>(Elapsed(in).ns());
  for (size_t r = 0; r < rows.size() && elapsed > 0; ++r)
    rows[r].parallel_efficiency = static_cast<double>(in.partitions[r].compute.ns()) / elapsed;
}

}  // namespace lockstep::report
