// Occupancy of a multiprocessor by a kernel: CUDA's occupancy rules, applied to the known facts of the launch
// and the device.
//
// The rules and limits are those that NVIDIA documents for each compute capability (CUDA C++ Programming
// Guide, compute capabilities; occupancy calculator). Pure; any thread.
#ifndef LOCKSTEP_ANALYSIS_TIME_OCCUPANCY_H_
#define LOCKSTEP_ANALYSIS_TIME_OCCUPANCY_H_

#include <cstdint>
#include <optional>

#include "capture/model/capture.h"

namespace lockstep::analysis {

// Number of the kernel's blocks that fit on one multiprocessor together. 0: by the records, not even one
// fits. nullopt: block, registers or the device's compute capability are unknown.
std::optional<int32_t> ResidentBlocks(const capture::KernelDetail& detail,
                                      const capture::DeviceProperties& device);

// Resident warps over the largest number that the multiprocessor takes.
std::optional<double> TheoreticalOccupancy(const capture::KernelDetail& detail,
                                           const capture::DeviceProperties& device);

// Kineto's "est. achieved occupancy %" as a fraction, from the source if it states one. Otherwise, it is the
// number of the kernel's threads on a multiprocessor at once, over the largest number that it takes. The
// blocks are limited to those that fit, and to those that the grid has per multiprocessor. nullopt: not
// stated, and unknown or impossible by the records.
std::optional<double> EstimatedOccupancy(const capture::KernelDetail& detail,
                                         const capture::DeviceProperties& device);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_TIME_OCCUPANCY_H_
