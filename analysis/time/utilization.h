// Utilisation of a device and of its multiprocessors, as far as the records show it.
#ifndef LOCKSTEP_ANALYSIS_TIME_UTILIZATION_H_
#define LOCKSTEP_ANALYSIS_TIME_UTILIZATION_H_

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::analysis {

// Blocks of the grid per multiprocessor: from the trace, or computed from both numbers. nullopt: neither is
// known.
std::optional<double> BlocksPerSm(const capture::KernelDetail& detail, int32_t sms);

// Average over the span of min(1, blocks per multiprocessor of the running kernels). nullopt: for no kernel,
// both its grid and the device's number of multiprocessors are known.
std::optional<double> SmEfficiency(const capture::RankData& rank, Nanos span);

// The same values over time, for counters, in bins of equal width from the first start of a kernel on. Values
// are fractions of each bin. Their means are the span's figures if the bins cover the span.
struct UtilizationSeries {
  HostTime start;
  Nanos width;
  std::vector<double> busy;           // a kernel runs, communication included
  std::vector<double> sm_efficiency;  // as SmEfficiency; empty if it is unknown
};
// `width` > 0. Returns no bins without kernels, or if there would be more than `most`.
UtilizationSeries MeasureUtilization(const capture::RankData& rank, Nanos width, size_t most);

// Mean of EstimatedOccupancy (occupancy.h) over kernels, weighted by duration. nullopt: it is known for no
// kernel.
std::optional<double> AchievedOccupancy(const capture::RankData& rank);

// Share of the compute kernels' time in kernels whose names indicate tensor cores. nullopt without compute
// kernels.
std::optional<double> TensorCoreFraction(const capture::Capture& capture, const capture::RankData& rank);
bool NamesTensorCores(std::string_view kernel);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_UTILIZATION_H_
