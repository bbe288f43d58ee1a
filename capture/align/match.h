// Which communication kernels of different ranks are one collective.
//
// Key ladder, best first: (communicator, function, NCCL's sequence) → (group with its member list, Seq) →
// graph node and replay → order within (group, operation), aligned as sequences where windows or losses
// differ. Needs no clocks. Source of the rules: docs/analysis.md.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MATCH_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/model/capture.h"

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
  // Complete, or all that it lacks are ranks that were not recorded and records that were lost: those who are
  // here met here, and what they waited for each other is known; for the missing ones it is not.
  bool usable = false;
};

struct Matches {
  std::vector<Instance> instances;  // in the order of their earliest member in the first rank that has them
  // instance_of[rank_index][collective]: into instances, or store::kNone.
  std::vector<std::vector<uint32_t>> instance_of;
  // Usable instances, by what told their members.
  uint64_t by_nccl_sequence = 0;
  uint64_t by_group_sequence = 0;
  uint64_t by_graph = 0;
  uint64_t by_order = 0;
  uint64_t by_inferred = 0;  // by order, in a communicator that was itself inferred
  uint64_t partial = 0;      // usable instances that are not complete
  // Communication kernels of groups of more than one rank: each is one of these.
  uint64_t matched = 0;  // in a usable instance
  uint64_t cut_by_window =
      0;  // a partner's kernel lies outside of that rank's window, or its own launch outside of its own
  uint64_t partner_lost = 0;  // nobody it met was recorded: lost records, ranks without any
  uint64_t unmatched = 0;
  uint64_t conflicts =
      0;  // of the unmatched: members that contradict each other (operation, type, bytes, causality)

  // Of the kernels whose partners can be there at all; nullopt without any.
  std::optional<double> MatchedFraction() const {
    if (matched + unmatched == 0) return std::nullopt;
    return static_cast<double>(matched) / static_cast<double>(matched + unmatched);
  }
};

Matches Match(const store::Capture& capture);

// Whether the library demands the same size of every member.
bool BytesMustAgree(store::CollectiveOp op);

// Everybody waits for everybody, so that nobody leaves before the last one came.
bool LeavesTogether(store::CollectiveOp op);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MATCH_H_
