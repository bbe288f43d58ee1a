// Selects the ranks of a trace request among those that daemons report. Pure functions.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_SELECTION_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_SELECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "aggregator/captures/callers.h"
#include "aggregator/nodes/seen_rank.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

struct Selection {
  std::string job;
  uint32_t uid = 0;
  int32_t world_size = 0;
  std::vector<SeenRank> ranks;         // by rank, then pid
  std::vector<int32_t> missing_ranks;  // requested, or part of the job's world, but reported by no daemon
  // Not empty: nothing can be traced. States what was found instead and the remedy.
  std::string error;
  bool denied = false;  // the job exists but belongs to another user
};

// `daemons` is the number of connected daemons, for the error message. A job is (name, uid). The name alone
// suffices if only one user has a job of that name; "UID:NAME" always suffices. A Slurm job includes its
// steps (SelectsJob). Only the caller's own ranks are considered. About other users' jobs the error says only
// that the job is another user's.
Selection Select(const v1::TraceRequest& request, const Caller& caller, const std::vector<SeenRank>& seen,
                 size_t daemons);

// Returns the ranks from which a capture of the past chooses: those that have left, and the living ones
// unless the request excludes them. A place in a job has one rank: the living one, or else the one that left
// last. A request without a job gets the living jobs, or else the job that left each daemon last. `departed`
// lists the ranks of a daemon together, the newest last.
std::vector<SeenRank> RanksOfThePast(const v1::TraceRequest& request, const Caller& caller,
                                     std::vector<SeenRank> living, std::vector<SeenRank> departed);

// How a rank is captured: by TraceRequest.via, or for "auto" by the paths that its daemon reports.
struct ChosenPath {
  bool kineto = false;          // through PyTorch's profiler
  bool kineto_if_held = false;  // through its client, or through PyTorch's profiler if CUPTI is held
  std::string refused;          // not empty: it cannot be captured as requested; the reason
};
ChosenPath ChoosePath(const v1::TraceRequest& request, const v1::Rank& rank);
// Returns an error if no rank of the selection can be captured in the requested way.
absl::Status CheckVia(const v1::TraceRequest& request, const Selection& selection);

// Formats ranks as "0-3, 7, 9-11".
std::string RankList(std::vector<int32_t> ranks);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_SELECTION_H_
