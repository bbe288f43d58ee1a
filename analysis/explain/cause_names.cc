#include "analysis/explain/cause_names.h"

namespace lockstep::analysis {

std::string_view CauseName(Cause cause) {
  switch (cause) {
    case Cause::kUnknown:
      return "unknown";
    case Cause::kGpuClock:
      return "gpu_clock";
    case Cause::kGpuMemory:
      return "gpu_memory";
    case Cause::kContention:
      return "contention";
    case Cause::kHostLaunch:
      return "host_launch";
    case Cause::kDataLoader:
      return "data_loader";
    case Cause::kHostPause:
      return "host_pause";
    case Cause::kHostAllocator:
      return "host_allocator";
    case Cause::kCpuContention:
      return "cpu_contention";
    case Cause::kSlowLink:
      return "slow_link";
    case Cause::kCongestion:
      return "congestion";
    case Cause::kStageImbalance:
      return "stage_imbalance";
    case Cause::kSequenceImbalance:
      return "sequence_imbalance";
    case Cause::kExpertImbalance:
      return "expert_imbalance";
    case Cause::kCopy:
      return "copy";
    case Cause::kCheckpoint:
      return "checkpoint";
    case Cause::kCommon:
      return "common";
    case Cause::kVictim:
      return "victim";
  }
  return "unknown";
}

std::string_view CulpritKindName(CulpritKind kind) {
  switch (kind) {
    case CulpritKind::kRank:
      return "rank";
    case CulpritKind::kHost:
      return "host";
    case CulpritKind::kStage:
      return "stage";
    case CulpritKind::kGroup:
      return "group";
    case CulpritKind::kData:
      return "data";
    case CulpritKind::kJob:
      return "job";
  }
  return "rank";
}

}  // namespace lockstep::analysis
