// TableScan reads the rows of one table of an SQLite file, from front to back.
//
// After a damaged page, the scan continues with the next readable row. A cell whose type differs from its
// column's makes its row unusable. Both losses are counted by table. One thread.
#ifndef LOCKSTEP_FORMATS_NSYS_TABLE_SCAN_H_
#define LOCKSTEP_FORMATS_NSYS_TABLE_SCAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/nsys/sqlite_database.h"

namespace lockstep::formats {

// Counts the rows that could not be read, by table.
class TableLosses {
 public:
  struct Lost {
    uint64_t rows = 0;
    std::string first;  // error of the first lost row
    std::string rest;   // where an unknown number of rows begins that could not be read; empty: nowhere
  };
  void Add(std::string_view table, uint64_t rows, std::string_view what);
  // Counts at least one more row, because the number of lost rows is unknown.
  void AddRest(std::string_view table, std::string_view what);
  uint64_t rows() const;
  // Returns "CUPTI_ACTIVITY_KIND_KERNEL: 12 rows (rows 40 to 51 lie on damaged pages)" for each table. Empty:
  // no losses.
  std::string Describe() const;
  const std::map<std::string, Lost, std::less<>>& tables() const { return tables_; }

 private:
  std::map<std::string, Lost, std::less<>> tables_;
};

class TableScan {
 public:
  // A missing table has no rows, and a missing column has NULL cells. The first `required` columns must
  // exist. If one is missing, the table is not read and counts as lost.
  TableScan(const SqliteDatabase& database, std::string table, std::span<const char* const> columns,
            size_t required, TableLosses& losses);

  bool Next();

  // Cells of the current row, by place in `columns`. nullopt: NULL. A cell of another type marks the row.
  std::optional<int64_t> Integer(size_t column);
  // Returns the integer if it fits into T, else `otherwise`. A value that does not fit marks the row.
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
  // Valid until the next call of Text() or Next(). Empty for NULL.
  std::string_view Text(size_t column);
  // Returns the bytes of a text or a blob.
  std::string_view Bytes(size_t column);

  // False: a cell of the row was marked. The row is then counted as lost, and the caller drops it.
  bool Usable();
  // Counts the row as lost for this reason.
  void Refuse(std::string_view what);

  bool exists() const { return statement_ != nullptr; }
  // Number of rows, from the last row number; 0: it cannot be read. For progress.
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

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_TABLE_SCAN_H_
