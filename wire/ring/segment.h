// The daemon's side of a segment (layout.h). The daemon creates it as a memfd, sizes and seals it.
#ifndef LOCKSTEP_WIRE_RING_SEGMENT_H_
#define LOCKSTEP_WIRE_RING_SEGMENT_H_

#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "wire/ring/geometry.h"
#include "wire/ring/layout.h"
#include "wire/ring/operation_log.h"
#include "wire/ring/progress.h"
#include "wire/ring/reader.h"

namespace lockstep::ring {

struct SegmentOptions {
  // Both sizes are rounded up to a power of two of at least kMinRingBytes.
  uint64_t main_ring_bytes = kDefaultMainRingBytes;
  uint64_t thread_ring_bytes = kDefaultThreadRingBytes;
  uint32_t ring_count = kMaxRings;  // 1..kMaxRings, with ring 0
  uint64_t incarnation = 1;
  uint64_t epoch = 1;
};

enum class SegmentError : uint8_t {
  kNone,
  kOptions,  // ring_count or a size out of range
  kSystem,   // errno has the reason
};
const char* Explain(SegmentError);

class Segment {
 public:
  Segment() = default;
  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) noexcept;
  ~Segment();

  static SegmentError Create(const SegmentOptions& options, Segment* out);

  bool ok() const { return base_ != nullptr; }
  int fd() const { return memfd_.get(); }  // for passing to the client
  uint64_t bytes() const { return geometry_.segment_bytes; }
  uint64_t incarnation() const { return geometry_.incarnation; }
  uint32_t ring_count() const { return geometry_.ring_count; }
  // The client shares it: read losses through LossReader. The daemon sets epoch before it sends Arm.
  SegmentHeader* header() const { return reinterpret_cast<SegmentHeader*>(base_); }
  // The client writes it: read it through ReadProgress. Null: none.
  const ProgressSlot* progress() const {
    return geometry_.progress_slots == 0
               ? nullptr
               : reinterpret_cast<const ProgressSlot*>(base_ + geometry_.progress_offset);
  }
  uint32_t progress_slots() const { return geometry_.progress_slots; }
  // The client writes it: read it through ReadLog. It has kLogEntries entries.
  const LogEntry* log() const { return reinterpret_cast<const LogEntry*>(base_ + geometry_.log_offset); }
  // The client writes it: read it through ReadNetwork. It has kNetworkEntries entries.
  const NetworkEntry* network() const {
    return reinterpret_cast<const NetworkEntry*>(base_ + geometry_.network_offset);
  }
  // The reader refers to this segment, which must outlive it.
  RingReader Reader(uint32_t index) const;

 private:
  void Unmap();

  Fd memfd_;
  std::byte* base_ = nullptr;
  SegmentGeometry geometry_{};
};

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_SEGMENT_H_
