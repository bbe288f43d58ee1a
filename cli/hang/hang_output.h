// The texts and the JSON document of `lockstep hang`.
#ifndef LOCKSTEP_CLI_HANG_HANG_OUTPUT_H_
#define LOCKSTEP_CLI_HANG_HANG_OUTPUT_H_

#include <string>
#include <vector>

#include "aggregator/notice/hang_examination.h"
#include "base/time.h"

namespace lockstep::cli {

using aggregator::ExplainedJob;

// Returns the verdict of each job, which begins with HANG, WAITING or NO HANG, with its reasons.
std::string HangText(const std::vector<ExplainedJob>& jobs);
// docs/formats/hang.md. `silent_hosts`: those whose daemon did not answer.
std::string HangJson(const std::vector<ExplainedJob>& jobs, const std::vector<std::string>& silent_hosts,
                     Nanos after);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_HANG_HANG_OUTPUT_H_
