// What `lockstep top --format json` prints: lockstep.top/1, docs/formats/top.md.
#ifndef LOCKSTEP_CLI_TOP_JSON_H_
#define LOCKSTEP_CLI_TOP_JSON_H_

#include <string>

#include "cli/top/top_model.h"
#include "lockstep/v1/live.pb.h"

namespace lockstep::cli {

// One JSON object on one line, ending in a newline; empty for events that have no line of their own. `model`
// holds the event already.
std::string TopToJson(const TopModel& model, const v1::WatchEvent& event);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_JSON_H_
