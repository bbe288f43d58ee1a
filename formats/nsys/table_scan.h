// The rows of one table of an SQLite file, front to back, as far as they can be read.
//
// Where a page is damaged the scan goes on behind it. A cell of another type than its column's makes its row
// unusable. Both are counted by table.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_TABLE_SCAN_H_
#define LOCKSTEP_AGGREGATOR_TRACE_TABLE_SCAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/nsys/sqlite_database.h"

namespace lockstep::trace {

// What could not be read, by table.
class TableLosses {
 public:
  struct Lost {
    uint64_t rows = 0;
    std::string first;  // what was wrong with the first of them
    std::string
        rest;  // from where on nothing could be read, and nobody knows how much; empty: all was gone through
  };
  void Add(std::string_view table, uint64_t rows, std::string_view what);
  // At least one row more, and nobody knows how many.
  void AddRest(std::string_view table, std::string_view what);
  uint64_t rows() const;
  // "CUPTI_ACTIVITY_KIND_KERNEL: 12 rows (rows 40 to 51 lie on damaged pages)", one after the other; empty:
  // nothing.
  std::string Describe() const;
  const std::map<std::string, Lost, std::less<>>& tables() const { return tables_; }

 private:
  std::map<std::string, Lost, std::less<>> tables_;
};

class TableScan {
 public:
  // A table or columns that are not there: no rows, or NULL cells. `required` of the columns, from the front,
  // must be there for the table to be read at all; without one the table counts as lost.
  TableScan(const SqliteDatabase& database, std::string table, std::span<const char* const> columns,
            size_t required, TableLosses& losses);

  bool Next();

  // Cells of the row at hand, by place in `columns`. nullopt is NULL; a cell of another type marks the row.
  std::optional<int64_t> Integer(size_t column);
  // Whatever integer fits T; anything else is `otherwise`, and where it does not fit the row is marked.
  template <typename T>
  T IntegerOr(size_t column, T otherwise) {
    const std::optional<int64_t> value = Integer(column);
    if (!value) return otherwise;
    if (!std::in_range<T>(*value)) {
      Mark(column, "is out of range");
      return otherwise;
    }
    return static_cast<T>(*value);
  }
  double RealOr(size_t column, double otherwise);
  // Valid until the next cell of text or Next(); empty for NULL.
  std::string_view Text(size_t column);
  // Bytes, whether they were stored as text or as a blob.
  std::string_view Bytes(size_t column);

  // Was any cell marked? Then the row is counted as lost, once, and the caller drops it.
  bool Usable();
  // The row is lost for this reason.
  void Refuse(std::string_view what);

  bool exists() const { return statement_ != nullptr; }
  // Rows that the table has, by its last number; 0 where that cannot be read. For progress.
  uint64_t expected_rows() const { return expected_; }

 private:
  bool Prepare(const SqliteDatabase::Table& table, std::span<const char* const> columns);
  void FindExpected();
  bool StepFrom(int64_t row);
  bool JumpOverDamage();
  void Mark(size_t column, std::string_view what);

  const SqliteDatabase& database_;
  std::string table_;
  std::vector<std::string> columns_;
  TableLosses& losses_;
  SqliteStatement statement_;
  int64_t last_row_;
  uint64_t expected_ = 0;
  int jumps_ = 0;
  bool done_ = false;
  std::string marked_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_TABLE_SCAN_H_
