// --ranks of the commands that read a capture.
#ifndef LOCKSTEP_CLI_CHOOSE_RANKS_H_
#define LOCKSTEP_CLI_CHOOSE_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"

namespace lockstep::cli {

// Places in the capture of the ranks in "0-7,12"; all where the text is empty. kNotFound: it has not all of
// them.
absl::StatusOr<std::vector<uint32_t>> ChooseRanks(const store::Capture& capture, const std::string& text);
// The others are then as if they had not been captured.
void KeepRanks(store::Capture& capture, const std::vector<uint32_t>& places);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CHOOSE_RANKS_H_
