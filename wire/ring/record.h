// Ring records: the bytes that the client writes and the daemon reads.
//
// Every record starts with a RecordHeader, and its length is a multiple of 8 bytes. All stamps are
// nanoseconds on the clock that CUPTI uses in that process (CLOCK_REALTIME of the host, unless ClockRecord
// says otherwise). A visible record is complete, because the writer publishes it with one release store of
// the ring's head (layout.h).
//
// Version rule: kLayoutMajor changes if a reader of the old layout would misread the new one. kLayoutMinor
// changes if a kind is appended. A record is never shortened. A reader skips unknown kinds, and bytes after
// the fields that it knows. Document: docs/formats/ring.md. Golden file: tests/golden/ring/.
//
// A string is sent once: a kString record defines (epoch, id) before the first record that uses the id. An id
// counts as defined only if its kString record was really written. A full ring drops both records, and the
// next use tries again.
#ifndef LOCKSTEP_WIRE_RING_RECORD_H_
#define LOCKSTEP_WIRE_RING_RECORD_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::ring {

enum class RecordKind : uint16_t {
  kPad = 0,  // fills the end of a ring before it wraps; only header.bytes is valid
  kString = 1,
#define RECORD(Name, space, number, first_bytes) k##Name = number,
#include "wire/fields/records.def"
};
inline constexpr size_t kRecordKinds = 22;

// Reasons why a record is not in the ring. The segment header has one counter per (reason, kind).
// kCuptiDropped is counted under kPad, because CUPTI does not name the kind.
enum class LossReason : uint8_t {
  kRingFull = 0,      // the daemon did not drain fast enough; the newest record is dropped
  kNoRing = 1,        // all 64 rings were taken
  kCuptiDropped = 2,  // number that CUPTI reports
  kBadStamp = 3,      // start or end is zero, or end < start
  kTooLarge = 4,      // a string above kMaxStringBytes (cut); a larger record or too deep a range (dropped)
  kUnknownKind = 5,   // CUPTI delivered a record that this client does not convert
  kNoPlace = 6,       // more were open at a time than the client has places for; since minor version 1
  kContested = 7,     // CUPTI was lost in the window; the number is unknown, so 1, under kPad
};
inline constexpr size_t kLossReasons = 8;

inline constexpr uint32_t kMaxRecordBytes = 16 * 1024;
inline constexpr uint32_t kMaxStringBytes = kMaxRecordBytes - 64;

struct RecordHeader {
  RecordKind kind;
  uint16_t flags;  // bits per kind, 0 where none is defined
  uint32_t bytes;  // whole record with this header, a multiple of 8
};
static_assert(sizeof(RecordHeader) == 8);

// `length` bytes of UTF-8 (not checked by the client) and padding follow.
struct StringRecord {
  RecordHeader header;
  uint32_t id;
  uint32_t length;
};
static_assert(sizeof(StringRecord) == 16);

// Bits of header.flags.
inline constexpr uint16_t kMemcpyPeer = 1;  // memcpy: src_device and dst_device are valid
inline constexpr uint16_t kApiDriver = 1;   // api: a driver call, else a runtime call
// range:
inline constexpr uint16_t kRangeStartUnknown = 1;  // pushed before the window; start_ns is 0
inline constexpr uint16_t kRangeEndUnknown = 2;    // still open at the end of the window; end_ns is 0
inline constexpr uint16_t kRangeMark = 4;          // an instant: start_ns == end_ns
// collective and point_to_point: NCCL's NVTX payload describes them, not its profiler plugin. Then `bytes` is
// valid. Count, datatype, algorithm, protocol, channels and a collective's sequence are not.
inline constexpr uint16_t kFromNvtx = 2;
// collective: `sequence` counts the events of this rank only (NCCL before 2.26), so other ranks may have
// other numbers for the same operation.
inline constexpr uint16_t kSequenceIsLocal = 4;
inline constexpr uint16_t kP2pSend = 1;      // point_to_point: a send, else a receive
inline constexpr uint16_t kProxySend = 1;    // proxy_op: a send, else a receive
inline constexpr uint16_t kProxyRemote = 2;  // proxy_op: on behalf of another process (PXN); operation is 0
// device:
inline constexpr uint16_t kDeviceHidden = 1;   // this process cannot use it (CUDA_VISIBLE_DEVICES)
inline constexpr uint16_t kDeviceMig = 2;      // MIG: mig_uuid and the instances identify this part
inline constexpr uint16_t kDeviceEcc = 4;      // its memory corrects errors
inline constexpr uint16_t kContextGreen = 1;   // context: it has a part of the multiprocessors
inline constexpr uint16_t kMemoryRelease = 1;  // memory_op: a release, else an allocation
inline constexpr uint16_t kMemoryAsync = 2;  // memory_op: in the order of `stream`, which is valid only then

// KernelRecord, MemcpyRecord and so on: a RecordHeader, then the fields of wire/fields/*.def, where each
// record is described.
#define RECORD(Name, space, number, first_bytes) \
  struct Name##Record {                          \
    RecordHeader header;
#define INTERVAL()  \
  int64_t start_ns; \
  int64_t end_ns;
#define STAMP(type, member, column, text, meaning) type member;
#define SPAN(type, first, last, first_column, first_text, length_column, length_text, index, meaning) \
  type first;                                                                                         \
  type last;
#define FIELD(type, member, column, text, index, encoding, meaning) type member;
#define THREE(type, member, column, text, index, meaning) type member[3];
#define UUID(member, column, text, index, meaning) uint8_t member[16];
#define RESERVED(bytes, member) uint8_t member[bytes];
#define END(Name) \
  }               \
  ;
#include "wire/fields/records.def"

#define RECORD(Name, space, number, first_bytes) \
  static_assert(sizeof(Name##Record) % 8 == 0 && sizeof(Name##Record) >= first_bytes);
#include "wire/fields/records.def"

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_RECORD_H_
