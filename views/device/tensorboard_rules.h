// Steps and communication as torch-tb-profiler counts them, for who compares with its pages (--method tb).
// Where ours differ, and why: docs/views.md.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_TENSORBOARD_RULES_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_TENSORBOARD_RULES_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/time/step_breakdown.h"
#include "capture/model/capture.h"
#include "views/host/process.h"

namespace lockstep::views {

struct TensorBoardStep {
  std::optional<int64_t> number;  // of its ProfilerStep#; nullopt: none, all is one step
  HostInterval time;  // from the end of the one before to the end of the device work launched in it
};

// Never empty where the process has frames or activities. The last one is left out where it has less than 80
// % of the launches of the one before.
std::vector<TensorBoardStep> TensorBoardSteps(const store::Capture& capture, const Process& process);

// Every kernel is a kernel; communication is the host's frames of TensorBoardOps. Needs frames.
analysis::StepKinds TensorBoardKinds(const store::Capture& capture, const Process& process);

// A host frame named as one of the five operations of NCCL that it knows. It joins kernels to them by
// "External id", which PyTorch since 1.8 has written as another number there, so it times the frame on the
// host.
struct TensorBoardOp {
  std::string_view name;  // "nccl:all_reduce"
  HostInterval time;
  std::optional<int64_t> step;  // a TensorBoardStep::number; nullopt: in none
  int64_t bytes = 0;            // of its arguments, where shapes were recorded
};

// In the order of time.
std::vector<TensorBoardOp> TensorBoardOps(const store::Capture& capture, const Process& process,
                                          const std::vector<TensorBoardStep>& steps);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_TENSORBOARD_RULES_H_
