// How full a kernel can make a multiprocessor: CUDA's occupancy rules, from what is known of the launch and
// the device.
//
// The rules and limits are those that NVIDIA documents for each compute capability (CUDA C++ Programming
// Guide, compute capabilities; occupancy calculator). Pure; any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_OCCUPANCY_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_OCCUPANCY_H_

#include <cstdint>
#include <optional>

#include "capture/model/capture.h"

namespace lockstep::analysis {

// Blocks of the kernel that fit on one multiprocessor together; 0: not even one, as far as the records tell.
// nullopt: block, registers or the device's compute capability are not known.
std::optional<int32_t> ResidentBlocks(const store::KernelDetail& detail,
                                      const store::DeviceProperties& device);

// Resident warps over the most that the multiprocessor takes.
std::optional<double> TheoreticalOccupancy(const store::KernelDetail& detail,
                                           const store::DeviceProperties& device);

// Kineto's "est. achieved occupancy %" as a fraction: as the source states it, else the threads of the kernel
// that a multiprocessor has at once (no more than fit, no more than there are) over the most that it takes.
// nullopt: not stated, and it cannot be told, or the kernel would not fit at all.
std::optional<double> EstimatedOccupancy(const store::KernelDetail& detail,
                                         const store::DeviceProperties& device);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_OCCUPANCY_H_
