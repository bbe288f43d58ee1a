// Computes the peak rate of a device: clock times multiprocessors times FLOP per cycle of one multiprocessor.
// The last factor follows from compute capability and type. Source: NVIDIA's CUDA programming guide,
// arithmetic throughput, and its data sheets.
#ifndef LOCKSTEP_VIEWS_HOST_DEVICE_PEAK_H_
#define LOCKSTEP_VIEWS_HOST_DEVICE_PEAK_H_

#include <optional>
#include <string_view>

#include "capture/model/capture.h"

namespace lockstep::views {

enum class MathUnits { kPlain, kTensorCores };

// Returns FLOP/s without sparsity. `type` is as in Argument::type; float in tensor cores is TF32. nullopt:
// the clock or the number of multiprocessors is unknown, or the type's rate on the device.
std::optional<double> PeakFlopPerS(const capture::DeviceProperties& device, std::string_view type,
                                   MathUnits units);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_DEVICE_PEAK_H_
