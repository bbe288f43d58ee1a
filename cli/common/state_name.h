// Names the states of a rank in a capture, for people and for the documents of `lockstep status`.
#ifndef LOCKSTEP_CLI_COMMON_STATE_NAME_H_
#define LOCKSTEP_CLI_COMMON_STATE_NAME_H_

#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {

// Returns for example "armed". The text lives as long as the program.
const char* StateName(v1::RankState::State state);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_STATE_NAME_H_
