// The sentences of a hang's explanation.
#ifndef LOCKSTEP_ANALYSIS_HANG_HANG_TEXT_H_
#define LOCKSTEP_ANALYSIS_HANG_HANG_TEXT_H_

#include <string>
#include <vector>

#include "analysis/hang/explain_hang.h"
#include "analysis/hang/hang_state.h"
#include "analysis/hang/waits.h"

namespace lockstep::analysis {

// Returns "rank 12 (node3, local rank 4)", or "ranks 3, 5-7".
std::string RanksText(const HangJob& job, const std::vector<size_t>& ranks);
// Returns "all_reduce" for NCCL's name AllReduce.
std::string OperationName(const std::string& function);
// Returns "all_reduce #1,532 of tp_3".
std::string WaitText(const HangWait& wait);
// Returns "94 s".
std::string AgeText(Nanos age);
// Returns what the rank does, as "rank 12 (node3, local rank 4), pid 1002, is stopped by a signal or a
// debugger".
std::string DoingText(const HangJob& job, const std::vector<Group>& groups, size_t rank);
// Returns the innermost frames of each stack, as "rank 12 is in Python at data.py:57 next, called from main".
// Without stacks: the reasons.
std::vector<std::string> StackTexts(RankId rank, const HangStacks& stacks);
// Returns "all_reduce of 1,024 float32", with the peer of a message or the root.
std::string ShapeText(const HangOperation& operation);
// Returns a sentence as "the network has completed nothing from rank 1 (node1, local rank 1) to member 2 for
// 94 s, after 12 of 40 steps on channels 0-3".
std::string LinkText(const HangJob& job, const HangLink& link);
std::string SentenceOf(const HangJob& job, const Wait& found, const HangFinding& finding);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_HANG_TEXT_H_
