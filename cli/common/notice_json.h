// Writes what an aggregator has noticed as JSON objects, for `lockstep status` and `lockstep top`.
// docs/formats/status.md describes their members.
#ifndef LOCKSTEP_CLI_COMMON_NOTICE_JSON_H_
#define LOCKSTEP_CLI_COMMON_NOTICE_JSON_H_

#include "base/json/json_out.h"
#include "lockstep/v1/noticing.pb.h"

namespace lockstep::cli {

void WriteSlowdown(JsonOut& out, const v1::Slowdown& slowdown);
void WriteHang(JsonOut& out, const v1::JobHang& hang);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_NOTICE_JSON_H_
