// The first actions of each of our programs.
#ifndef LOCKSTEP_BASE_PROGRAM_START_H_
#define LOCKSTEP_BASE_PROGRAM_START_H_

#include <sys/prctl.h>

#include <cstring>

namespace lockstep {

// deploy/bundle/starter.c prefixes the names of the loader's own variables, such as LD_PRELOAD, with this
// text. They are meant for the user's programs and their libc, not for ours.
inline constexpr char kStarterPrefix[] = "LOCKSTEP_STARTER_";

// Restores the original names of the variables that the starter prefixed. A program that this process starts
// then has the environment of the user. Only the pointers in `environment` change, not the strings.
inline void RestoreEnvironment(char** environment) {
  constexpr size_t kLength = sizeof kStarterPrefix - 1;
  for (char** variable = environment; variable != nullptr && *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, kStarterPrefix, kLength) == 0) *variable += kLength;
  }
}

// Call it at the start of main(), before any thread starts. ps, top and pgrep show `name`, or its first 15
// characters. In a bundle the kernel starts the loader, and names the process after it.
inline void BeginProgram(const char* name, char** environment) {
  RestoreEnvironment(environment);
  ::prctl(PR_SET_NAME, name);
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_PROGRAM_START_H_
