// The first line of a report: where the largest loss is, and how much it costs. Text, page, `top` and the
// document begin with it.
#ifndef LOCKSTEP_REPORT_FIRST_LINE_H_
#define LOCKSTEP_REPORT_FIRST_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/model.h"
#include "report/text_layout.h"

namespace lockstep::report {

// The first word says what was found. docs/analysis/shared-losses.md explains each.
enum class Headline {
  kStraggler,    // STRAGGLER: a rank, host, stage, group or link is named
  kSlowJob,      // SLOW JOB: the largest loss is shared by all ranks
  kHealthy,      // HEALTHY: everything was judged, and nothing costs more than the noise floor
  kNoStraggler,  // NO STRAGGLER FOUND: nothing is named, and something could not be judged
  kUnexplained,  // UNEXPLAINED: most of the lost time has no owner
  kTooFewSteps,  // TOO FEW STEPS: fewer than analysis::kLeastSteps
};

// When to page a team.
enum class Urgency {
  kNobody,     // nothing needs a team
  kNobodyYet,  // capture again first: nothing could be judged
  kMorning,    // the loss is small, or part of the job's design
  kNow,
};

struct FirstLine {
  Headline headline = Headline::kNoStraggler;
  std::string
      text;  // one line, with the words of the headline, and PARTIAL before them if records are missing
  Urgency urgency = Urgency::kNobody;
  // The urgency in words, the teams, who is next if they find nothing, and the team to leave asleep.
  std::string page;
  Tone tone = Tone::kWarn;
  // The shared loss of the report that leads. Null: another loss leads, or none.
  const SharedLossRow* shared = nullptr;
  // The stragglers that lead, which must be fixed together; into Report::stragglers. Empty: none leads.
  std::vector<uint32_t> entries;
  // The stragglers whose teams are paged: `entries`, and those that cost a notable part of the leading loss.
  std::vector<uint32_t> paged;
  // The straggler for which the page cannot wait, if what leads could. Into Report::stragglers.
  std::optional<uint32_t> wakes;
};

// A shared loss leads if it is larger than what fixing the stragglers gains. Idle devices and copies lead
// from 5 % of the step on. Transfers and waiting are in part the job's design. They lead from 30 % on, and
// the bubble of a pipeline leads from 50 % on. They must be five times what the stragglers cost.
FirstLine MakeFirstLine(const Report& report);

// NotJudgedRow::what if nothing could be judged. Such a row is the first one.
inline constexpr char kEverything[] = "everything";

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_FIRST_LINE_H_
