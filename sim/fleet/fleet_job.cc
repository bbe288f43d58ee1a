#include "sim/fleet/fleet_job.h"

#include <algorithm>

#include "base/split_mix.h"

namespace lockstep::sim {
namespace {

// Shares of a step, in percent. The rest of a step is its kernels and the gaps between them.
constexpr int64_t kTransferShare = 8;
constexpr int64_t kDelayShare = 1;
constexpr int64_t kSpareShare = 4;

// Lengths of kernels alternate around the mean, in percent of it.
constexpr int64_t kLengths[] = {60, 140};
// Each length differs by up to kNoise of kNoiseUnit.
constexpr int64_t kNoise = 2000;
constexpr int64_t kNoiseUnit = 100'000;

}  // namespace

FleetJob::FleetJob(const FleetJobShape& shape) : shape_(shape) {
  const auto fitting = static_cast<uint32_t>(shape.window.ns() / kShortestStep.ns()) - 1;
  const uint32_t count = std::clamp(shape.rows / kRowsPerStep, 1u, fitting);
  const Nanos step = shape.window / (int64_t{count} + 1);
  transfer_ = step * kTransferShare / 100 / kLayers;
  longest_delay_ = step * kDelayShare / 100;
  const Nanos kernels = step * (100 - kTransferShare - kDelayShare - kSpareShare) / 100 - kCall -
                        kLatency * 2 - kGap * (kLayers * (kKernels + 1));
  const int64_t slow = shape.slow_rank ? shape.slow_by_percent : 0;
  kernel_ = kernels * 100 / (kLayers * kKernels * (100 + slow));

  VirtualTime begin = VirtualTime() + step / 2;
  for (uint32_t i = 0; i < count; ++i) {
    Step& made = steps_.emplace_back();
    made.begin = begin;
    VirtualTime before = begin;
    for (uint32_t layer = 0; layer < kLayers; ++layer)
      before = made.layer_ends[layer] = LastArrival(i, layer, before) + transfer_;
    begin = StepEnd(i);
  }
}

Nanos FleetJob::KernelLength(uint32_t rank, uint32_t step, uint32_t kernel) const {
  const uint64_t place = (uint64_t{step} * kLayers * kKernels + kernel) * shape_.ranks + rank;
  const auto noise = static_cast<int64_t>(Mixed(place * kGolden) % (2 * kNoise + 1)) - kNoise;
  const Nanos healthy = kernel_ * kLengths[kernel % 2] / 100 * (kNoiseUnit + noise) / kNoiseUnit;
  return shape_.slow_rank == rank ? healthy * (100 + int64_t{shape_.slow_by_percent}) / 100 : healthy;
}

Nanos FleetJob::Delay(uint32_t step, uint32_t rank) const {
  return Nanos(static_cast<int64_t>(Mixed(HashCombine(step, rank)) %
                                    static_cast<uint64_t>(std::max<int64_t>(longest_delay_.ns(), 1))));
}

VirtualTime FleetJob::StepBegin(uint32_t step, uint32_t rank) const {
  return steps_[step].begin + Delay(step, rank);
}

Nanos FleetJob::LayerLength(uint32_t rank, uint32_t step, uint32_t layer) const {
  Nanos length;
  for (uint32_t i = 0; i < kKernels; ++i) length += KernelLength(rank, step, layer * kKernels + i) + kGap;
  return length;
}

VirtualTime FleetJob::LastArrival(uint32_t step, uint32_t layer, VirtualTime before) const {
  Nanos latest;
  for (uint32_t rank = 0; rank < shape_.ranks; ++rank) {
    const Nanos begin = layer == 0 ? Delay(step, rank) + kCall + kLatency : kGap;
    latest = std::max(latest, begin + LayerLength(rank, step, layer));
  }
  return before + latest;
}

}  // namespace lockstep::sim
