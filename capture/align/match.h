// Matches the communication kernels of different ranks that form one collective.
//
// Keys in order of preference: (communicator, function, NCCL's sequence) → (group with its member list, Seq)
// → graph node and replay → order within (group, operation). Order is aligned as sequences where windows or
// losses differ. No key needs clocks. Collectives on the copy engines are not matched. Source of the rules:
// docs/analysis/matching.md.
#ifndef LOCKSTEP_CAPTURE_ALIGN_MATCH_H_
#define LOCKSTEP_CAPTURE_ALIGN_MATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::capture {

struct Member {
  uint32_t rank_index;  // into Capture::ranks
  uint32_t collective;  // into RankData::collectives
};

// One collective operation of a group. Members are ordered by rank_index.
struct Instance {
  uint32_t group = capture::kNone;
  capture::CollectiveOp op = capture::CollectiveOp::kUnknown;
  capture::MatchSource source = capture::MatchSource::kOrder;
  std::vector<Member> members;
  // Every member of the group is in `members`. Waits are split only for complete instances.
  bool complete = false;
  // True if complete, or if only members are missing that were not recorded or whose record was lost. The
  // waiting of the present members for each other is then known. Their waiting for the missing members is
  // not.
  bool usable = false;
};

struct Matches {
  std::vector<Instance> instances;  // ordered by rank_index and collective of the first member
  // instance_of[rank_index][collective]: into instances, or capture::kNone.
  std::vector<std::vector<uint32_t>> instance_of;
  // Usable instances, by the key that matched their members.
  uint64_t by_nccl_sequence = 0;
  uint64_t by_group_sequence = 0;
  uint64_t by_graph = 0;
  uint64_t by_order = 0;
  uint64_t by_inferred = 0;  // by order, in a communicator that was itself inferred
  uint64_t partial = 0;      // usable instances that are not complete
  // Each communication kernel of a group of more than one rank counts as one of the next four.
  uint64_t matched = 0;        // in a usable instance
  uint64_t cut_by_window = 0;  // a partner's kernel, or its own launch, lies outside the window of its rank
  uint64_t partner_lost = 0;   // no partner was recorded: records were lost, or ranks have none
  uint64_t unmatched = 0;
  uint64_t conflicts =
      0;  // those of `unmatched` whose members contradict each other (operation, type, bytes, causality)

  // Share of matched kernels among those whose partners can be in the capture. nullopt: no such kernel.
  std::optional<double> MatchedFraction() const {
    if (matched + unmatched == 0) return std::nullopt;
    return static_cast<double>(matched) / static_cast<double>(matched + unmatched);
  }
};

Matches Match(const capture::Capture& capture);

// True if the library demands the same size of every member.
bool BytesMustAgree(capture::CollectiveOp op);

// True if every member waits for every other, so that no member leaves before the last one came.
bool LeavesTogether(capture::CollectiveOp op);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_MATCH_H_
