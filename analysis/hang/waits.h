// Finds the operations that have not ended, and the ranks for which each waits.
#ifndef LOCKSTEP_ANALYSIS_HANG_WAITS_H_
#define LOCKSTEP_ANALYSIS_HANG_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/hang/hang_state.h"

namespace lockstep::analysis {

// Where a rank is in a communicator. The pointers are into the HangJob.
struct Member {
  size_t rank = 0;  // index in HangJob::ranks
  const HangCommunicator* communicator = nullptr;
  // The first operation that has not ended; null: none is known.
  const HangOperation* pending = nullptr;

  // Since an operation of the rank, in any communicator, started or ended on its GPU; unset: not known.
  std::optional<Nanos> gpu_moved_ago;

  // How long it waits in `pending`: since the start of its kernel, or without a start since `gpu_moved_ago`
  // at the earliest. The host may have entered the operation long before the GPU reaches it, and then waits
  // for nobody.
  Nanos waited() const;

  // True if operations before `pending` have left the table, so that an earlier one may be pending.
  bool is_truncated() const;
  // Returns the collective of this number if it is among the latest; else null.
  const HangOperation* Find(uint64_t number) const;
};

// The communicator's members that are known, by their number in it.
struct Group {
  uint64_t id = 0;
  std::string name;
  int32_t ranks = 0;  // 0: not known
  std::map<int32_t, Member> members;
};

// Returns the groups by id.
std::vector<Group> FindGroups(const HangJob& job);

enum class Lateness : uint8_t {
  kNotEntered,
  kNotLaunched,
  kNotStarted,
  kDifferent,  // the late members entered another operation than most under this number
  kNone,       // every member's kernel runs
};

struct Wait {
  size_t group = 0;     // index in the groups
  uint64_t number = 0;  // of the collective; 0: a message
  Lateness lateness = Lateness::kNone;
  const HangOperation* operation = nullptr;  // of the rank that entered it first
  bool name_known = true;                    // else `operation` is a later one
  Nanos waited;                              // of the member that waits longest
  std::vector<const Member*> waiting;
  std::vector<const Member*> late;
  std::vector<int32_t> unknown;  // late members that are not known
};

// Returns at most one wait per group: its oldest pending collective, else its oldest pending message.
std::vector<Wait> FindWaits(const std::vector<Group>& groups);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_WAITS_H_
