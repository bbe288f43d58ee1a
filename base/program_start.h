// What each of our programs does first.
#ifndef LOCKSTEP_COMMON_BASE_PROGRAM_START_H_
#define LOCKSTEP_COMMON_BASE_PROGRAM_START_H_

#include <sys/prctl.h>

#include <cstring>

namespace lockstep {

// deploy/bundle/starter.c puts this in front of the names of the loader's own variables, LD_PRELOAD and the
// like: they are meant for the user's programs and their libc, not for ours.
inline constexpr char kHiddenByStarter[] = "LOCKSTEP_STARTER_";

// Gives the variables of `environment` that the starter hid their names back, each at its place: whatever
// this process execs finds the environment as the user left it. The strings are changed nowhere, only where
// each begins.
inline void UncoverEnvironment(char** environment) {
  constexpr size_t kLength = sizeof kHiddenByStarter - 1;
  for (char** variable = environment; variable != nullptr && *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, kHiddenByStarter, kLength) == 0) *variable += kLength;
  }
}

// Call it at the start of main(), before any thread. `name`, or its first 15 characters, is what ps, top and
// pgrep show: in a bundle the kernel has started the loader and named the process after it.
inline void BeginProgram(const char* name, char** environment) {
  UncoverEnvironment(environment);
  ::prctl(PR_SET_NAME, name);
}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_BASE_PROGRAM_START_H_
