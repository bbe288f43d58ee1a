// A table as an Apache Parquet file: flat columns, zstd pages, a row group for each batch
// (docs/formats/parquet.md).
#ifndef LOCKSTEP_AGGREGATOR_TABLES_PARQUET_SINK_H_
#define LOCKSTEP_AGGREGATOR_TABLES_PARQUET_SINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/byte_sink.h"
#include "views/tables/parquet_chunk.h"
#include "views/tables/table.h"

namespace lockstep::tables {

// Holds one row group at a time, and for the footer a few words for each column of each. Finish() leaves
// `sink` unfinished.
class ParquetSink final : public TableSink {
 public:
  // Both outlive it.
  ParquetSink(const Table& table, store::ByteSink& sink) : table_(table), sink_(sink) {}

  absl::Status Append(const Batch& batch) override;
  absl::Status Finish() override;

 private:
  // Where the chunk of a column lies; its bytes are gone.
  struct Placed {
    ParquetChunk chunk;
    uint64_t at = 0;
    uint64_t compressed_bytes = 0;
  };
  struct RowGroup {
    size_t rows = 0;
    std::vector<Placed> columns;
  };

  absl::Status Put(std::string_view bytes);
  std::string Footer() const;

  const Table& table_;
  store::ByteSink& sink_;
  ParquetChunkWriter chunks_;
  std::vector<RowGroup> groups_;
  uint64_t at_ = 0;
};

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_PARQUET_SINK_H_
