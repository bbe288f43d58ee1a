// The progress table of a segment: the latest operations of each NCCL communicator of the process.
//
// The client writes it from NCCL's callbacks while the process runs. The daemon reads it on request, so
// it costs no wake-up, and a stopped or dead process can still be read. docs/formats/ring.md describes it.
//
// An operation's fields are valid while its position is neither 0 nor changed. The writer stores 0, the
// fields, and then the position. Stamps are CLOCK_REALTIME in nanoseconds; 0: this stage was not reached. The
// header needs no C++ library at run time.
#ifndef LOCKSTEP_WIRE_RING_PROGRESS_H_
#define LOCKSTEP_WIRE_RING_PROGRESS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep::ring {

inline constexpr uint32_t kProgressSlots = 128;  // communicators of a process
// The latest operations of a communicator; a power of two. The host may be this far ahead of the GPU.
inline constexpr uint32_t kProgressOperations = 128;
inline constexpr uint32_t kMostProgressSlots = 1024;  // a larger table is not ours

// A text of at most `words` * 8 bytes, without a terminating zero if it is full.
template <size_t words>
struct ProgressText {
  std::atomic<uint64_t> word[words];

  void Set(const char* text) {
    char bytes[words * 8] = {};
    const size_t length = text == nullptr ? 0 : ::strnlen(text, sizeof bytes);
    if (length > 0) std::memcpy(bytes, text, length);
    for (size_t i = 0; i < words; ++i) {
      uint64_t value;
      std::memcpy(&value, bytes + 8 * i, 8);
      word[i].store(value, std::memory_order_relaxed);
    }
  }
  void CopyFrom(const ProgressText& other) {
    for (size_t i = 0; i < words; ++i)
      word[i].store(other.word[i].load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
};

struct ProgressOperation {
  std::atomic<uint64_t> position;  // in the communicator's operations, from 1
  std::atomic<uint64_t> number;    // among its collectives, from 1; 0: a message
  std::atomic<uint64_t> count;     // elements
  std::atomic<int64_t> entered_ns;
  std::atomic<int64_t> launched_ns;
  std::atomic<int64_t> started_ns;
  std::atomic<int64_t> completed_ns;  // all channels that have started have also ended
  ProgressText<2> function;           // NCCL's name, such as AllReduce, Send
  ProgressText<2> datatype;           // NCCL's name, such as ncclFloat32
  std::atomic<int32_t> peer;          // of a message; the root of a collective
  std::atomic<uint32_t> channels;     // started << 16 | ended
};
static_assert(sizeof(ProgressOperation) == 96);

// kFilling: only in the writer's own copy, while it fills the slot. kEnded: the fields are those of a
// communicator that was destroyed, until another one takes the slot.
enum class ProgressState : uint32_t { kFree = 0, kLiving = 1, kFilling = 2, kEnded = 3 };

// Bits of ProgressSlot.stages: stages that this version of NCCL's plugin reports.
enum ProgressStages : uint32_t { kStageLaunched = 1, kStageKernel = 2 };

struct ProgressSlot {
  alignas(64) std::atomic<uint32_t> state;  // ProgressState
  std::atomic<uint32_t> stages;             // ProgressStages
  std::atomic<uint64_t> communicator;
  std::atomic<int32_t> rank;   // in the communicator
  std::atomic<int32_t> ranks;  // 0: not known
  std::atomic<uint64_t> operations_entered;
  std::atomic<uint64_t> collectives_entered;
  ProgressText<8> name;
  std::atomic<uint64_t> reserved[3];
  ProgressOperation operations[kProgressOperations];  // by position & (kProgressOperations - 1)
};
static_assert(sizeof(ProgressSlot) == 128 + 96 * kProgressOperations);

inline constexpr uint64_t kProgressBytes = kProgressSlots * sizeof(ProgressSlot);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_PROGRESS_H_
