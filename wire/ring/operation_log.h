// The operation log of a segment: the latest operations of all communicators of the process, and its steps,
// in the order in which they began. `lockstep record dump` turns it into a capture of the past, and the
// daemon finds the steps in it (daemon/watch).
//
// The client writes it while it follows progress (progress.h). The newest entry takes the place of the
// oldest, so the log needs no reader, and it outlives the process. docs/formats/ring.md describes it.
//
// An entry's fields are valid while its position is neither 0 nor changed. The writer stores 0, the fields,
// and then the position. The stages of an operation are added later. The header needs no C++ library at run
// time.
#ifndef LOCKSTEP_WIRE_RING_OPERATION_LOG_H_
#define LOCKSTEP_WIRE_RING_OPERATION_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/ring/progress.h"

namespace lockstep::ring {

inline constexpr uint32_t kLogEntries = 1u << 15;  // a power of two

enum class LogKind : uint32_t {
  kOperation = 1,
  kNamedStep = 2,   // a range named the step that begins here
  kMarkedStep = 3,  // lockstep_step_begin
};

struct LogEntry {
  alignas(64) std::atomic<uint64_t> position;  // in the log of this process, from 1; 0: being written
  std::atomic<uint64_t> communicator;          // 0: a step
  // Of a message that was launched: its number among those with the same peer and direction, from 0.
  std::atomic<uint64_t> message_number;
  std::atomic<uint32_t> kind;  // LogKind
  std::atomic<uint32_t> reserved;
  // Of a step, only number (the step's) and entered_ns (its begin).
  ProgressOperation operation;
};
static_assert(sizeof(LogEntry) == 128);

inline constexpr uint64_t kLogBytes = kLogEntries * sizeof(LogEntry);

inline uint32_t LogPlace(uint64_t position) { return static_cast<uint32_t>(position) & (kLogEntries - 1); }

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_OPERATION_LOG_H_
