// How busy a device was and how well its kernels filled it, as far as the records tell.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_UTILIZATION_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_UTILIZATION_H_

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::analysis {

// Blocks of the grid per multiprocessor: as the trace states it, else from both numbers. nullopt: neither is
// known.
std::optional<double> BlocksPerSm(const store::KernelDetail& detail, int32_t sms);

// Time average over the span of min(1, blocks per multiprocessor of the kernels that run). nullopt where no
// kernel states its grid and the device its multiprocessors.
std::optional<double> SmEfficiency(const store::RankData& rank, Nanos span);

// The same over time, for counters: bins of equal width from the first start of a kernel on. Fractions of
// each bin; their means are the span's figures where the span is all bins.
struct UtilizationSeries {
  HostTime start;
  Nanos width;
  std::vector<double> busy;           // a kernel runs, communication included
  std::vector<double> sm_efficiency;  // as SmEfficiency; empty where that is unknown
};
// `width` > 0. No bins without kernels, or where there would be more than `most`.
UtilizationSeries MeasureUtilization(const store::RankData& rank, Nanos width, size_t most);

// Mean over kernels, weighted by duration, of EstimatedOccupancy (occupancy.h). nullopt where that is known
// of none.
std::optional<double> AchievedOccupancy(const store::RankData& rank);

// Part of the compute kernels' time in kernels whose name says that they use tensor cores. nullopt without
// compute kernels.
std::optional<double> TensorCoreFraction(const store::Capture& capture, const store::RankData& rank);
bool NamesTensorCores(std::string_view kernel);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_UTILIZATION_H_
