// Writes a history as JSON, schema lockstep.history/1 (docs/formats/history.md). Times are nanoseconds.
#ifndef LOCKSTEP_HISTORY_OUTPUT_HISTORY_JSON_H_
#define LOCKSTEP_HISTORY_OUTPUT_HISTORY_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "history/comparison.h"
#include "history/job_list.h"
#include "history/model.h"
#include "history/trend.h"

namespace lockstep::history {

inline constexpr char kHistorySchema[] = "lockstep.history/1";

// kDryRun: the captures are listed and stay.
enum class Removal : uint8_t { kDone, kDryRun };

// Each returns one document that ends with a line end. Its member `kind` names the function.
std::string JobsJson(const std::vector<JobRow>& jobs);
std::string CapturesJson(const std::vector<CaptureHead>& captures);
std::string CaptureJson(const CaptureSummary& capture);
std::string TrendJson(const Trend& trend);
std::string ComparisonJson(const Comparison& comparison);
std::string RemovedJson(const std::vector<CaptureHead>& removed, Removal removal);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_OUTPUT_HISTORY_JSON_H_
