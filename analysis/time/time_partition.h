// Partition of each rank's time on its device: report.json's `ranks`, by exact interval algebra.
//
// compute + exposed transfer + exposed wait + exposed unsplit + exposed memory + idle == span, to the
// nanosecond.
//
// Times are on the rank's own clock, so clock alignment does not change them.
#ifndef LOCKSTEP_ANALYSIS_TIME_TIME_PARTITION_H_
#define LOCKSTEP_ANALYSIS_TIME_TIME_PARTITION_H_

#include <optional>

#include "analysis/prepare/collectives.h"
#include "analysis/time/intervals.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

struct TimePartition {
  Nanos span;
  Nanos compute, communication, memory;  // unions
  Nanos overlap;
  Nanos exposed_communication, exposed_transfer, exposed_wait, exposed_unsplit, exposed_memory, idle;
  // Sums over the rank's collectives. nullopt: every instance is unsplit.
  std::optional<Nanos> wait, transfer;
  Nanos unsplit;
  Nanos wait_by_clock;
  std::optional<double> overlap_fraction;  // nullopt without communication
  std::optional<double> gpu_utilization, sm_efficiency, achieved_occupancy, tensor_core_fraction;
};

// When the device does what, on the rank's own clock. The exposed sets and `compute` are disjoint; together
// they are `busy`.
struct DeviceSets {
  IntervalSet<HostTime> compute, communication, memory;
  IntervalSet<HostTime> exposed_transfer, exposed_wait, exposed_unsplit, exposed_memory;
  IntervalSet<HostTime> busy;
};

// `parts` are those of this rank.
DeviceSets DeviceSetsOf(const capture::RankData& rank, const std::vector<Part>& parts);

// `parts` are those of this rank.
TimePartition PartitionTime(const capture::Capture& capture, const capture::RankData& rank,
                            const std::vector<Part>& parts);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_TIME_PARTITION_H_
