// Causes of delay in a job, and kinds of culprits: report.json's `cause` and `kind`.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_CAUSE_NAMES_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_CAUSE_NAMES_H_

#include <cstdint>
#include <string_view>

namespace lockstep::analysis {

enum class Cause : uint8_t {
  kUnknown,
  kGpuClock,
  kGpuMemory,
  kContention,
  kHostLaunch,
  kDataLoader,
  kHostPause,
  kHostAllocator,
  kCpuContention,
  kSlowLink,
  kCongestion,
  kStageImbalance,
  kSequenceImbalance,
  kExpertImbalance,
  kCopy,
  kCheckpoint,
  kCommon,
  kVictim,
};
std::string_view CauseName(Cause cause);

enum class CulpritKind : uint8_t { kRank, kHost, kStage, kGroup, kData, kJob };
std::string_view CulpritKindName(CulpritKind kind);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_CAUSE_NAMES_H_
