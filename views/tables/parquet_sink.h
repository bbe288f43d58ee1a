// ParquetSink writes a table as an Apache Parquet file: flat columns, zstd pages, and a row group per batch
// (docs/formats/parquet.md).
#ifndef LOCKSTEP_VIEWS_TABLES_PARQUET_SINK_H_
#define LOCKSTEP_VIEWS_TABLES_PARQUET_SINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/byte_sink.h"
#include "views/tables/parquet_chunk.h"
#include "views/tables/table.h"

namespace lockstep::views {

// It holds one row group at a time and, for the footer, a few words per column of each row group.
// ParquetSink::Finish() does not finish `sink`. One thread.
class ParquetSink final : public TableSink {
 public:
  // `table` and `sink` outlive it.
  ParquetSink(const Table& table, ByteSink& sink) : table_(table), sink_(sink) {}

  absl::Status Append(const Batch& batch) override;
  absl::Status Finish() override;

 private:
  // The position of a column's chunk in the file. The chunk's bytes are already written.
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
  ByteSink& sink_;
  ParquetChunkWriter chunks_;
  std::vector<RowGroup> groups_;
  uint64_t at_ = 0;
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_PARQUET_SINK_H_
