// Decodes any bytes as a block, and any bytes as the payload of a block with a valid frame. Without the valid
// frame, the checksum would keep random bytes out of the payload's parser. Decode must not crash. An accepted
// block must have the same content after another encode and decode.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "wire/columns/columns.h"
#include "wire/columns/frame.h"

namespace columns = lockstep::columns;

namespace {

std::string EncodeAgain(const columns::DecodedBlock& block) {
  std::string bytes;
  if (block.kind == columns::Kind::kString) {
    columns::EncodeStrings(block.epoch, block.strings, bytes);
    return bytes;
  }
  columns::BlockBuilder builder(block.kind);
  std::vector<uint64_t> row(block.columns.size());
  for (uint32_t r = 0; r < block.rows; ++r) {
    for (size_t c = 0; c < row.size(); ++c) row[c] = block.columns[c][r];
    builder.Append(row);
  }
  builder.Encode(block.epoch, block.first_sequence, bytes);
  return bytes;
}

void DecodeTwice(std::span<const std::byte> bytes) {
  columns::DecodedBlock block;
  size_t skip = 0;
  if (!columns::Decode(bytes, block, &skip).ok()) return;
  const std::string encoded = EncodeAgain(block);
  columns::DecodedBlock again;
  if (!columns::Decode(std::as_bytes(std::span(encoded)), again).ok()) std::abort();
  if (again.rows != block.rows || again.columns != block.columns) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  DecodeTwice(std::as_bytes(std::span(data, size)));
  if (size < 3) return 0;
  columns::BlockHeader header{};
  header.magic = columns::kBlockMagic;
  header.version = columns::kBlockVersion;
  header.kind = data[0] % (columns::kKinds + 1);
  header.rows = data[1] + 256u * data[2];
  std::string framed;
  columns::AppendFrame(header, {data + 3, size - 3}, framed);
  DecodeTwice(std::as_bytes(std::span(framed)));
  return 0;
}
