#include "wire/ring/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace lockstep::ring {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

uint64_t RingBytes(uint64_t wanted) { return std::bit_ceil(std::max(wanted, kMinRingBytes)); }

// The memfd is new and all zero, and no other process has it yet.
void WriteHeaders(std::byte* base, const SegmentOptions& options, uint64_t segment_bytes) {
  auto* header = new (base) SegmentHeader{};
  header->magic = kMagic;
  header->layout_major = kLayoutMajor;
  header->layout_minor = kLayoutMinor;
  header->segment_bytes = segment_bytes;
  header->ring_count = options.ring_count;
  header->ring_header_offset = kHeaderBytes;
  header->incarnation = options.incarnation;
  header->epoch.store(options.epoch, std::memory_order_relaxed);
  uint64_t offset = RingHeadersEnd();
  for (uint32_t i = 0; i < options.ring_count; ++i) {
    auto* ring = new (RingHeaderAt(base, i)) RingHeader{};
    ring->offset = offset;
    ring->capacity = RingBytes(i == 0 ? options.main_ring_bytes : options.thread_ring_bytes);
    offset += ring->capacity;
  }
  header->progress_offset = offset;
  header->progress_slots = kProgressSlots;
  header->progress_slot_bytes = sizeof(ProgressSlot);
  header->log_offset = offset + kProgressBytes;
  header->log_entries = kLogEntries;
  header->log_entry_bytes = sizeof(LogEntry);
  header->network_offset = header->log_offset + kLogBytes;
  header->network_entries = kNetworkEntries;
  header->network_entry_bytes = sizeof(NetworkEntry);
}

}  // namespace

const char* Explain(SegmentError error) {
  switch (error) {
    case SegmentError::kNone:
      return "no error";
    case SegmentError::kOptions:
      return "the number or size of rings is out of range";
    case SegmentError::kSystem:
      return "a system call failed";
  }
  return "unknown error";
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  if (this != &other) {
    Unmap();
    memfd_ = std::move(other.memfd_);
    base_ = std::exchange(other.base_, nullptr);
    geometry_ = std::exchange(other.geometry_, SegmentGeometry{});
  }
  return *this;
}

Segment::~Segment() { Unmap(); }

void Segment::Unmap() {
  if (base_ != nullptr) ::munmap(base_, geometry_.segment_bytes);
  base_ = nullptr;
}

SegmentError Segment::Create(const SegmentOptions& options, Segment* out) {
  if (options.ring_count == 0 || options.ring_count > kMaxRings) return SegmentError::kOptions;
  if (options.main_ring_bytes > kMaxSegmentBytes / 2 ||
      options.thread_ring_bytes > kMaxSegmentBytes / kMaxRings / 2) {
    return SegmentError::kOptions;
  }
  const uint64_t bytes = RingHeadersEnd() + RingBytes(options.main_ring_bytes) +
                         (options.ring_count - 1) * RingBytes(options.thread_ring_bytes) + kProgressBytes +
                         kLogBytes + kNetworkBytes;
  if (bytes > kMaxSegmentBytes) return SegmentError::kOptions;
  Segment made;
  made.memfd_.reset(::memfd_create("lockstep-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.memfd_.ok() || ::ftruncate(made.memfd_.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(made.memfd_.get(), F_ADD_SEALS, kSeals) != 0) {
    return SegmentError::kSystem;
  }
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.memfd_.get(), 0);
  if (base == MAP_FAILED) return SegmentError::kSystem;
  made.base_ = static_cast<std::byte*>(base);
  made.geometry_.segment_bytes = bytes;
  WriteHeaders(made.base_, options, bytes);
  if (ReadGeometry(made.base_, bytes, &made.geometry_) != GeometryError::kNone) return SegmentError::kOptions;
  *out = std::move(made);
  return SegmentError::kNone;
}

RingReader Segment::Reader(uint32_t index) const {
  const RingPlace& place = geometry_.rings[index];
  return RingReader(RingHeaderAt(base_, index), base_ + place.offset, place.capacity);
}

}  // namespace lockstep::ring
