// ProtoBytes writes the protobuf wire format directly. A merged trace has two messages per slice, and
// building protobuf objects would take longer than all other work.
#ifndef LOCKSTEP_FORMATS_PERFETTO_PROTO_BYTES_H_
#define LOCKSTEP_FORMATS_PERFETTO_PROTO_BYTES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"

namespace lockstep::formats {

// Appends fields to a buffer and passes whole top-level messages to the sink in large pieces. A submessage is
// written in place; its length goes into bytes reserved before it, as a varint padded to that size. The first
// error of the sink is kept. One thread.
class ProtoBytes {
 public:
  // `sink` outlives the writer.
  explicit ProtoBytes(ByteSink& sink) : sink_(sink) { bytes_.resize(kFlushAt + kLargestMessage); }

  void Uint(uint32_t field, uint64_t value) {
    Varint(field << 3);
    Varint(value);
  }
  // A negative number of an int32 or int64 field takes ten bytes, as the format requires.
  void Int(uint32_t field, int64_t value) { Uint(field, static_cast<uint64_t>(value)); }
  void Fixed64(uint32_t field, uint64_t value) {
    Varint(field << 3 | 1);
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(bytes_.data() + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  // A text longer than kLongestText is cut.
  void Text(uint32_t field, std::string_view text) {
    text = text.substr(0, kLongestText);
    Varint(field << 3 | 2);
    Varint(text.size());
    std::memcpy(bytes_.data() + size_, text.data(), text.size());
    size_ += text.size();
  }

  // Begin returns the argument of End. A submessage of BeginShort holds less than 16 KiB.
  struct Open {
    size_t length_at;
    size_t length_bytes;
  };
  Open BeginShort(uint32_t field) { return Begin(field, 2); }
  Open BeginLong(uint32_t field) { return Begin(field, 4); }
  void End(Open open) {
    uint64_t length = size_ - open.length_at - open.length_bytes;
    for (size_t i = 0; i < open.length_bytes; ++i, length >>= 7) {
      const uint64_t more = i + 1 < open.length_bytes ? 0x80 : 0;
      bytes_[open.length_at + i] = static_cast<char>((length & 0x7f) | more);
    }
  }

  // Call it after each top-level message. A message has at most kLargestMessage bytes.
  void FlushIfLarge() {
    if (size_ >= kFlushAt) Flush();
  }
  absl::Status Finish() {
    Flush();
    return status_;
  }

  static constexpr size_t kLongestText = 8 * 1024;
  static constexpr size_t kLargestMessage = 64 * 1024;

 private:
  static constexpr size_t kFlushAt = 256 * 1024;

  Open Begin(uint32_t field, size_t length_bytes) {
    Varint(field << 3 | 2);
    const Open open{size_, length_bytes};
    size_ += length_bytes;
    return open;
  }

  void Varint(uint64_t value) {
    char* at = bytes_.data() + size_;
    while (value >= 0x80) {
      *at++ = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    *at++ = static_cast<char>(value);
    size_ = static_cast<size_t>(at - bytes_.data());
  }

  void Flush() {
    if (status_.ok() && size_ != 0) status_ = sink_.Append(std::string_view(bytes_).substr(0, size_));
    size_ = 0;
  }

  ByteSink& sink_;
  std::string bytes_;
  size_t size_ = 0;
  absl::Status status_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_PERFETTO_PROTO_BYTES_H_
