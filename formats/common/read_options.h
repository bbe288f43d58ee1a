// Options of the readers of recorded traces.
#ifndef LOCKSTEP_FORMATS_COMMON_READ_OPTIONS_H_
#define LOCKSTEP_FORMATS_COMMON_READ_OPTIONS_H_

#include <cstdint>
#include <functional>

namespace lockstep::formats {

// The detail in which readers keep the host's operators, annotations and Python functions. With kUnions, they
// keep only the times at which any of them ran (capture::HostUnions). With kFrames, they also keep each one
// (capture::HostFrames), for the views of operators, modules and memory.
enum class HostDetail : uint8_t { kUnions, kFrames };

struct ReadOptions {
  int threads = 2;
  HostDetail host = HostDetail::kUnions;
  // Called from time to time, from any thread, with the bytes read so far and in total. It may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_READ_OPTIONS_H_
