// Finds steps and communication as torch-tb-profiler does, for comparisons with its pages (--method tb).
// docs/views/distributed.md explains the differences from Lockstep's.
#ifndef LOCKSTEP_VIEWS_DEVICE_TENSORBOARD_RULES_H_
#define LOCKSTEP_VIEWS_DEVICE_TENSORBOARD_RULES_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/time/step_breakdown.h"
#include "capture/model/capture.h"
#include "views/host/process.h"

namespace lockstep::views {

struct TensorBoardStep {
  std::optional<int64_t> number;  // number of its ProfilerStep#; nullopt: the whole capture is one step
  HostInterval time;  // from the end of the previous step to the end of the device work launched in it
};

// Empty only if the process has neither operators nor activities. The last step is left out if it launched
// less than 80 % of the work of the step before it.
std::vector<TensorBoardStep> TensorBoardSteps(const capture::Capture& capture, const Process& process);

// Communication is the time of the host frames of TensorBoardOps, and of the kernels that are joined to them.
// All other kernels, including communication, count as kernels. Needs frames.
analysis::StepKinds TensorBoardKinds(const capture::Capture& capture, const Process& process);

// A host frame with the name of one of the five NCCL operations that the plugin knows. The plugin joins
// kernels to it by "External id". PyTorch since 1.8 writes another number there, so the plugin measures the
// frame on the host alone. In Lockstep's traces the numbers are equal.
struct TensorBoardOp {
  std::string_view name;             // "nccl:all_reduce"
  HostInterval time;                 // of the frame
  std::vector<HostInterval> ranges;  // the frame and its kernels, by start
  std::optional<int64_t> step;       // a TensorBoardStep::number; nullopt: in no step
  int64_t bytes = 0;                 // bytes of its arguments, if shapes were recorded
};

// Returns the operations in the order of time.
std::vector<TensorBoardOp> TensorBoardOps(const capture::Capture& capture, const Process& process,
                                          const std::vector<TensorBoardStep>& steps);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_TENSORBOARD_RULES_H_
