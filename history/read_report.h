// Reads report.json (docs/formats/report.md) as far as a history keeps it.
#ifndef LOCKSTEP_HISTORY_READ_REPORT_H_
#define LOCKSTEP_HISTORY_READ_REPORT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "history/model.h"

namespace lockstep::history {

// Returns the summary of a report. Its text may come from anywhere: names are cleaned of control characters
// and cut, and members that are missing or of another type are unknown. `added` is the time of the addition.
//
// An import's name is not unique, because many runs write the same file names. Its id is that name, "@" and
// its begin if the report has one.
//
// kInvalidArgument: the text is not a report of schema lockstep.report/1, or has no job and no id. The
// message is half a sentence that follows the file's name.
absl::StatusOr<CaptureSummary> ReadReport(std::string_view text, HostTime added);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_READ_REPORT_H_
