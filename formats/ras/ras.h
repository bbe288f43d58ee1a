// Reads the answers of NCCL's RAS to the command VERBOSE STATUS. docs/formats/ras.md describes both formats.
//
// An answer is untrusted: it comes from a TCP port, so a program that is not NCCL may have written it. Texts
// in the result are cleaned and short, and numbers are within their types. Pure functions.
#ifndef LOCKSTEP_FORMATS_RAS_RAS_H_
#define LOCKSTEP_FORMATS_RAS_RAS_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "analysis/hang/ras_state.h"

namespace lockstep::formats {

// The JSON of NCCL 2.28.7 and later. kInvalidArgument: the reason.
absl::StatusOr<analysis::RasState> ParseRasJson(std::string_view answer);

// The text of NCCL 2.24 and later. Lines that it does not know are skipped, because each release may add
// some. kInvalidArgument: it is not RAS's text, or it is cut.
absl::StatusOr<analysis::RasState> ParseRasText(std::string_view answer);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_RAS_RAS_H_
