// Finds the blocks of common/columns in a run of bytes without decoding them.
//
// Used by ingest, which must know what it stores and must refuse what is no block, and by LoadRecords, which
// reads strings first. Bytes are hostile: nothing beyond them is touched.
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_BLOCKS_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_BLOCKS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/columns/columns.h"

namespace lockstep::store {

struct BlockPlace {
  size_t offset = 0;  // of the header
  size_t bytes = 0;   // header and payload
  columns::BlockHeader header = {};
};

struct BlockWalk {
  std::vector<BlockPlace> blocks;
  // Where the first bytes that are no block begin; the size of the input when all are.
  size_t end = 0;
  // Empty when all bytes are blocks; else what is wrong at `end`, as one sentence's end.
  std::string damage;
};

// `truncated` blocks (the bytes end inside) count as damage. Kinds and versions this program does not know
// are walked over: they may be newer.
BlockWalk WalkBlocks(std::string_view bytes);

using RowCounts = std::array<uint64_t, columns::kKinds>;

// Rows per kind; unknown kinds count under 0.
RowCounts CountRows(const std::vector<BlockPlace>& blocks);
uint64_t TotalRows(const RowCounts& rows);  // strings are no records and do not count

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_BLOCKS_H_
