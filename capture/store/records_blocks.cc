#include "capture/store/records_blocks.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace lockstep::capture {

BlockWalk WalkBlocks(std::string_view bytes) {
  BlockWalk walk;
  size_t at = 0;
  while (at < bytes.size()) {
    BlockPlace place;
    place.offset = at;
    if (bytes.size() - at < sizeof(columns::BlockHeader)) {
      walk.damage = "ends inside a block's header";
      break;
    }
    std::memcpy(&place.header, bytes.data() + at, sizeof(place.header));
    const columns::BlockHeader& h = place.header;
    if (h.magic != columns::kBlockMagic) {
      walk.damage = "has bytes that are not a block";
      break;
    }
    if (h.rows == 0 || h.rows > columns::kMaxRows || h.raw_bytes > columns::kMaxRawBytes ||
        h.stored_bytes > columns::kMaxRawBytes) {
      walk.damage = absl::StrCat("has a block that claims ", h.rows, " rows in ", h.raw_bytes, " bytes");
      break;
    }
    place.bytes = sizeof(columns::BlockHeader) + h.stored_bytes;
    if (place.bytes > bytes.size() - at) {
      walk.damage = "ends inside a block";
      break;
    }
    at += place.bytes;
    walk.blocks.push_back(place);
  }
  walk.end = at;
  return walk;
}

RowCounts CountRows(const std::vector<BlockPlace>& blocks) {
  RowCounts rows = {};
  for (const BlockPlace& block : blocks) {
    rows[block.header.kind < rows.size() ? block.header.kind : 0] += block.header.rows;
  }
  return rows;
}

uint64_t TotalRows(const RowCounts& rows) {
  uint64_t total = 0;
  for (size_t kind = 0; kind < rows.size(); ++kind) {
    if (kind != static_cast<size_t>(columns::Kind::kString)) total += rows[kind];
  }
  return total;
}

}  // namespace lockstep::capture
