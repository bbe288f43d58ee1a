// The frame around a block's payload: header, compression, checksum. Shared by the encoder and the decoder
// only.
#ifndef LOCKSTEP_COMMON_COLUMNS_FRAME_H_
#define LOCKSTEP_COMMON_COLUMNS_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "wire/columns/columns.h"

namespace lockstep::columns {

// How a column lies in the payload: one byte in front of it.
enum class ColumnMode : uint8_t {
  kConstant = 0,  // one varint: the value of every row
  kRows = 1,      // one varint per row
};

// Compresses `raw`, completes `header` (raw_bytes, stored_bytes, checksum) and appends both to `out`.
void AppendFrame(BlockHeader header, std::span<const uint8_t> raw, std::string& out);

struct Frame {
  BlockHeader header;
  std::span<const std::byte> payload;
  size_t bytes = 0;  // header and payload
};

// Reads and checks the frame at the start of `bytes` without decompressing it. `*skip` as for Decode.
absl::StatusOr<Frame> ReadFrame(std::span<const std::byte> bytes, size_t* skip);

// Decompresses into `raw`, which ends up exactly header.raw_bytes long.
absl::Status Inflate(const Frame& frame, std::string& raw);

}  // namespace lockstep::columns

#endif  // LOCKSTEP_COMMON_COLUMNS_FRAME_H_
