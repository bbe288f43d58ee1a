// The client's mapping of the segment that the daemon passed. It needs only libc.
#ifndef LOCKSTEP_WIRE_RING_CLIENT_SEGMENT_H_
#define LOCKSTEP_WIRE_RING_CLIENT_SEGMENT_H_

#include <cstddef>
#include <cstdint>

#include "wire/ring/geometry.h"
#include "wire/ring/layout.h"
#include "wire/ring/operation_log.h"
#include "wire/ring/progress.h"
#include "wire/ring/writer.h"

namespace lockstep::ring {

enum class AttachError : uint8_t {
  kNone,
  kNotSealed,  // not a memfd, or not sealed against shrinking: a write could raise SIGBUS
  kSize,       // the size differs from the one that the daemon announced
  kGeometry,
  kMap,
};

// Maps a segment for writing. Forked children do not inherit the mapping. Only Detach unmaps it, not a
// destructor, because other threads may still write at process exit.
class ClientSegment {
 public:
  constexpr ClientSegment() = default;

  // It does not keep `memfd`.
  AttachError Attach(int memfd, uint64_t announced_bytes);
  void Detach();

  bool attached() const { return base_ != nullptr; }
  uint64_t bytes() const { return geometry_.segment_bytes; }
  uint32_t ring_count() const { return geometry_.ring_count; }
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  RingHeader& ring(uint32_t index) const { return *RingHeaderAt(base_, index); }
  // Returns the progress table, or null if the daemon made none. It has progress_slots() slots.
  ProgressSlot* progress() const {
    return geometry_.progress_slots == 0 ? nullptr
                                         : reinterpret_cast<ProgressSlot*>(base_ + geometry_.progress_offset);
  }
  uint32_t progress_slots() const { return geometry_.progress_slots; }
  // Returns the operation log, or null if the daemon made none. It has kLogEntries entries.
  LogEntry* log() const {
    return geometry_.log_offset == 0 ? nullptr : reinterpret_cast<LogEntry*>(base_ + geometry_.log_offset);
  }
  // Returns the network table, or null if the daemon made none. It has kNetworkEntries entries.
  NetworkEntry* network() const {
    return geometry_.network_offset == 0 ? nullptr
                                         : reinterpret_cast<NetworkEntry*>(base_ + geometry_.network_offset);
  }
  // Call it on the thread that claimed ring `index`, which must be below ring_count().
  RingWriter Writer(uint32_t index) const {
    const RingPlace& place = geometry_.rings[index];
    return RingWriter(header(), ring(index), base_ + place.offset, place.capacity);
  }

 private:
  std::byte* base_ = nullptr;
  SegmentGeometry geometry_{};
};

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_CLIENT_SEGMENT_H_
