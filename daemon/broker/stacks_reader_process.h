// A process that reads the stacks of one rank. It opens the rank's memory and copies its stacks with the
// broker's rights. It then interprets them with the rights of the rank's user only, because that user decides
// their content.
#ifndef LOCKSTEP_DAEMON_BROKER_STACKS_READER_PROCESS_H_
#define LOCKSTEP_DAEMON_BROKER_STACKS_READER_PROCESS_H_

#include <cstdint>

#include "daemon/stacks/process_stacks.h"

namespace lockstep::daemon {

// Writes a ProcessStacks to `pipe` and ends. It is the whole life of a process that was forked for it.
[[noreturn]] void RunStacksReader(int pipe, int32_t pid, uint64_t start_ticks, StackKinds kinds);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_BROKER_STACKS_READER_PROCESS_H_
