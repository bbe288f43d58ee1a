#include "analysis/time/time_partition.h"

#include <algorithm>
#include <span>

#include "analysis/time/utilization.h"

namespace lockstep::analysis {
namespace {

using capture::DeviceActivity;
using capture::WorkType;
using Set = IntervalSet<HostTime>;

struct CommunicationParts {
  Set wait, transfer, unsplit;
};

// Calls use(activity, part) once for each communication kernel with collectives.
template <typename Use>
void ForEachKernel(const capture::RankData& rank, const std::vector<Part>& parts, const Use& use) {
  const auto& rows = rank.collectives;
  for (size_t first = 0, end = 0; first < rows.size(); first = end) {
    while (end < rows.size() && rows[end].activity == rows[first].activity) ++end;
    if (rows[first].activity >= rank.activities.size()) continue;
    use(rank.activities[rows[first].activity], PartOfKernel(std::span(parts).subspan(first, end - first)));
  }
}

// Divides each kernel into its parts. A communication kernel or copy without a collective is unsplit.
CommunicationParts CutCommunication(const capture::RankData& rank, const std::vector<Part>& parts) {
  std::vector<HostInterval> wait, transfer, unsplit;
  ForEachKernel(rank, parts, [&](const DeviceActivity& a, const Part& part) {
    if (!part.split) {
      unsplit.push_back({a.start, a.end});
      return;
    }
    wait.push_back({a.start, a.start + part.wait});
    transfer.push_back({a.start + part.wait, a.end});
  });
  for (const DeviceActivity& a : rank.activities) {
    if (a.type() == WorkType::kCommunication && a.collective == capture::kNone)
      unsplit.push_back({a.start, a.end});
  }
  return {Normalize(std::move(wait)), Normalize(std::move(transfer)), Normalize(std::move(unsplit))};
}

// Adds up the parts of the rank's kernels.
void SumCommunication(const capture::RankData& rank, const std::vector<Part>& parts, TimePartition& out) {
  Nanos waited, transferred;
  bool any_split = false;
  ForEachKernel(rank, parts, [&](const DeviceActivity& a, const Part& part) {
    const Nanos duration = std::max(Nanos(), a.end - a.start);
    if (!part.split) {
      out.unsplit += duration;
      return;
    }
    any_split = true;
    waited += part.wait;
    transferred += duration - part.wait;
    out.wait_by_clock += part.wait_by_clock;
  });
  for (const DeviceActivity& a : rank.activities) {
    if (a.type() == WorkType::kCommunication && a.collective == capture::kNone)
      out.unsplit += std::max(Nanos(), a.end - a.start);
  }
  if (any_split || rank.collectives.empty()) {
    out.wait = waited;
    out.transfer = transferred;
  }
}

}  // namespace

DeviceSets DeviceSetsOf(const capture::RankData& rank, const std::vector<Part>& parts) {
  DeviceSets out;
  for (const DeviceActivity& a : rank.activities) {
    Set& set = a.type() == WorkType::kMemory          ? out.memory
               : a.type() == WorkType::kCommunication ? out.communication
                                                      : out.compute;
    AppendInOrder(set, {a.start, a.end});
  }
  const CommunicationParts c = CutCommunication(rank, parts);
  out.exposed_transfer = Subtract(c.transfer, out.compute);
  out.exposed_wait = Subtract(Subtract(c.wait, out.compute), c.transfer);
  out.exposed_unsplit = Subtract(Subtract(Subtract(c.unsplit, out.compute), c.transfer), c.wait);
  const Set kernels = Union(out.compute, out.communication);
  out.exposed_memory = Subtract(out.memory, kernels);
  out.busy = Union(kernels, out.memory);
  return out;
}

TimePartition PartitionTime(const capture::Capture& capture, const capture::RankData& rank,
                            const std::vector<Part>& parts) {
  TimePartition out;
  SumCommunication(rank, parts, out);
  if (rank.activities.empty()) return out;
  const DeviceSets sets = DeviceSetsOf(rank, parts);
  HostTime last = rank.activities.front().end;
  for (const DeviceActivity& a : rank.activities) last = std::max(last, a.end);
  out.span = last - rank.activities.front().start;
  out.compute = Measure(sets.compute);
  out.communication = Measure(sets.communication);
  out.memory = Measure(sets.memory);
  out.overlap = Measure(Intersect(sets.compute, sets.communication));
  out.exposed_communication = out.communication - out.overlap;
  out.exposed_transfer = Measure(sets.exposed_transfer);
  out.exposed_wait = Measure(sets.exposed_wait);
  out.exposed_unsplit = Measure(sets.exposed_unsplit);
  out.exposed_memory = Measure(sets.exposed_memory);
  out.idle = out.span - Measure(sets.busy);
  if (out.communication > Nanos()) {
    out.overlap_fraction =
        static_cast<double>(out.overlap.ns()) / static_cast<double>(out.communication.ns());
  }
  if (out.span > Nanos()) {
    const Nanos kernels = out.compute + out.exposed_communication;
    out.gpu_utilization = static_cast<double>(kernels.ns()) / static_cast<double>(out.span.ns());
  }
  out.sm_efficiency = SmEfficiency(rank, out.span);
  out.achieved_occupancy = AchievedOccupancy(rank);
  out.tensor_core_fraction = TensorCoreFraction(capture, rank);
  return out;
}

}  // namespace lockstep::analysis
