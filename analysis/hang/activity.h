// Separates ranks that compute from those that wait, by what they did between two looks.
#ifndef LOCKSTEP_ANALYSIS_HANG_ACTIVITY_H_
#define LOCKSTEP_ANALYSIS_HANG_ACTIVITY_H_

#include "analysis/hang/hang_state.h"

namespace lockstep::analysis {

// A rank that uses less than this does not compute. Idle threads of NCCL and CUDA poll, and use a few
// percent.
inline constexpr double kBusyShare = 0.2;
// Bytes per second. A rank that transfers less does not write a checkpoint; logs and heartbeats do.
inline constexpr double kBusyTransfer = 1e6;

inline bool Computes(const HangRank& rank) {
  return rank.moved || rank.cpu_share.value_or(0) >= kBusyShare ||
         rank.transfer_rate.value_or(0) >= kBusyTransfer;
}

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_ACTIVITY_H_
