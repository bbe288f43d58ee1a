// Implements --ranks of the commands that read a capture.
#ifndef LOCKSTEP_CLI_COMMON_CHOOSE_RANKS_H_
#define LOCKSTEP_CLI_COMMON_CHOOSE_RANKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"

namespace lockstep::cli {

// Returns the rank indexes of the ranks in a text such as "0-7,12", or of all ranks if the text is empty.
// kNotFound: the capture lacks one of them.
absl::StatusOr<std::vector<uint32_t>> ChooseRanks(const capture::Capture& capture, const std::string& text);
// Removes all other ranks, as if they had not been captured.
void KeepRanks(capture::Capture& capture, const std::vector<uint32_t>& places);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_CHOOSE_RANKS_H_
