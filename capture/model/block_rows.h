// Reads the columns of one decoded block by row.
#ifndef LOCKSTEP_CAPTURE_MODEL_BLOCK_ROWS_H_
#define LOCKSTEP_CAPTURE_MODEL_BLOCK_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "wire/columns/columns.h"

namespace lockstep::capture {

// A view; the block must outlive it.
class BlockRows {
 public:
  explicit BlockRows(const columns::DecodedBlock& block) : block_(block) {}
  columns::Kind kind() const { return block_.kind; }
  uint32_t size() const { return block_.rows; }
  uint64_t U64(size_t column, uint32_t row) const { return block_.columns[column][row]; }
  int64_t I64(size_t column, uint32_t row) const { return static_cast<int64_t>(U64(column, row)); }
  uint32_t U32(size_t column, uint32_t row) const { return static_cast<uint32_t>(U64(column, row)); }
  int32_t I32(size_t column, uint32_t row) const { return static_cast<int32_t>(U32(column, row)); }
  HostTime Time(size_t column, uint32_t row) const { return HostTime(I64(column, row)); }

 private:
  const columns::DecodedBlock& block_;
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_BLOCK_ROWS_H_
