// The memory view: what PyTorch's operators allocated, every allocation with its release, and how much was in
// use over time (torch-tb-profiler's memory view). Without PyTorch's allocator the same of cudaMalloc,
// cudaFree and their like, where a capture has them.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_MEMORY_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

// Whose memory. `device` < 0: the host's.
struct MemoryPlace {
  RankId rank;
  int32_t device = -1;
  auto operator<=>(const MemoryPlace&) const = default;
};

// Sums over all calls of an operator of one rank, on one device. A call inside another of the same name
// counts in the totals of both.
struct OperatorMemory {
  MemoryPlace place;
  std::string_view name;
  uint64_t calls = 0;                       // all of them, also those that allocated nothing
  int64_t increase = 0, self_increase = 0;  // allocated less released, bytes
  uint64_t allocations = 0, self_allocations = 0;
  int64_t allocated = 0, self_allocated = 0;  // bytes
};

// A piece of memory's life. Known by its address; without one nothing tells which release belongs to which
// allocation.
struct MemoryLife {
  MemoryPlace place;
  // Who allocated it: "aten::conv2d (aten::empty)" where the operator is PyTorch's malloc, "aten::add" else;
  // the call for cudaMalloc.
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
  int64_t in_use = 0;  // bytes; from the allocator, or (`relative`) since the capture began, below 0 where
                       // what was there before is released
  bool relative = false;
  std::optional<int64_t> reserved;
};

struct Memory {
  std::vector<OperatorMemory> operators;  // by place, the largest self increase first
  std::vector<MemoryLife> lives;          // by place, then time
  std::vector<MemoryPoint> curve;         // by place, then time
  uint64_t allocator_events = 0;
  uint64_t without_address = 0;  // of those
  uint64_t outside = 0;          // of those: in no operator
  uint64_t runtime_calls = 0;    // cudaMalloc and the like
};

// Texts point into `capture`.
Memory MemoryOf(const store::Capture& capture);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_MEMORY_H_
