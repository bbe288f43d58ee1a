// The segment of shared memory between a client process and the daemon.
//
//   0            4096                 4096 + 64*128
//   ┌────────────┬────────────────────┬─────────────────────────────┬───────────────┬─── … ───┐
//   │ Segment-   │ RingHeader[64]     │ ring 0 (CUPTI's worker)     │ ring 1        │ ring N-1│
//   │ Header     │ head, tail, state  │ 8 MiB unless set otherwise  │ 256 KiB       │         │
//   └────────────┴────────────────────┴─────────────────────────────┴───────────────┴─── … ───┘
// The progress table (progress.h) follows the last ring, then come the operation log (operation_log.h) and
// the network table (network.h).
//
// The daemon makes the memfd, sizes it, seals GROW|SHRINK|SEAL and passes it. The client checks seals and
// size. Each ring has one writer (the thread that claimed it) and one reader (the daemon's drain thread):
//   * head and tail count bytes since the ring was made, and never decrease. A byte count has the position
//     count & (capacity - 1) in the ring.
//   * The writer publishes with head.store(release); the reader frees with tail.store(release).
//   * A record never wraps: a kPad record fills the end of the ring.
//   * A full ring drops the newest record and counts it. The writer never waits.
//   * The reader does not trust the writer. It reads head once, and checks it against its own tail:
//     0 <= head - tail <= capacity. It copies a record out, and then checks the copy. It reads the shared
//     tail only when it starts, and then only writes it.
// Ring 0 belongs to the thread that runs CUPTI's completion callback. A try-claim per buffer, without
// spinning, guards it. Any other thread claims a ring with one CAS free→owned at its first record, and
// releases it when it ends. A released ring keeps its bytes until the reader has drained them.
#ifndef LOCKSTEP_WIRE_RING_LAYOUT_H_
#define LOCKSTEP_WIRE_RING_LAYOUT_H_

#include <atomic>
#include <cstdint>

#include "wire/ring/record.h"

namespace lockstep::ring {

inline constexpr uint64_t kMagic = 0x31504554534B434Cull;  // "LCKSTEP1" in memory
inline constexpr uint32_t kLayoutMajor = 1;
// Minor versions: 1 adds triggers in handshake.h, and kinds and counters after the first ones. 2 adds
// devices, contexts, streams and memory. 3 adds the holder of CUPTI in handshake.h. 4 adds Python profiles,
// 5 the Cut of a window, and 6 Presence, in handshake.h. 7 adds the progress table, 8 the operation log, and
// 9 the network table.
inline constexpr uint32_t kLayoutMinor = 9;
inline constexpr uint32_t kMinorWithObjects = 2;
inline constexpr uint32_t kMinorWithPythonProfiles = 4;
inline constexpr uint32_t kMaxRings = 64;
// Numbers of kinds and loss reasons in minor version 0, to which the header's first counters belong. The
// places after them are for kinds and reasons of later versions.
inline constexpr size_t kFirstKinds = 15;
inline constexpr size_t kFirstReasons = 6;
inline constexpr size_t kKindPlaces = 32;
inline constexpr size_t kReasonPlaces = 8;
static_assert(kRecordKinds <= kKindPlaces && kLossReasons <= kReasonPlaces);
inline constexpr uint64_t kHeaderBytes = 4096;
inline constexpr uint64_t kDefaultMainRingBytes = 8ull << 20;      // power of two
inline constexpr uint64_t kDefaultThreadRingBytes = 256ull << 10;  // power of two

struct SegmentHeader {
  uint64_t magic;
  uint32_t layout_major;
  uint32_t layout_minor;
  uint64_t segment_bytes;
  uint32_t ring_count;
  uint32_t ring_header_offset;  // kHeaderBytes
  uint64_t incarnation;         // the daemon's number for this client process
  std::atomic<uint64_t> epoch;  // string ids start again in each: new segment, reconnect, new capture
  // Records lost before they reached a ring, by reason and kind. Any thread adds to it, relaxed.
  std::atomic<uint64_t> lost[kFirstReasons][kFirstKinds];
  // Records written, by kind, for statistics only. The reader counts separately.
  std::atomic<uint64_t> written[kFirstKinds];
  // The same counters for later reasons and kinds, since minor version 1.
  std::atomic<uint64_t> more_lost[kReasonPlaces][kKindPlaces];
  std::atomic<uint64_t> more_written[kKindPlaces];
  // The progress table, since minor version 7. The client writes only a table that ReadGeometry accepts.
  uint64_t progress_offset;  // of its first byte in the segment
  uint32_t progress_slots;   // 0: none
  uint32_t progress_slot_bytes;
  // The operation log, since minor version 8, with the same rule.
  uint64_t log_offset;
  uint32_t log_entries;  // 0: none
  uint32_t log_entry_bytes;
  std::atomic<uint64_t> log_newest;  // position of an entry that is about the newest
  // The network table, since minor version 9, with the same rule.
  uint64_t network_offset;
  uint32_t network_entries;  // 0: none
  uint32_t network_entry_bytes;
};
static_assert(sizeof(SegmentHeader) <= kHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Returns the counter of a reason and kind. Header is SegmentHeader, const or not.
template <typename Header>
auto& LostCounter(Header& header, size_t reason, size_t kind) {
  return reason < kFirstReasons && kind < kFirstKinds ? header.lost[reason][kind]
                                                      : header.more_lost[reason][kind];
}
template <typename Header>
auto& WrittenCounter(Header& header, size_t kind) {
  return kind < kFirstKinds ? header.written[kind] : header.more_written[kind];
}

enum class RingState : uint32_t { kFree = 0, kOwned = 1 };

struct RingHeader {
  alignas(64) std::atomic<uint64_t> head;  // bytes written since the segment was made
  std::atomic<uint32_t> state;             // RingState
  std::atomic<uint32_t> owner_thread;      // gettid of the last claimer, only for messages
  uint64_t offset;                         // of the ring's first byte in the segment; set by the daemon
  uint64_t capacity;                       // bytes, power of two; set by the daemon
  alignas(64) std::atomic<uint64_t> tail;  // bytes freed by the reader
};
static_assert(sizeof(RingHeader) == 128);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_LAYOUT_H_
