// Drains a segment while a hostile writer changes it: ring contents, write positions, headers, counters and
// epochs, at any moment. The drain must stay within its budget, and every batch that it makes must be valid.
//
// The input is a list of writes, which a thread repeats in a loop until the drain has ended.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fuzz_input_fixture.h"
#include "daemon/clients/daemon_segment.h"
#include "daemon/drain/batcher.h"
#include "wire/columns/columns.h"
#include "wire/ring/geometry.h"

namespace lockstep::daemon {
namespace {

constexpr uint32_t kRings = 3;
constexpr uint64_t kRingBytes = ring::kMinRingBytes;
constexpr size_t kScratchBytes = 2 * ring::kMaxRecordBytes;
constexpr uint64_t kTurnBytes = kRingBytes;  // per ring
constexpr int kTurns = 8;
constexpr size_t kMostWrites = 64;

// One write, or one wait for the reader.
struct Write {
  enum class To : uint8_t {
    kRing,
    kRecord,
    kHead,
    kHeadAhead,
    kTail,
    kRingHeader,
    kHeader,
    kCounter,
    kPause
  };
  static constexpr size_t kKinds = 9;
  To to = To::kRing;
  uint32_t ring = 0;
  uint32_t offset = 0;
  uint64_t value = 0;
  std::string_view bytes;
};

Write ReadWrite(FuzzInput& input) {
  Write write;
  write.to = static_cast<Write::To>(input.Below(Write::kKinds));
  write.ring = static_cast<uint32_t>(input.Below(kRings));
  switch (write.to) {
    case Write::To::kRing:
    case Write::To::kRecord:
      write.offset = input.Number<uint16_t>();
      write.value = input.Number<uint16_t>();  // kind
      write.bytes = input.Text(1024);
      break;
    case Write::To::kHeadAhead:
      write.value = input.Number<uint16_t>();
      break;
    case Write::To::kHeader:
    case Write::To::kRingHeader:
    case Write::To::kCounter:
      write.offset = input.Number<uint16_t>();
      [[fallthrough]];
    default:
      write.value = input.Number<uint64_t>();
  }
  return write;
}

// The writer's own mapping of the segment.
class Writer {
 public:
  Writer(int memfd, uint64_t bytes) : bytes_(bytes) {
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (base == MAP_FAILED) std::abort();
    base_ = static_cast<std::byte*>(base);
  }
  ~Writer() { munmap(base_, bytes_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void Do(const Write& write) const {
    ring::RingHeader* header = ring::RingHeaderAt(base_, write.ring);
    const uint64_t head = header->head.load(std::memory_order_relaxed);
    switch (write.to) {
      case Write::To::kRing:
        Copy(write.ring, write.offset, write.bytes);
        break;
      case Write::To::kRecord: {
        ring::RecordHeader record{};
        record.kind = static_cast<ring::RecordKind>(write.value);
        record.bytes = static_cast<uint32_t>(sizeof(record) + (write.bytes.size() + 7) / 8 * 8);
        Copy(write.ring, head, {reinterpret_cast<const char*>(&record), sizeof(record)});
        Copy(write.ring, head + sizeof(record), write.bytes);
        header->head.store(head + record.bytes, std::memory_order_release);
        break;
      }
      case Write::To::kHead:
        header->head.store(write.value, std::memory_order_release);
        break;
      case Write::To::kHeadAhead:
        header->head.store(head + write.value * 8 % (kRingBytes + 16), std::memory_order_release);
        break;
      case Write::To::kTail:
        header->tail.store(write.value, std::memory_order_release);
        break;
      case Write::To::kRingHeader:
        std::memcpy(reinterpret_cast<std::byte*>(header) + write.offset % (sizeof(*header) - 7), &write.value,
                    8);
        break;
      case Write::To::kHeader:
        std::memcpy(base_ + write.offset % (sizeof(ring::SegmentHeader) - 7), &write.value, 8);
        break;
      case Write::To::kCounter:
        ring::LostCounter(*reinterpret_cast<ring::SegmentHeader*>(base_), write.offset % ring::kLossReasons,
                          write.offset / 256 % ring::kRecordKinds)
            .store(write.value, std::memory_order_relaxed);
        break;
      case Write::To::kPause:
        std::this_thread::yield();
        break;
    }
  }

 private:
  void Copy(uint32_t ring, uint64_t position, std::string_view bytes) const {
    std::byte* start = base_ + ring::RingHeadersEnd() + ring * kRingBytes;
    for (const char c : bytes) start[position++ % kRingBytes] = static_cast<std::byte>(c);
  }
  std::byte* base_ = nullptr;
  uint64_t bytes_;
};

void CheckBatch(const BatchData& batch) {
  std::span<const std::byte> left = std::as_bytes(std::span(batch.blocks));
  std::array<uint64_t, columns::kKinds> rows{};
  while (!left.empty()) {
    columns::DecodedBlock block;
    size_t length = 0;
    if (!columns::Decode(left, block, &length).ok() || length == 0) std::abort();
    if (block.kind != columns::Kind::kString) rows[static_cast<size_t>(block.kind)] += block.rows;
    left = left.subspan(length);
  }
  if (rows != batch.rows) std::abort();
}

// Drains as the drain thread does, but without its pauses.
void Drain(DaemonSegment& segment) {
  alignas(8) static std::byte scratch[kScratchBytes];
  segment.Discard();
  segment.TakeLosses();
  segment.TakeUnknown();
  Batcher batcher({.capture = "c", .process = {1, 1}, .incarnation = 1, .epoch = segment.NextEpoch()});
  for (int i = 0; i < kTurns; ++i) {
    uint64_t bytes = 0;
    segment.Drain(scratch, kTurnBytes, [&](const ring::RecordView& record) {
      bytes += record.bytes.size();
      batcher.Add(record);
      if (!batcher.full()) return;
      if (const std::optional<BatchData> batch = batcher.Flush()) CheckBatch(*batch);
    });
    if (bytes > kRings * (kTurnBytes + kScratchBytes)) std::abort();
  }
  if (const std::optional<BatchData> batch = batcher.Flush()) CheckBatch(*batch);
  segment.TakeLosses();
  segment.TakeUnknown();
  if (segment.TakeBroken().size() > kRings || !segment.TakeBroken().empty()) std::abort();
}

}  // namespace
}  // namespace lockstep::daemon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  using namespace lockstep::daemon;
  FuzzInput input(data, size);
  std::vector<Write> writes;
  while (!input.empty() && writes.size() < kMostWrites) writes.push_back(ReadWrite(input));

  auto segment = DaemonSegment::Create(
      {.main_ring_bytes = kRingBytes, .thread_ring_bytes = kRingBytes, .ring_count = kRings});
  if (!segment.ok()) std::abort();
  const Writer writer((*segment)->fd(), (*segment)->bytes());
  std::atomic<bool> ended = false;
  std::thread thread([&] {
    do {
      for (const Write& write : writes) writer.Do(write);
    } while (!ended.load(std::memory_order_relaxed) && !writes.empty());
  });
  Drain(**segment);
  ended = true;
  thread.join();
  return 0;
}
