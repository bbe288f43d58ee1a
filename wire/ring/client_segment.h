// The client's mapping of the segment the daemon passed. libc only.
#ifndef LOCKSTEP_COMMON_RING_CLIENT_SEGMENT_H_
#define LOCKSTEP_COMMON_RING_CLIENT_SEGMENT_H_

#include <cstddef>
#include <cstdint>

#include "wire/ring/geometry.h"
#include "wire/ring/layout.h"
#include "wire/ring/writer.h"

namespace lockstep::ring {

enum class AttachError : uint8_t {
  kNone,
  kNotSealed,  // not a memfd, or it could shrink under us: a write would then be a SIGBUS
  kSize,       // its size is not what the daemon announced
  kGeometry,
  kMap,
};

// Maps for writing; the mapping is not inherited by forked children. Unmapped by Detach only, never by a
// destructor: at process exit other threads may still write.
class ClientSegment {
 public:
  constexpr ClientSegment() = default;

  // Does not keep `memfd`.
  AttachError Attach(int memfd, uint64_t announced_bytes);
  void Detach();

  bool attached() const { return base_ != nullptr; }
  uint64_t bytes() const { return geometry_.segment_bytes; }
  uint32_t ring_count() const { return geometry_.ring_count; }
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  RingHeader& ring(uint32_t index) const { return *RingHeaderAt(base_, index); }
  // For the thread that claimed ring `index` (below ring_count()).
  RingWriter Writer(uint32_t index) const {
    const RingPlace& place = geometry_.rings[index];
    return RingWriter(header(), ring(index), base_ + place.offset, place.capacity);
  }

 private:
  std::byte* base_ = nullptr;
  SegmentGeometry geometry_{};
};

}  // namespace lockstep::ring

#endif  // LOCKSTEP_COMMON_RING_CLIENT_SEGMENT_H_
