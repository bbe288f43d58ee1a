// Says which channel of a slow transfer is busy longest, and what its network operations wait for, from the
// records of NCCL's plugin.
#ifndef LOCKSTEP_ANALYSIS_EXPLAIN_NCCL_EVIDENCE_H_
#define LOCKSTEP_ANALYSIS_EXPLAIN_NCCL_EVIDENCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/compare/classes.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// Returns sentences without a full stop on the operations of `owners` on the ranks, at most two per rank and
// for at most two ranks. Without ranks, all members of the owners count. Empty if the capture has neither
// nccl-channels nor nccl-proxy. Pure.
std::vector<std::string> NcclEvidence(const capture::Capture& capture, std::span<const TransferOwner> owners,
                                      std::span<const uint32_t> rank_indices);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_EXPLAIN_NCCL_EVIDENCE_H_
