// Formats a history for people. Names come from other processes; callers clean the text
// (base/log/clean_text.h) before they print it.
#ifndef LOCKSTEP_HISTORY_OUTPUT_HISTORY_TEXT_H_
#define LOCKSTEP_HISTORY_OUTPUT_HISTORY_TEXT_H_

#include <string>
#include <vector>

#include "history/comparison.h"
#include "history/job_list.h"
#include "history/model.h"
#include "history/trend.h"

namespace lockstep::history {

// All end with a line end.
std::string JobsText(const std::vector<JobRow>& jobs);
std::string CapturesText(const std::vector<CaptureHead>& captures);
std::string CaptureText(const CaptureSummary& capture);
std::string TrendText(const Trend& trend);
std::string ComparisonText(const Comparison& comparison);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_OUTPUT_HISTORY_TEXT_H_
