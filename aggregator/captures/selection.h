// Which ranks a trace request means, out of those that daemons see. Pure.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_SELECTION_H_
#define LOCKSTEP_AGGREGATOR_INGEST_SELECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "aggregator/captures/callers.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::ingest {

// A daemon process: its node, and its own random number.
struct DaemonKey {
  std::string node_id;
  uint64_t session = 0;
  auto operator<=>(const DaemonKey&) const = default;
};

struct SeenRank {
  DaemonKey daemon;
  std::string host_name;
  v1::Rank rank;
};

struct Selection {
  std::string job;
  uint32_t uid = 0;
  int32_t world_size = 0;
  std::vector<SeenRank> ranks;         // by rank, then pid
  std::vector<int32_t> missing_ranks;  // asked for, or of the job's world, and seen by no daemon
  // Not empty: nothing is to be traced; what was found instead and what to do.
  std::string error;
  bool denied = false;  // there is such a job, and it is another user's
};

// `daemons` counts those connected, for the error's sentence. A job is (name, uid); the name alone will do
// while one user has a job of that name, "UID:NAME" always does; a job of Slurm's means its steps (MeansJob).
// The caller's own ranks only are looked at, and of others' no more is told than that a job is another's.
Selection Select(const v1::TraceRequest& request, const Caller& caller, const std::vector<SeenRank>& seen,
                 size_t daemons);

// How a rank is captured: TraceRequest.via, and where that is "auto" what its daemon says leads to it.
struct ChosenPath {
  bool kineto = false;  // through PyTorch's profiler
  bool kineto_if_held =
      false;            // through its client, and where that finds CUPTI held through PyTorch's profiler
  std::string refused;  // not empty: it cannot be captured as was asked, and why
};
ChosenPath ChoosePath(const v1::TraceRequest& request, const v1::Rank& rank);
// What is wrong with the request's way for every one of the ranks.
absl::Status CheckVia(const v1::TraceRequest& request, const Selection& selection);

// "0-3, 7, 9-11".
std::string RankList(std::vector<int32_t> ranks);

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_SELECTION_H_
