// The daemon's end of a segment: makes one (memfd, sized, sealed) or adopts one that a client kept over the
// daemon's restart. See layout.h.
#ifndef LOCKSTEP_COMMON_RING_SEGMENT_H_
#define LOCKSTEP_COMMON_RING_SEGMENT_H_

#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "wire/ring/geometry.h"
#include "wire/ring/layout.h"
#include "wire/ring/reader.h"

namespace lockstep::ring {

struct SegmentOptions {
  // Rounded up to a power of two, at least kMinRingBytes.
  uint64_t main_ring_bytes = kDefaultMainRingBytes;
  uint64_t thread_ring_bytes = kDefaultThreadRingBytes;
  uint32_t ring_count = kMaxRings;  // 1..kMaxRings, ring 0 included
  uint64_t incarnation = 1;
  uint64_t epoch = 1;
};

enum class SegmentError : uint8_t {
  kNone,
  kOptions,    // ring_count or a size out of range
  kSystem,     // errno says why
  kNotSealed,  // adopted: could be resized under us
  kGeometry,   // adopted: headers that cannot be
};
const char* Explain(SegmentError);

class Segment {
 public:
  Segment() = default;
  Segment(Segment&&) noexcept;
  Segment& operator=(Segment&&) noexcept;
  ~Segment();

  static SegmentError Create(const SegmentOptions& options, Segment* out);
  // Takes `memfd`. Everything read from its headers is checked once and kept privately.
  static SegmentError Adopt(Fd memfd, Segment* out);

  bool ok() const { return base_ != nullptr; }
  int fd() const { return memfd_.get(); }  // to pass to the client
  uint64_t bytes() const { return geometry_.segment_bytes; }
  uint64_t incarnation() const { return geometry_.incarnation; }
  uint32_t ring_count() const { return geometry_.ring_count; }
  // Shared with the client: read losses through LossReader; epoch is the daemon's to set before it sends Arm.
  SegmentHeader* header() const { return reinterpret_cast<SegmentHeader*>(base_); }
  // Refers into this segment and must not outlive it.
  RingReader Reader(uint32_t index) const;

 private:
  void Unmap();

  Fd memfd_;
  std::byte* base_ = nullptr;
  SegmentGeometry geometry_{};
};

}  // namespace lockstep::ring

#endif  // LOCKSTEP_COMMON_RING_SEGMENT_H_
