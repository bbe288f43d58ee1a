// Texts for rows of a report: names of stragglers and losses, gains and costs.
#ifndef LOCKSTEP_REPORT_ROW_WORDS_H_
#define LOCKSTEP_REPORT_ROW_WORDS_H_

#include <optional>
#include <string>

#include "report/model.h"

namespace lockstep::report {

// Names the subject of a straggler: "rank 3 (node1 GPU 3)", "host n045 (8 ranks)", "all ranks",
// "5 ranks (3, 5, 0, ...) in turn".
std::string StragglerName(const Report& report, const StragglerRow& straggler);
// "12.1 ms (5.0%) [11 ms, 13 ms]": the gain, its share of the step and its interval.
std::string GainText(const Report& report, double gain, const std::optional<Range>& interval);
// " = 20 GPU-hours a day": what `lost` nanoseconds per step cost on all ranks. Empty: less than one, too
// few steps to tell, or ranks are missing.
std::string GpuHoursText(const Report& report, double lost);
// The loss in words: "data loader", "late launches", …
std::string SharedLossInWords(const std::string& kind);
// The entry for a rank; null: the report has none.
const RankRow* RankRowOf(const Report& report, RankId rank);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_ROW_WORDS_H_
