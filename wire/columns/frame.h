// The frame around a block's payload: header, compression, checksum. Only the encoder and the decoder use it.
#ifndef LOCKSTEP_WIRE_COLUMNS_FRAME_H_
#define LOCKSTEP_WIRE_COLUMNS_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "wire/columns/columns.h"

namespace lockstep::columns {

// The mode of a column, stored as one byte in front of it.
enum class ColumnMode : uint8_t {
  kConstant = 0,  // one varint, the value of every row
  kRows = 1,      // one varint per row
};

// Compresses `raw`, completes `header` (raw_bytes, stored_bytes, checksum) and appends both to `out`.
void AppendFrame(BlockHeader header, std::span<const uint8_t> raw, std::string& out);

struct Frame {
  BlockHeader header;
  std::span<const std::byte> payload;
  size_t bytes = 0;  // header and payload
};

// Reads and checks the frame at the start of `bytes` without decompressing it. `*skip` is as in Decode.
absl::StatusOr<Frame> ReadFrame(std::span<const std::byte> bytes, size_t* skip);

// Decompresses into `raw`, which then has exactly header.raw_bytes bytes.
absl::Status Inflate(const Frame& frame, std::string& raw);

}  // namespace lockstep::columns

#endif  // LOCKSTEP_WIRE_COLUMNS_FRAME_H_
