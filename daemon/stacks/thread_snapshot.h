// Copies registers and stacks of another process's threads. Each thread is stopped for the copy, for less
// than a millisecond, and goes on before the copies are interpreted. It is traced by PTRACE_SEIZE, so it goes
// on too if this process is killed meanwhile. A system call that it waits in is restarted; epoll_wait and a
// few others may return EINTR instead, as after SIGSTOP and SIGCONT (signal(7)).
#ifndef LOCKSTEP_DAEMON_STACKS_THREAD_SNAPSHOT_H_
#define LOCKSTEP_DAEMON_STACKS_THREAD_SNAPSHOT_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/stacks/memory.h"

namespace lockstep::daemon {

struct ThreadSnapshot {
  pid_t tid = 0;
  std::string name;
  // By number in DWARF for x86-64: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip.
  static constexpr int kRegisters = 17;
  uint64_t registers[kRegisters] = {};
  // The bytes from the stack pointer on.
  std::string stack;

  uint64_t stack_pointer() const { return registers[7]; }
};

inline constexpr size_t kMostThreads = 128;

// The main thread comes first. Threads in an uninterruptible call do not stop in time, and are left out. So
// are threads beyond kMostThreads, or after 0.3 s. kPermissionDenied: the kernel does not let this process
// trace that one. kUnimplemented: not on x86-64. Any thread.
absl::StatusOr<std::vector<ThreadSnapshot>> TakeSnapshots(pid_t pid, const Memory& memory);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_STACKS_THREAD_SNAPSHOT_H_
