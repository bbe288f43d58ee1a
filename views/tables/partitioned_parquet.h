// PartitionedParquet writes a table as one Parquet file per rank, in folders that name the rank as Hive does
// (docs/formats/parquet.md).
#ifndef LOCKSTEP_VIEWS_TABLES_PARTITIONED_PARQUET_H_
#define LOCKSTEP_VIEWS_TABLES_PARTITIONED_PARQUET_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files/byte_sink.h"
#include "views/tables/parquet_sink.h"
#include "views/tables/table.h"

namespace lockstep::views {

// Returns true if the table has a column with a rank per row.
bool HasRanks(const Table& table);

// Returns `text` as a part of a folder's name: bytes other than letters, digits, '.', '_' and '-' become %XX,
// and so does a leading '.'.
std::string FolderValue(std::string_view text);

// Writes FOLDER/rank=N/data.parquet for each rank N of the rows. The files lack the column `rank`, because
// readers take it from the folder's name. Each file appears only when it is complete.
//
// It holds at most `most_rows` rows. When it has more, it writes the rows of the rank with the most as a row
// group. Every rank has an open file. One thread. Errors are those of the file system.
class PartitionedParquet final : public TableSink {
 public:
  // The table has a column `rank` of whole numbers and outlives the sink.
  PartitionedParquet(const Table& table, std::string folder, size_t most_rows = size_t{8} * kBatchRows);
  ~PartitionedParquet() override;

  absl::Status Append(const Batch& batch) override;
  absl::Status Finish() override;

 private:
  struct Partition;

  absl::StatusOr<Partition*> PartitionOf(int64_t rank);
  absl::Status Flush(Partition& partition);

  const Table& table_;
  const std::string folder_;
  const size_t most_rows_;
  size_t rank_column_ = 0;
  Table table_of_rank_;  // without the rank
  std::map<int64_t, std::unique_ptr<Partition>> partitions_;
  size_t rows_ = 0;  // held in all partitions
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_PARTITIONED_PARQUET_H_
