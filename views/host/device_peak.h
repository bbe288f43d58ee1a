// The most a device can do, of what is known of it: clock times multiprocessors times what one of them does
// in a cycle, which follows from the compute capability and the type (NVIDIA's CUDA programming guide,
// arithmetic throughput, and its data sheets).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_PEAK_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_PEAK_H_

#include <optional>
#include <string_view>

#include "capture/model/capture.h"

namespace lockstep::views {

enum class MathUnits { kPlain, kTensorCores };

// FLOP/s without sparsity. `type` as in Argument::type; float in tensor cores is TF32. nullopt: clock or
// multiprocessors are not known, or nothing is known of the type on such a device.
std::optional<double> PeakFlopPerS(const store::DeviceProperties& device, std::string_view type,
                                   MathUnits units);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_DEVICE_PEAK_H_
