#include "report/actions.h"

#include <algorithm>
#include <utility>

namespace lockstep::report {

using analysis::Cause;
using analysis::CulpritKind;

namespace {

// The option of nvidia-smi that selects the GPU.
std::string Selected(const ActionTarget& t) { return t.gpu_id.empty() ? "" : " -i " + t.gpu_id; }

}  // namespace

std::string ActionFor(Cause cause, CulpritKind kind, const ActionTarget& t) {
  const bool host = kind == CulpritKind::kHost;
  switch (cause) {
    case Cause::kGpuClock:
      return host ? "read power cap, temperature and cooling of all GPUs of " + t.host +
                        " (nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE,PIDS); drain it if they stay "
                        "slow"
                  : "read clocks, power limit and temperature of " + t.gpu +
                        " (nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE,PIDS" + Selected(t) +
                        "). Replace it if its clocks stay low under load";
    case Cause::kGpuMemory:
      return "read row-remap and ECC counters of " + t.gpu + " (nvidia-smi -q -d ECC,ROW_REMAPPER" +
             Selected(t) + "); replace it if they grow";
    case Cause::kContention:
      return "lower the channels of communication that runs beside compute on " + t.gpu +
             ", or find what else uses this GPU";
    case Cause::kHostLaunch:
      return "pin the process of " + t.ranks +
             " to cores near its GPU, or capture its launches in a CUDA graph";
    case Cause::kDataLoader:
      return "look at the data loader of " + t.ranks +
             " (workers, prefetch, its part of the data), then compare storage and processors of " + t.host +
             " with other hosts'";
    case Cause::kHostPause:
      return kind == CulpritKind::kJob
                 ? "find what stops the hosts (lockstep trace --python-profile shows it). Garbage "
                   "collection: "
                   "disable the automatic one, and collect rarely, on all ranks at the same step. Else "
                   "logging, a lock"
                 : "find what stops the process of " + t.ranks +
                       " (input, garbage collection, logging, a lock): lockstep trace --python-profile shows "
                       "it";
    case Cause::kHostAllocator:
      return "reserve memory ahead on " + t.ranks +
             " (caching allocator, no frees in the step) and load modules before training";
    case Cause::kCpuContention:
      return "find other processes on " + t.host + " and free its cores; pin the ranks";
    case Cause::kSlowLink:
      if (!host && t.leaves_host)
        return "check the network card that " + t.gpu +
               " uses: link speed, error counters, cable (ibstat; ethtool -S), then the switch port";
      return host ? "check the network card of " + t.host +
                        ": link speed, error counters, cable (ibstat; ethtool -S)"
                  : "check link speed and error counters of " + t.gpu + " (nvidia-smi nvlink -s" +
                        Selected(t) + "; nvidia-smi nvlink -e" + Selected(t) +
                        "), its PCIe link and its network card";
    case Cause::kCongestion:
      return "look at congestion counters of the switches between these hosts; move or shape other traffic";
    case Cause::kStageImbalance:
      return "move layers off this stage, so that all stages compute equally long";
    case Cause::kSequenceImbalance:
      return "balance batches by the sum of squared sequence lengths, over replicas and microbatches";
    case Cause::kExpertImbalance:
      return "balance the experts: auxiliary loss, capacity factor, or move hot experts to different ranks";
    case Cause::kCopy:
      return "check PCIe generation and width of " + t.gpu +
             " (nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv" +
             Selected(t) + "), and whether its host buffers are pinned";
    case Cause::kCheckpoint:
      return "write checkpoints asynchronously, or less often";
    case Cause::kCommon:
      return "find what changed for the whole job" + t.since + ": code or data, else power cap or other jobs";
    case Cause::kUnknown:
    case Cause::kVictim:
      return "";
  }
  return "";
}

std::string FixVerb(Cause cause, CulpritKind kind, const ActionTarget& t) {
  const bool host = kind == CulpritKind::kHost;
  switch (cause) {
    case Cause::kGpuClock:
    case Cause::kGpuMemory:
      return "check, then " + (host ? "drain " + t.host : "replace " + t.gpu);
    case Cause::kContention:
      return "separate communication from compute on " + t.gpu;
    case Cause::kHostLaunch:
      return "speed up the host of " + t.ranks;
    case Cause::kDataLoader:
      return "feed " + t.ranks + " in time";
    case Cause::kHostPause:
      return kind == CulpritKind::kJob ? "remove the pauses of all ranks" : "stop the pauses of " + t.ranks;
    case Cause::kHostAllocator:
      return "reserve memory ahead on " + t.ranks;
    case Cause::kCpuContention:
      return "free the CPUs of " + t.host;
    case Cause::kSlowLink:
      return host ? "check, then repair the network card of " + t.host
                  : "check, then repair the link of " + (kind == CulpritKind::kGroup ? t.ranks : t.gpu);
    case Cause::kCongestion:
      return "clear the paths between hosts";
    case Cause::kStageImbalance:
      return "even out the stages";
    case Cause::kSequenceImbalance:
      return "balance sequence lengths";
    case Cause::kExpertImbalance:
      return "balance the experts";
    case Cause::kCopy:
      return "check, then repair PCIe of " + t.gpu;
    case Cause::kCheckpoint:
      return "write checkpoints asynchronously";
    case Cause::kCommon:
      return "undo what changed for all ranks";
    case Cause::kUnknown:
    case Cause::kVictim:
      return "make " + t.ranks + " like its peers";
  }
  return "";
}

std::string SharedLossAction(analysis::SharedLossKind kind) {
  using analysis::SharedLossKind;
  switch (kind) {
    case SharedLossKind::kInput:
      return "give the data loader more workers and prefetch (num_workers, prefetch_factor); check the "
             "storage that it reads";
    case SharedLossKind::kHostLaunch:
      return "capture the step in CUDA graphs, fuse small kernels (torch.compile), or pin processes to cores";
    case SharedLossKind::kExposedTransfer:
      return "overlap transfers with compute (prefetch, smaller buckets), or send less";
    case SharedLossKind::kExposedWait:
      return "look at the ranks that come last in turn: uneven data, garbage collection, system noise";
    case SharedLossKind::kPipelineBubble:
      return "use more microbatches or an interleaved schedule, so that the stages wait less";
    case SharedLossKind::kCopies:
      return "use pinned memory and a stream of its own for copies, and prefetch the next batch";
    case SharedLossKind::kIdleOther:
      return "record NVTX ranges or operators (--activities nvtx, or --via kineto), to see what the hosts "
             "wait for";
  }
  return "";
}

std::string CauseInWords(const std::string& cause) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"gpu_clock", "slow GPU"},
      {"gpu_memory", "GPU memory"},
      {"contention", "contention on the GPU"},
      {"host_launch", "slow launches"},
      {"data_loader", "data loader"},
      {"host_pause", "host pauses"},
      {"host_allocator", "allocation"},
      {"cpu_contention", "CPU contention"},
      {"slow_link", "slow link"},
      {"congestion", "network congestion"},
      {"stage_imbalance", "stage size"},
      {"sequence_imbalance", "sequence lengths"},
      {"expert_imbalance", "expert load"},
      {"copy", "slow copies"},
      {"checkpoint", "checkpoints"},
      {"common", "slower everywhere"},
      {"victim", "waits only"},
      {"unknown", "cause unknown"}};
  for (const auto& [name, words] : kWords) {
    if (name == cause) return std::string(words);
  }
  return cause;
}

}  // namespace lockstep::report
