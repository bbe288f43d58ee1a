// Explains why a job does not move. A pure function of the state of its ranks.
//
// A wait is an operation in which some rank has waited for `after` or longer. Its late
// ranks are those that have not entered it, or whose kernel has not started. If a late rank waits in another
// operation, that operation is nearer to the cause. The findings are the waits at the end of these chains, or
// on a circle.
#ifndef LOCKSTEP_ANALYSIS_HANG_EXPLAIN_HANG_H_
#define LOCKSTEP_ANALYSIS_HANG_EXPLAIN_HANG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/hang/hang_state.h"

namespace lockstep::analysis {

enum class HangCause : uint8_t {
  kEnded,          // a late rank has ended
  kStopped,        // a late rank is stopped
  kAbsent,         // no daemon or dump reports the late rank
  kNeverEntered,   // a late rank runs, and does something else
  kAhead,          // few ranks entered an operation that the others have not reached
  kMismatch,       // the ranks entered different operations under one number
  kCircle,         // ranks wait for each other in different operations
  kNeverLaunched,  // a rank entered it, and NCCL has not launched its kernel
  kNeverStarted,   // the kernel was launched, and does not run
  kStuck,          // all kernels run, and the data does not arrive
};
// Returns the word of the JSON document, as "never_entered".
const char* HangCauseName(HangCause cause);

// An operation in which ranks wait, and those that keep it from ending.
struct HangWait {
  uint64_t communicator = 0;
  std::string communicator_name;  // or a description if it has none
  uint64_t number = 0;            // 0: a message
  std::string function;           // NCCL's name; empty: not known
  std::vector<RankId> waiting;
  std::vector<RankId> late;
  // Late ranks of the communicator that no daemon reports, by their number in it.
  std::vector<int32_t> unknown_members;
  // False if a known member of the communicator has started or ended it.
  bool all_late = false;
  Nanos waited;  // since its kernel started, if that is known
};

// A direction of the network between two members, over which an operation's data does not come.
struct HangLink {
  int32_t from = 0, to = 0;                  // members of the communicator
  std::optional<RankId> from_rank, to_rank;  // unset: no daemon reports the member
  std::vector<uint32_t> channels;            // sorted
  enum class Wait : uint8_t {
    kNetwork,  // the sender has given data to the network, which does not complete it
    kBuffer,   // the sender waits for a buffer of the receiver, and the receiver waits for data
  };
  Wait wait = Wait::kNetwork;
  uint64_t steps_done = 0, steps = 0;  // of all channels; steps 0: not known
  Nanos still;                         // since anything moved on any of the channels
};

struct HangRankStacks {
  RankId rank;
  HangStacks stacks;
};

struct HangFinding {
  HangCause cause = HangCause::kNeverEntered;
  HangWait wait;
  // kCircle: the other waits on the circle, each of whose late ranks wait in the next one.
  std::vector<HangWait> circle;
  // The late ranks compute, read or write, or execute something else than at the look before, or no rank's
  // kernel has started. So the wait may end by itself.
  bool may_end = false;
  std::string sentence;
  std::vector<std::string> reasons;
  std::vector<HangRankStacks> stacks;  // of late ranks
  std::vector<HangLink> links;         // of kStuck
};

struct HangExplanation {
  enum class Verdict : uint8_t { kNoHang, kWaiting, kHang };
  Verdict verdict = Verdict::kNoHang;
  // The longest wait comes first.
  std::vector<HangFinding> findings;
  // Waits that follow from the findings.
  size_t other_waits = 0;
  // Ranks with a communicator, and the longest wait of any of them, also below `after`.
  size_t ranks_seen = 0;
  Nanos longest_wait;
  // Operations of all ranks that could not be read. One of them may be the cause.
  uint64_t unreadable = 0;
};

HangExplanation ExplainHang(const HangJob& job, Nanos after);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_EXPLAIN_HANG_H_
