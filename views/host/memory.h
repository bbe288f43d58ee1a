// The memory view: the allocations of PyTorch's operators, each allocation with its release, and the memory
// in use over time (torch-tb-profiler's memory view). It also has the calls of cudaMalloc, cudaFree and
// similar functions, if the capture has them.
#ifndef LOCKSTEP_VIEWS_HOST_MEMORY_H_
#define LOCKSTEP_VIEWS_HOST_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

// A memory of a rank. `device` < 0: the host's memory.
struct MemoryPlace {
  RankId rank;
  int32_t device = -1;
  auto operator<=>(const MemoryPlace&) const = default;
};

// Sums over all calls of an operator of one rank, on one device. A call inside another call of the same name
// counts in the totals of both.
struct OperatorMemory {
  MemoryPlace place;
  std::string_view name;
  uint64_t calls = 0;                       // all calls, including those that allocated nothing
  int64_t increase = 0, self_increase = 0;  // allocated minus released, bytes
  uint64_t allocations = 0, self_allocations = 0;
  int64_t allocated = 0, self_allocated = 0;  // bytes
};

// One allocation from start to release, identified by its address. Without addresses, releases cannot be
// matched to allocations.
struct MemoryLife {
  MemoryPlace place;
  // The operator that allocated it: "aten::conv2d (aten::empty)" if another operator called aten::empty, else
  // "aten::add". For cudaMalloc, the call.
  std::string by;
  std::string_view kind;  // "caching allocator", "device", "managed", "pinned", "pageable"
  int64_t bytes = 0;
  uint64_t address = 0;
  std::optional<HostTime> allocated, released;  // nullopt: outside the capture
};

struct MemoryPoint {
  MemoryPlace place;
  std::string_view kind;
  HostTime time;
  int64_t in_use = 0;  // bytes, by the allocator; if `relative`, since the capture began, and negative after
                       // releases of older memory
  bool relative = false;
  std::optional<int64_t> reserved;
};

struct Memory {
  std::vector<OperatorMemory> operators;  // by place, the largest self increase first
  std::vector<MemoryLife> lives;          // by place, then time
  std::vector<MemoryPoint> curve;         // by place, then time
  uint64_t allocator_events = 0;
  uint64_t without_address = 0;  // of allocator_events
  uint64_t outside = 0;          // of allocator_events: in no operator
  uint64_t runtime_calls = 0;    // calls of cudaMalloc and similar functions
};

// Texts point into `capture`.
Memory MemoryOf(const capture::Capture& capture);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_MEMORY_H_
