// Takes from this process all that the analysis of untrusted rows does not need.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_SANDBOX_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_SANDBOX_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::aggregator {

// The sanitizers reserve terabytes of address space, and call the system in more ways.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

struct SandboxLimits {
  uint64_t memory_bytes = 0;  // private writable memory, including the program's own
  uint64_t cpu_seconds = 0;   // of all threads; beyond it: SIGXCPU
  uint64_t file_bytes = 0;    // size of a file that it writes; beyond it: SIGXFSZ
};

// Makes this process the first that a shortage of memory ends, lowers its priority, and limits it. It ends
// with its parent, writes no core file, and gains no privileges. Returns false if `parent` has ended.
bool LimitProcess(pid_t parent, const SandboxLimits& limits);

// From here on, this process can read files in `folder`, and use the descriptors that it has. It can open no
// other file and no socket, and start no program. Threads remain possible. Call it before the first thread
// starts.
//
// Returns the protections that this kernel does not have: "landlock", "seccomp". Without landlock, any file
// that the user may read can be opened for reading. In sanitizer builds, seccomp is left out.
std::vector<std::string> EnterSandbox(const std::string& folder);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_SANDBOX_H_
