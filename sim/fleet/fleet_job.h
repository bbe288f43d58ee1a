// FleetJob is a data-parallel job in virtual time, made to fit a capture's window.
//
// A step has kLayers layers. A layer has kKernels kernels and an all-reduce of all ranks behind them, on one
// stream. An all-reduce ends on all ranks together, a transfer time after the last rank has begun it. At its
// end the host waits for the stream. Each rank begins a step a little later than the end of the wait. That
// delay and the noise of the kernels' lengths are hashes of their places, so a job is the same in every run.
//
// Immutable, so any thread may use it. Its memory grows with the steps, not with the ranks.
#ifndef LOCKSTEP_SIM_FLEET_FLEET_JOB_H_
#define LOCKSTEP_SIM_FLEET_FLEET_JOB_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace lockstep::sim {

struct FleetJobShape {
  uint32_t ranks = 1;
  uint32_t rows = 0;  // per rank
  std::optional<uint32_t> slow_rank;
  uint32_t slow_by_percent = 0;
  Nanos window;  // of the capture, from virtual time 0
};

class FleetJob {
 public:
  static constexpr uint32_t kLayers = 4;
  static constexpr uint32_t kKernels = 10;  // per layer
  static constexpr uint32_t kRowsPerStep = kLayers * (2 * kKernels + 4) + 3;
  static constexpr Nanos kShortestStep = Nanos::Micros(400);
  static constexpr Nanos kCall = Nanos::Micros(3);     // length of a call that launches
  static constexpr Nanos kLatency = Nanos::Micros(2);  // from the device to the host, and back
  static constexpr Nanos kGap = Nanos(500);            // between the kernels of a stream

  // `shape` has a window of at least 2 ms and at least one rank.
  explicit FleetJob(const FleetJobShape& shape);

  const FleetJobShape& shape() const { return shape_; }
  uint32_t steps() const { return static_cast<uint32_t>(steps_.size()); }
  // The begin of the step on a rank's host. The last step ends before the window.
  VirtualTime StepBegin(uint32_t step, uint32_t rank) const;
  // The end of the all-reduce behind a layer, the same on all ranks.
  VirtualTime LayerEnd(uint32_t step, uint32_t layer) const { return steps_[step].layer_ends[layer]; }
  // The return of the host's wait at the end of the step.
  VirtualTime StepEnd(uint32_t step) const { return LayerEnd(step, kLayers - 1) + kLatency; }
  // `kernel` counts from the begin of the step, without the all-reduces.
  Nanos KernelLength(uint32_t rank, uint32_t step, uint32_t kernel) const;

 private:
  struct Step {
    VirtualTime begin;  // of the earliest possible rank
    std::array<VirtualTime, kLayers> layer_ends;
  };
  Nanos Delay(uint32_t step, uint32_t rank) const;
  // Returns the time from the first kernel of a layer to the begin of its all-reduce.
  Nanos LayerLength(uint32_t rank, uint32_t step, uint32_t layer) const;
  // Returns the begin of the all-reduce on the last rank, if the layer before has ended at `before`.
  VirtualTime LastArrival(uint32_t step, uint32_t layer, VirtualTime before) const;

  const FleetJobShape shape_;
  Nanos kernel_;  // mean length on a healthy rank
  Nanos transfer_;
  Nanos longest_delay_;
  std::vector<Step> steps_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_FLEET_FLEET_JOB_H_
