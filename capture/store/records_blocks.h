// Finds the blocks of wire/columns in a run of bytes without decoding them.
//
// Used by ingest, which must know what it stores and refuse other bytes, and by LoadRecords, which reads
// strings first. The bytes are untrusted, so no access goes beyond them.
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_BLOCKS_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_BLOCKS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/columns/columns.h"

namespace lockstep::capture {

struct BlockPlace {
  size_t offset = 0;  // of the header
  size_t bytes = 0;   // header and payload
  columns::BlockHeader header = {};
};

struct BlockWalk {
  std::vector<BlockPlace> blocks;
  // Offset of the first bytes that are not a block; the size of the input if all bytes are blocks.
  size_t end = 0;
  // Empty if all bytes are blocks. Otherwise describes the damage at `end`, as the end of a sentence.
  std::string damage;
};

// A block that the bytes cut off counts as damage. Blocks of unknown kinds and versions are accepted, because
// they may be newer.
BlockWalk WalkBlocks(std::string_view bytes);

using RowCounts = std::array<uint64_t, columns::kKinds>;

// Rows by kind; rows of unknown kinds count under 0.
RowCounts CountRows(const std::vector<BlockPlace>& blocks);
uint64_t TotalRows(const RowCounts& rows);  // strings are not records and do not count

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_BLOCKS_H_
