// What a table is: its name, its columns, and rows that come in batches of columns.
//
// A table is described once, where its rows are made (report_tables.cc, event_tables.cc, …); every format
// writes from that. The list of them is in docs/formats/csv.md.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_TABLE_H_
#define LOCKSTEP_AGGREGATOR_TABLES_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "views/tables/cells.h"

namespace lockstep::tables {

struct Column {
  std::string_view name;  // ends in the unit where there is one
  std::string_view unit;  // "ns", "bytes", "fraction", …; empty: none
  std::string_view meaning;
  CellType type = CellType::kInt64;
  bool may_be_null = false;
};

// Names point to text that lives as long as the program.
struct Table {
  std::string_view name;
  std::string_view meaning;
  std::vector<Column> columns;
};

// Some rows of a table, column by column; every column has `rows` cells. Texts point into what the rows were
// made from.
struct Batch {
  size_t rows = 0;
  std::span<const Cells> columns;
};

// The most rows of a batch: what a writer has to hold at once, and a row group of Parquet.
inline constexpr size_t kBatchRows = 65536;

// One table on its way into a file.
//
// Implemented by: CsvSink, ParquetSink, and the tests' fake. One thread. Batches come in the order of the
// rows; Finish() is called once, after the last, also for a table without rows. Until it returned ok the file
// is not whole.
class TableSink {
 public:
  virtual ~TableSink() = default;
  virtual absl::Status Append(const Batch& batch) = 0;
  virtual absl::Status Finish() = 0;
};

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_TABLE_H_
