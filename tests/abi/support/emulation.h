// Says whether the test runs in qemu's user emulation, which does not emulate all of Linux.
#ifndef LOCKSTEP_TESTS_ABI_SUPPORT_EMULATION_H_
#define LOCKSTEP_TESTS_ABI_SUPPORT_EMULATION_H_

#include <fstream>
#include <string>

namespace lockstep {

// The process has the emulator's name there, and madvise for children has no effect.
inline bool IsEmulated() {
  std::ifstream file("/proc/self/comm");
  std::string name;
  return std::getline(file, name) && name.rfind("qemu", 0) == 0;
}

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_ABI_SUPPORT_EMULATION_H_
