// Random numbers from the kernel, which distinguish this run of a program from its others.
#ifndef LOCKSTEP_BASE_RANDOM_NUMBER_H_
#define LOCKSTEP_BASE_RANDOM_NUMBER_H_

#include <sys/random.h>

#include <cstdint>

namespace lockstep {

// Never returns 0. Any thread.
inline uint64_t RandomNumber() {
  uint64_t number = 0;
  // Blocks only until the kernel has initial entropy; afterwards it always returns 8 bytes.
  [[maybe_unused]] const ssize_t n = getrandom(&number, sizeof(number), 0);
  return number | 1;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_RANDOM_NUMBER_H_
