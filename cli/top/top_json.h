// Formats the output of `lockstep top --format json`: lockstep.top/1, docs/formats/top.md.
#ifndef LOCKSTEP_CLI_TOP_TOP_JSON_H_
#define LOCKSTEP_CLI_TOP_TOP_JSON_H_

#include <string>

#include "cli/top/top_model.h"
#include "lockstep/v1/live.pb.h"

namespace lockstep::cli {

// Returns one JSON object on one line that ends in a newline, or an empty string for events without a line of
// their own. `model` already contains the event.
std::string TopToJson(const TopModel& model, const v1::WatchEvent& event);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TOP_JSON_H_
