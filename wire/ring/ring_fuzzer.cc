// Runs the reader on arbitrary ring contents, head and tail. It must not read outside its copy, loop for
// ever, or return a record that is shorter than its kind.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "wire/ring/reader.h"

namespace {

constexpr uint64_t kCapacity = 64 << 10;

struct Ring {
  lockstep::ring::RingHeader header{};
  alignas(64) std::byte bytes[kCapacity];
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Ring ring;
  static std::vector<std::byte> scratch(lockstep::ring::kMaxRecordBytes);
  if (size < 16) return 0;
  uint64_t head;
  uint64_t tail;
  std::memcpy(&head, data, 8);
  std::memcpy(&tail, data + 8, 8);
  // Half of the inputs get a possible head, so that the reader parses the records behind it.
  if (data[0] & 1) {
    tail &= ~uint64_t{7};
    head = tail + ((size - 16) & ~size_t{7}) % (kCapacity + 8);
  }
  ring.header.head = head;
  ring.header.tail = tail;
  std::memset(ring.bytes, 0, sizeof ring.bytes);
  for (size_t i = 0; i < std::min(size - 16, kCapacity); ++i) {
    ring.bytes[(tail + i) & (kCapacity - 1)] = static_cast<std::byte>(data[16 + i]);
  }
  lockstep::ring::RingReader reader(&ring.header, ring.bytes, kCapacity);
  uint64_t records = 0;
  while (reader.Read(scratch) == lockstep::ring::ReadStatus::kRecords) {
    lockstep::ring::RecordView view;
    uint64_t in_turn = 0;
    while (reader.Next(&view)) {
      ++in_turn;
      if (view.bytes.size() != view.header.bytes) std::abort();
      if (view.header.kind == lockstep::ring::RecordKind::kString) {
        uint8_t sum = 0;
        for (char c : view.text()) sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(c));
        if (sum == 1 && view.text().empty()) std::abort();
      }
    }
    const uint64_t before = reader.Pending();
    reader.Free();
    records += in_turn;
    if (!reader.broken() && reader.Pending() >= before)
      std::abort();  // a turn that frees nothing would repeat for ever
    if (records > kCapacity / sizeof(lockstep::ring::RecordHeader)) std::abort();
  }
  return 0;
}
