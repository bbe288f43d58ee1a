#include "analysis/time/time_partition.h"

#include <algorithm>

#include "analysis/time/utilization.h"

namespace lockstep::analysis {
namespace {

using capture::ActivityKind;
using capture::DeviceActivity;
using Set = IntervalSet<HostTime>;

struct Unions {
  Set compute, communication, memory;
};

Unions UnionsOf(const capture::RankData& rank) {
  Unions u;
  for (const DeviceActivity& a : rank.activities) {
    Set& set = a.kind != ActivityKind::kKernel ? u.memory : a.communication ? u.communication : u.compute;
    AppendInOrder(set, {a.start, a.end});
  }
  return u;
}

struct CommunicationParts {
  Set wait, transfer, unsplit;
};

// Divides each collective into its parts. A communication kernel without a collective is unsplit.
CommunicationParts CutCommunication(const capture::RankData& rank, const std::vector<Part>& parts,
                                    TimePartition& out) {
  std::vector<HostInterval> wait, transfer, unsplit;
  Nanos waited, transferred;
  bool any_split = false;
  for (size_t i = 0; i < rank.collectives.size(); ++i) {
    if (rank.collectives[i].activity >= rank.activities.size()) continue;
    const DeviceActivity& a = rank.activities[rank.collectives[i].activity];
    const Nanos duration = std::max(Nanos(), a.end - a.start);
    const Part& part = parts[i];
    if (!part.split) {
      unsplit.push_back({a.start, a.end});
      out.unsplit += duration;
      continue;
    }
    any_split = true;
    wait.push_back({a.start, a.start + part.wait});
    transfer.push_back({a.start + part.wait, a.end});
    waited += part.wait;
    transferred += duration - part.wait;
    out.wait_by_clock += part.wait_by_clock;
  }
  for (const DeviceActivity& a : rank.activities) {
    if (a.kind != ActivityKind::kKernel || !a.communication || a.collective != capture::kNone) continue;
    unsplit.push_back({a.start, a.end});
    out.unsplit += std::max(Nanos(), a.end - a.start);
  }
  if (any_split || rank.collectives.empty()) {
    out.wait = waited;
    out.transfer = transferred;
  }
  return {Normalize(std::move(wait)), Normalize(std::move(transfer)), Normalize(std::move(unsplit))};
}

}  // namespace

TimePartition PartitionTime(const capture::Capture& capture, const capture::RankData& rank,
                            const std::vector<Part>& parts) {
  TimePartition out;
  const CommunicationParts c = CutCommunication(rank, parts, out);
  if (rank.activities.empty()) return out;
  const Unions u = UnionsOf(rank);
  HostTime last = rank.activities.front().end;
  for (const DeviceActivity& a : rank.activities) last = std::max(last, a.end);
  out.span = last - rank.activities.front().start;
  out.compute = Measure(u.compute);
  out.communication = Measure(u.communication);
  out.memory = Measure(u.memory);
  out.overlap = Measure(Intersect(u.compute, u.communication));
  out.exposed_communication = out.communication - out.overlap;
  const Set transfer = Subtract(c.transfer, u.compute);
  const Set wait = Subtract(Subtract(c.wait, u.compute), c.transfer);
  const Set unsplit = Subtract(Subtract(Subtract(c.unsplit, u.compute), c.transfer), c.wait);
  out.exposed_transfer = Measure(transfer);
  out.exposed_wait = Measure(wait);
  out.exposed_unsplit = Measure(unsplit);
  const Set kernels = Union(u.compute, u.communication);
  out.exposed_memory = Measure(Subtract(u.memory, kernels));
  out.idle = out.span - Measure(Union(kernels, u.memory));
  if (out.communication > Nanos()) {
    out.overlap_fraction =
        static_cast<double>(out.overlap.ns()) / static_cast<double>(out.communication.ns());
  }
  if (out.span > Nanos()) {
    out.gpu_utilization = static_cast<double>(Measure(kernels).ns()) / static_cast<double>(out.span.ns());
  }
  out.sm_efficiency = SmEfficiency(rank, out.span);
  out.achieved_occupancy = AchievedOccupancy(rank);
  out.tensor_core_fraction = TensorCoreFraction(capture, rank);
  return out;
}

}  // namespace lockstep::analysis
