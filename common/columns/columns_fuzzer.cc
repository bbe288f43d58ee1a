// Any bytes as a block: Decode must answer, never crash, and what it accepts must encode and decode to the
// same again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/columns/columns.h"

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  columns::DecodedBlock block;
  size_t skip = 0;
  if (!columns::Decode(std::as_bytes(std::span(data, size)), block, &skip).ok()) return 0;
  const std::string bytes = EncodeAgain(block);
  columns::DecodedBlock again;
  if (!columns::Decode(std::as_bytes(std::span(bytes)), again).ok()) std::abort();
  if (again.rows != block.rows || again.columns != block.columns) std::abort();
  return 0;
}
