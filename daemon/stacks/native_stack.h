// Interprets copied stacks with elfutils' libdwfl. It reads the files of the process's libraries, but no
// debug information and nothing from the network. Frames have the symbols that the files export.
#ifndef LOCKSTEP_DAEMON_STACKS_NATIVE_STACK_H_
#define LOCKSTEP_DAEMON_STACKS_NATIVE_STACK_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "daemon/stacks/memory.h"
#include "daemon/stacks/thread_snapshot.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

inline constexpr int kMostNativeFrames = 64;
inline constexpr int kMostNativeStacks = 4;

// Adds the stacks of the main thread and of threads that are in CUDA or NCCL, the innermost frame first.
// `maps`: the content of /proc/<pid>/maps. The files are opened as the process sees them.
void AddNativeStacks(pid_t pid, std::string_view maps, const Memory& memory,
                     const std::vector<ThreadSnapshot>& threads, v1::ProcessStacks& stacks);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_STACKS_NATIVE_STACK_H_
