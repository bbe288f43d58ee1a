// Where each rank's time on its device went: report.json's `ranks`, by exact interval algebra.
//
//   compute + exposed transfer + exposed wait + exposed unsplit + exposed memory + idle == span, to the
//   nanosecond.
//
// On the rank's own clock, so no alignment touches these numbers.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_TIME_PARTITION_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_TIME_PARTITION_H_

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
  // Sums over the rank's collectives. nullopt when every instance is unsplit.
  std::optional<Nanos> wait, transfer;
  Nanos unsplit;
  Nanos wait_by_clock;
  std::optional<double> overlap_fraction;  // nullopt without communication
  std::optional<double> gpu_utilization, sm_efficiency, achieved_occupancy, tensor_core_fraction;
};

// `parts` are those of this rank.
TimePartition PartitionTime(const store::Capture& capture, const store::RankData& rank,
                            const std::vector<Part>& parts);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_TIME_PARTITION_H_
