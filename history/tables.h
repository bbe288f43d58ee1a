// The tables of a history, each column with its meaning (docs/formats/history.md). SQL, Parquet and the
// documentation use this description. schema.cc creates the tables; a test compares both.
#ifndef LOCKSTEP_HISTORY_TABLES_H_
#define LOCKSTEP_HISTORY_TABLES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::history {

enum class ColumnType : uint8_t { kWhole, kReal, kText };
enum class ColumnNull : uint8_t { kNever, kUnknown };

struct TableColumn {
  const char* name;  // ends in its unit, if it has one
  ColumnType type;
  ColumnNull null;
  const char* unit;  // "ns", "fraction"; empty: none
  const char* meaning;
};

// The order of the columns is the order of a Row of this table.
struct HistoryTable {
  const char* name;
  const char* meaning;
  std::span<const TableColumn> columns;
  const char* order;  // columns that give the rows their order, with commas
};

// The tables with data. The first is `captures`; each of the others has a column `capture` that refers to it.
std::span<const HistoryTable> HistoryTables();
// The table must exist.
const HistoryTable& TableNamed(std::string_view name);

// Returns "a, b, c", each after `prefix`.
std::string ColumnList(const HistoryTable& table, const char* prefix = "");

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_TABLES_H_
