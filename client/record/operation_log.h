// Writes the operation log of the segment (wire/ring/operation_log.h).
//
// Any thread may add and change entries, without locks. Two threads share an entry only if kLogEntries others
// begin while one of them writes a few words. A value may then be in the wrong entry, and nothing else
// happens.
#ifndef LOCKSTEP_CLIENT_RECORD_OPERATION_LOG_H_
#define LOCKSTEP_CLIENT_RECORD_OPERATION_LOG_H_

#include <atomic>
#include <cstdint>

#include "client/record/timing.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/operation_log.h"

namespace lockstep::client {

class OperationLog {
 public:
  // `timing` outlives this.
  constexpr explicit OperationLog(const Timing& timing) : timing_(timing) {}

  // From now on entries go to this segment, which must stay mapped until the next call. Null, or a segment
  // without a log: nowhere. The agent's thread.
  void Attach(const ring::ClientSegment* segment) {
    const bool has_log = segment != nullptr && segment->attached() && segment->log() != nullptr;
    newest_.store(nullptr, std::memory_order_relaxed);
    entries_.store(has_log ? segment->log() : nullptr, std::memory_order_release);
    if (has_log) newest_.store(&segment->header().log_newest, std::memory_order_release);
  }

  // Calls write(LogEntry&), which sets the fields except the position. Returns the entry's position; 0: the
  // segment has no log.
  template <typename Write>
  uint64_t Add(Write write) {
    ring::LogEntry* entries = entries_.load(std::memory_order_acquire);
    if (entries == nullptr) return 0;
    const uint64_t position = next_.fetch_add(1, std::memory_order_relaxed);
    ring::LogEntry& entry = entries[ring::LogPlace(position)];
    entry.position.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    write(entry);
    entry.position.store(position, std::memory_order_release);
    if (auto* newest = newest_.load(std::memory_order_acquire))
      newest->store(position, std::memory_order_relaxed);
    return position;
  }

  // Calls change(LogEntry&) if the entry is still there.
  template <typename Change>
  void Update(uint64_t position, Change change) {
    ring::LogEntry* entries = entries_.load(std::memory_order_acquire);
    if (entries == nullptr || position == 0) return;
    ring::LogEntry& entry = entries[ring::LogPlace(position)];
    if (entry.position.load(std::memory_order_relaxed) == position) change(entry);
  }

  // Step `number` begins now. `kind`: kNamedStep or kMarkedStep.
  void AddStep(uint64_t number, ring::LogKind kind) {
    const HostTime begin = timing_.realtime();
    Add([&](ring::LogEntry& entry) {
      entry.communicator.store(0, std::memory_order_relaxed);
      entry.kind.store(static_cast<uint32_t>(kind), std::memory_order_relaxed);
      entry.operation.position.store(0, std::memory_order_relaxed);
      entry.operation.number.store(number, std::memory_order_relaxed);
      entry.operation.entered_ns.store(begin.ns(), std::memory_order_relaxed);
      entry.operation.completed_ns.store(0, std::memory_order_relaxed);
    });
  }

 private:
  const Timing& timing_;
  // Positions continue in the log of a restarted daemon, so that an entry of the earlier log is not changed
  // there.
  std::atomic<uint64_t> next_{1};
  std::atomic<ring::LogEntry*> entries_{nullptr};
  std::atomic<std::atomic<uint64_t>*> newest_{nullptr};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_OPERATION_LOG_H_
