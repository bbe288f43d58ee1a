// Conclusions from answers of NCCL's RAS. Pure functions.
#ifndef LOCKSTEP_ANALYSIS_HANG_RAS_REPORT_H_
#define LOCKSTEP_ANALYSIS_HANG_RAS_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/hang/explain_hang.h"
#include "analysis/hang/hang_state.h"
#include "analysis/hang/ras_state.h"
#include "base/time.h"

namespace lockstep::analysis {

struct RasReport {
  enum class Result : uint8_t {
    kUnreachable,  // `problem` has the reason
    // Two answers, of a job that keeps no progress.
    kNoDifference,
    kMoves,        // members differ, and a count changed
    kStandsStill,  // members differ or are missing, and no count changed
    // One answer, beside a finding of the progress tables.
    kAgrees,
    kContradicts,
    kSaysNothing,  // the answer does not have the finding's communicator, or the wait is for a message
  };
  Result result = Result::kUnreachable;
  std::string problem;
  std::string nccl_version;  // empty: not known
  std::vector<std::string> sentences;
  std::vector<RankId> late_ranks;  // kStandsStill: those that RAS finds behind, and that the job knows
  bool may_end = false;            // kStandsStill: all of them are known, and compute
  Nanos between;                   // the two answers
};
// Returns the word of the JSON document, as "stands_still".
const char* RasResultName(RasReport::Result result);

RasReport UnreachableRas(std::string problem);

// Compares two answers about a job that keeps no progress. `job` gives the ranks of the processes, and what
// they did between the answers.
RasReport CompareRasReadings(const RasState& before, const RasState& now, const HangJob& job, Nanos between);

// Compares a finding about the job with one answer.
RasReport CheckWithRas(const HangFinding& finding, const HangJob& job, const RasState& state);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_RAS_REPORT_H_
