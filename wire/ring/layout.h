// The shared segment between one client process and the daemon.
//
//   0            4096                 4096 + 64*128
//   ┌────────────┬────────────────────┬─────────────────────────────┬───────────────┬─── … ───┐
//   │ Segment-   │ RingHeader[64]     │ ring 0 (CUPTI's worker)     │ ring 1        │ ring N-1│
//   │ Header     │ head, tail, state  │ 8 MiB unless set otherwise  │ 256 KiB       │         │
//   └────────────┴────────────────────┴─────────────────────────────┴───────────────┴─── … ───┘
//
// The daemon makes the memfd, sizes it, seals GROW|SHRINK|SEAL and passes it; the client checks seals and
// size. One writer per ring (the thread that claimed it), one reader (the daemon's drain thread):
//   * head and tail are byte counts since the ring was made, never reduced; position = count & (capacity -
//   1).
//   * the writer publishes with head.store(release); the reader frees with tail.store(release).
//   * a record never wraps: a kPad record fills the end of the ring.
//   * full: the newest record is dropped and counted. The writer never waits.
//   * the reader treats head, and every byte it reads, as a claim of a peer that may lie: it reads head once,
//   checks
//     0 <= head - tail <= capacity against its own tail, copies a record out, then checks the copy. The
//     shared tail is write-only for it.
// Ring 0 belongs to whichever thread runs CUPTI's completion callback (a spin-free try-claim per buffer
// guards it); any other thread claims a ring with one CAS free→owned at its first record and gives it back
// when it ends. A ring given back keeps its bytes until the reader has drained them.
#ifndef LOCKSTEP_COMMON_RING_LAYOUT_H_
#define LOCKSTEP_COMMON_RING_LAYOUT_H_

#include <atomic>
#include <cstdint>

#include "wire/ring/record.h"

namespace lockstep::ring {

inline constexpr uint64_t kMagic = 0x31504554534B434Cull;  // "LCKSTEP1" in memory
inline constexpr uint32_t kLayoutMajor = 1;
// 1: triggers in handshake.h, kinds and counters behind the first ones. 2: devices, contexts, streams,
// memory. 3: who holds CUPTI, in handshake.h. 4: profiles of Python, in handshake.h.
inline constexpr uint32_t kLayoutMinor = 4;
inline constexpr uint32_t kMinorWithObjects = 2;
inline constexpr uint32_t kMinorWithPythonProfiles = 4;
inline constexpr uint32_t kMaxRings = 64;
// Kinds and loss reasons of minor version 0, for which the header's first counters have places; and the
// places of the counters appended behind them for all that came later.
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
  std::atomic<uint64_t> epoch;  // string ids start anew at each: new segment, reconnect, new capture
  // Records lost before they reached a ring, by reason and kind. Any thread, relaxed add.
  std::atomic<uint64_t> lost[kFirstReasons][kFirstKinds];
  // Records written, by kind. Only statistics: the reader counts for itself.
  std::atomic<uint64_t> written[kFirstKinds];
  // Minor version 1: the same where reason or kind has no place above.
  std::atomic<uint64_t> more_lost[kReasonPlaces][kKindPlaces];
  std::atomic<uint64_t> more_written[kKindPlaces];
};
static_assert(sizeof(SegmentHeader) <= kHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// The counter of a reason and kind; Header is SegmentHeader, const or not.
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
  std::atomic<uint32_t> owner_thread;      // gettid of the last claimer, for messages only
  uint64_t offset;                         // of the ring's first byte in the segment; set by the daemon
  uint64_t capacity;                       // bytes, power of two; set by the daemon
  alignas(64) std::atomic<uint64_t> tail;  // bytes freed by the reader
};
static_assert(sizeof(RingHeader) == 128);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_COMMON_RING_LAYOUT_H_
