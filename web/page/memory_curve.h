// The memory in use over time of the memories with the highest peaks, reduced to the resolution of a screen.
#ifndef LOCKSTEP_WEB_PAGE_MEMORY_CURVE_H_
#define LOCKSTEP_WEB_PAGE_MEMORY_CURVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::web {

// The bytes in use that one operator or call allocated.
struct MemoryOwner {
  std::string name;
  int64_t bytes = 0;
};

struct MemoryPeak {
  Nanos time;  // from the curve's start
  int64_t bytes = 0;
  std::vector<MemoryOwner> owners;  // largest first; empty if allocations have no addresses
  int64_t unknown_bytes = 0;        // the rest: allocated before the capture, or of smaller owners
};

// One kind of memory of one rank.
struct MemoryCurve {
  RankId rank;
  std::string place;      // "GPU0", "host"
  std::string kind;       // views::MemoryPoint::kind
  bool relative = false;  // in_use counts from 0 at the begin of the capture
  // By time: the lowest and the highest point of each bin. Times are in nanoseconds from the first point.
  std::vector<float> time_ns, in_use_bytes;
  std::vector<MemoryPeak> peaks;  // highest first, distant from each other
};

// Returns up to four curves, devices before hosts, then the highest peak first. Returns none without memory
// records. A pure function.
std::vector<MemoryCurve> MakeMemoryCurves(const capture::Capture& capture);

}  // namespace lockstep::web

#endif  // LOCKSTEP_WEB_PAGE_MEMORY_CURVE_H_
