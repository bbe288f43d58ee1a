// Reads what the threads of another process execute: in Python, and in native code.
#ifndef LOCKSTEP_DAEMON_STACKS_PROCESS_STACKS_H_
#define LOCKSTEP_DAEMON_STACKS_PROCESS_STACKS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/stacks/memory.h"
#include "daemon/stacks/thread_snapshot.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

// Native stacks need the right to trace the process, and stop each of its threads for less than a
// millisecond.
enum class StackKinds : uint8_t { kPython, kPythonAndNative };

inline StackKinds KindsOf(bool native_too) {
  return native_too ? StackKinds::kPythonAndNative : StackKinds::kPython;
}

// Returns a result without frames, which has this text as its problem.
v1::ProcessStacks StacksWithProblem(const std::string& problem, StackKinds kinds);

// In two steps, because the second needs no right but to read the process's files. One thread.
class ProcessStacksReader {
 public:
  // Copies the threads' stacks if native ones are wanted. `memory` outlives this.
  ProcessStacksReader(pid_t pid, const Memory& memory, StackKinds kinds);
  // Interprets them. `maps`: the content of /proc/<pid>/maps.
  v1::ProcessStacks Read(std::string_view maps) const;

 private:
  const pid_t pid_;
  const Memory& memory_;
  const StackKinds kinds_;
  absl::StatusOr<std::vector<ThreadSnapshot>> threads_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_STACKS_PROCESS_STACKS_H_
