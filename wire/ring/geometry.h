// Reads the positions of a segment's rings from its headers, and checks them. Both sides read them once and
// then use only this private copy, because the peer can still write to the headers. The header needs no C++
// library at run time.
#ifndef LOCKSTEP_WIRE_RING_GEOMETRY_H_
#define LOCKSTEP_WIRE_RING_GEOMETRY_H_

#include <cstddef>
#include <cstdint>

#include "wire/ring/layout.h"
#include "wire/ring/network.h"
#include "wire/ring/operation_log.h"
#include "wire/ring/progress.h"

namespace lockstep::ring {

// The smallest ring holds two records of the greatest size, so that a record always fits after the padding at
// the end.
inline constexpr uint64_t kMinRingBytes = 2ull * kMaxRecordBytes;
// A larger segment is not ours.
inline constexpr uint64_t kMaxSegmentBytes = 1ull << 32;

struct RingPlace {
  uint64_t offset = 0;    // of the first byte in the segment
  uint64_t capacity = 0;  // power of two
};

struct SegmentGeometry {
  uint64_t segment_bytes = 0;
  uint64_t incarnation = 0;
  uint32_t ring_count = 0;
  RingPlace rings[kMaxRings] = {};
  uint64_t progress_offset = 0;
  uint32_t progress_slots = 0;  // 0: no progress table
  uint64_t log_offset = 0;      // 0: no operation log
  uint64_t network_offset = 0;  // 0: no network table
};

enum class GeometryError : uint8_t {
  kNone = 0,
  kTooSmall,
  kMagic,
  kLayout,
  kRings,
  kProgress,
  kLog,
  kNetwork
};

inline const char* Explain(GeometryError error) {
  switch (error) {
    case GeometryError::kNone:
      return "no error";
    case GeometryError::kTooSmall:
      return "the segment is smaller than its headers";
    case GeometryError::kMagic:
      return "the segment does not start with its magic number";
    case GeometryError::kLayout:
      return "the segment's layout is of another major version";
    case GeometryError::kRings:
      return "the segment's rings overlap, exceed it, or have a size that is not a power of two";
    case GeometryError::kProgress:
      return "the segment's progress table overlaps a ring or exceeds the segment";
    case GeometryError::kLog:
      return "the segment's operation log overlaps another part or exceeds the segment";
    case GeometryError::kNetwork:
      return "the segment's network table overlaps another part or exceeds the segment";
  }
  return "unknown error";
}

inline constexpr uint64_t RingHeadersEnd() { return kHeaderBytes + kMaxRings * sizeof(RingHeader); }

inline RingHeader* RingHeaderAt(std::byte* base, uint32_t index) {
  return reinterpret_cast<RingHeader*>(base + kHeaderBytes) + index;
}

// Reads the place of the progress table, which begins at `free_from` or later. A table with
// slots of another size is of another version and counts as missing.
inline GeometryError ReadProgressPlace(const volatile SegmentHeader& header, uint64_t free_from,
                                       SegmentGeometry* geometry) {
  const uint64_t offset = header.progress_offset;
  const uint32_t slots = header.progress_slots;
  if (slots == 0 || header.progress_slot_bytes != sizeof(ProgressSlot)) return GeometryError::kNone;
  if (slots > kMostProgressSlots || offset % alignof(ProgressSlot) != 0 || offset < free_from ||
      offset > geometry->segment_bytes || slots * sizeof(ProgressSlot) > geometry->segment_bytes - offset)
    return GeometryError::kProgress;
  geometry->progress_offset = offset;
  geometry->progress_slots = slots;
  return GeometryError::kNone;
}

// Reads the place of the operation log, which begins at `free_from` or later. A log with another size counts
// as missing.
inline GeometryError ReadLogPlace(const volatile SegmentHeader& header, uint64_t free_from,
                                  SegmentGeometry* geometry) {
  const uint64_t offset = header.log_offset;
  if (header.log_entries != kLogEntries || header.log_entry_bytes != sizeof(LogEntry))
    return GeometryError::kNone;
  if (offset % alignof(LogEntry) != 0 || offset < free_from || offset > geometry->segment_bytes ||
      kLogBytes > geometry->segment_bytes - offset)
    return GeometryError::kLog;
  geometry->log_offset = offset;
  return GeometryError::kNone;
}

// Reads the place of the network table, which begins at `free_from` or later. A table with another size
// counts as missing.
inline GeometryError ReadNetworkPlace(const volatile SegmentHeader& header, uint64_t free_from,
                                      SegmentGeometry* geometry) {
  const uint64_t offset = header.network_offset;
  if (header.network_entries != kNetworkEntries || header.network_entry_bytes != sizeof(NetworkEntry))
    return GeometryError::kNone;
  if (offset % kNetworkAlignment != 0 || offset < free_from || offset > geometry->segment_bytes ||
      kNetworkBytes > geometry->segment_bytes - offset)
    return GeometryError::kNetwork;
  geometry->network_offset = offset;
  return GeometryError::kNone;
}

// `bytes` is the size that the kernel reports for the mapped object, not a number from the peer.
inline GeometryError ReadGeometry(std::byte* base, uint64_t bytes, SegmentGeometry* out) {
  if (bytes < RingHeadersEnd() || bytes > kMaxSegmentBytes) return GeometryError::kTooSmall;
  const auto* header = reinterpret_cast<const volatile SegmentHeader*>(base);
  if (header->magic != kMagic) return GeometryError::kMagic;
  if (header->layout_major != kLayoutMajor) return GeometryError::kLayout;
  SegmentGeometry geometry;
  geometry.segment_bytes = header->segment_bytes;
  geometry.incarnation = header->incarnation;
  geometry.ring_count = header->ring_count;
  if (geometry.segment_bytes != bytes || header->ring_header_offset != kHeaderBytes)
    return GeometryError::kRings;
  if (geometry.ring_count == 0 || geometry.ring_count > kMaxRings) return GeometryError::kRings;
  uint64_t free_from = RingHeadersEnd();
  for (uint32_t i = 0; i < geometry.ring_count; ++i) {
    const volatile RingHeader* ring = RingHeaderAt(base, i);
    RingPlace place{ring->offset, ring->capacity};
    const bool power_of_two = place.capacity != 0 && (place.capacity & (place.capacity - 1)) == 0;
    if (!power_of_two || place.capacity < kMinRingBytes || place.capacity > bytes)
      return GeometryError::kRings;
    if (place.offset % 64 != 0 || place.offset < free_from) return GeometryError::kRings;
    if (place.offset > bytes - place.capacity) return GeometryError::kRings;
    free_from = place.offset + place.capacity;
    geometry.rings[i] = place;
  }
  GeometryError error = ReadProgressPlace(*header, free_from, &geometry);
  if (geometry.progress_slots != 0)
    free_from = geometry.progress_offset + geometry.progress_slots * sizeof(ProgressSlot);
  if (error == GeometryError::kNone) error = ReadLogPlace(*header, free_from, &geometry);
  if (geometry.log_offset != 0) free_from = geometry.log_offset + kLogBytes;
  if (error == GeometryError::kNone) error = ReadNetworkPlace(*header, free_from, &geometry);
  if (error == GeometryError::kNone) *out = geometry;
  return error;
}

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_GEOMETRY_H_
