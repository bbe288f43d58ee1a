// Which communication kernels of different ranks are one collective.
//
// Key ladder, best first: (communicator, function, NCCL's sequence) → (group with its member list, Seq) → order within
// (group, operation), aligned as sequences where windows or losses differ. Needs no clocks. Source of the rules:
// docs/analysis.md.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MATCH_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MATCH_H_

#include <cstdint>
#include <vector>

#include "aggregator/store/capture.h"

namespace lockstep::align {

struct Member {
  uint32_t rank_index;  // into Capture::ranks
  uint32_t collective;  // into RankData::collectives
};

// One collective operation of a group. Members are in the order of rank_index.
struct Instance {
  uint32_t group = store::kNone;
  store::CollectiveOp op = store::CollectiveOp::kUnknown;
  store::MatchSource source = store::MatchSource::kOrder;
  std::vector<Member> members;
  // Every member of the group is here. Waits are only split for complete instances.
  bool complete = false;
};

struct Matches {
  std::vector<Instance> instances;  // in the order of their earliest member in the first rank that has them
  // instance_of[rank_index][collective]: into instances, or store::kNone.
  std::vector<std::vector<uint32_t>> instance_of;
  uint64_t by_nccl_sequence = 0;
  uint64_t by_group_sequence = 0;
  uint64_t by_order = 0;
  uint64_t conflicts = 0;  // members that contradict each other (operation, type, bytes): quarantined, not matched
  uint64_t unmatched = 0;  // communication kernels in no complete instance, of groups of more than one rank
};

Matches Match(const store::Capture& capture);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MATCH_H_
