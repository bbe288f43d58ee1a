// The parts of a table: its name, its columns, and rows that come in batches of columns.
//
// Each table is described once, in the file that makes its rows (report_tables.cc, event_tables.cc, …). All
// formats use that description. docs/formats/csv.md lists the tables.
#ifndef LOCKSTEP_VIEWS_TABLES_TABLE_H_
#define LOCKSTEP_VIEWS_TABLES_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "views/tables/cells.h"

namespace lockstep::views {

struct Column {
  std::string_view name;  // ends in its unit, if it has one
  std::string_view unit;  // "ns", "bytes", "fraction", …; empty: none
  std::string_view meaning;
  CellType type = CellType::kInt64;  // of the elements, if the cells are lists
  CellShape shape = CellShape::kSingle;
  bool may_be_null = false;
};

// The version of all tables: their names, columns, and the forms of cells. It rises if readers must change
// (docs/formats/csv.md).
inline constexpr int kTablesVersion = 2;

// Names point to texts that live as long as the program.
struct Table {
  std::string_view name;
  std::string_view meaning;
  std::vector<Column> columns;
};

// Some rows of a table, column by column. Every column has `rows` cells. Texts point into the source of the
// rows.
struct Batch {
  size_t rows = 0;
  std::span<const Cells> columns;
};

// The largest number of rows in a batch. A writer must hold that many, and it is the size of a row group in
// Parquet.
inline constexpr size_t kBatchRows = 65536;

// Writes one table into a file.
//
// Implemented by CsvSink, ParquetSink, Grid, and the fake of the tests. One thread. Batches come in the order
// of the rows. Finish() is called once, after the last batch, also for a table without rows. The file is
// complete only after Finish() returned ok.
class TableSink {
 public:
  virtual ~TableSink() = default;
  virtual absl::Status Append(const Batch& batch) = 0;
  virtual absl::Status Finish() = 0;
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_TABLE_H_
