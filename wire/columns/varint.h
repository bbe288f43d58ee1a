// LEB128 varints and zigzag: the coding of integers in a block's payload.
#ifndef LOCKSTEP_WIRE_COLUMNS_VARINT_H_
#define LOCKSTEP_WIRE_COLUMNS_VARINT_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::columns {

inline constexpr size_t kMaxVarintBytes = 10;

// `out` must have room for kMaxVarintBytes. Returns the address after the last byte written.
inline uint8_t* PutVarint(uint8_t* out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<uint8_t>(value);
  return out;
}

// Returns the address after the varint, or nullptr if the varint runs past `end` or has more than 64 bits.
inline const uint8_t* GetVarint(const uint8_t* in, const uint8_t* end, uint64_t& value) {
  if (in < end && *in < 0x80) [[likely]] {
    value = *in;
    return in + 1;
  }
  uint64_t result = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (in == end) return nullptr;
    const uint64_t byte = *in++;
    if (shift == 63 && byte > 1) return nullptr;
    result |= (byte & 0x7F) << shift;
    if (byte < 0x80) {
      value = result;
      return in;
    }
  }
  return nullptr;
}

inline constexpr uint64_t ZigZag(uint64_t difference) {
  return (difference << 1) ^ static_cast<uint64_t>(static_cast<int64_t>(difference) >> 63);
}
inline constexpr uint64_t UnZigZag(uint64_t coded) { return (coded >> 1) ^ (0 - (coded & 1)); }

}  // namespace lockstep::columns

#endif  // LOCKSTEP_WIRE_COLUMNS_VARINT_H_
