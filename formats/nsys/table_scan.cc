#include "formats/nsys/table_scan.h"

#include <sqlite3.h>

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

// Maximum number of damaged parts of one table that a scan steps over. More would take too long.
constexpr int kMostJumps = 256;
constexpr int64_t kFirstRow = std::numeric_limits<int64_t>::min();
constexpr int64_t kLastRow = std::numeric_limits<int64_t>::max();

}  // namespace

void TableLosses::Add(std::string_view table, uint64_t rows, std::string_view what) {
  auto it = tables_.find(table);
  if (it == tables_.end()) it = tables_.emplace(std::string(table), Lost{.first = std::string(what)}).first;
  it->second.rows += rows;
}

void TableLosses::AddRest(std::string_view table, std::string_view what) {
  Add(table, 1, what);
  tables_.find(table)->second.rest = what;
}

uint64_t TableLosses::rows() const {
  uint64_t sum = 0;
  for (const auto& [table, lost] : tables_) sum += lost.rows;
  return sum;
}

std::string TableLosses::Describe() const {
  std::string out;
  for (const auto& [table, lost] : tables_) {
    absl::StrAppend(&out, out.empty() ? "" : "; ", table, ": ", lost.rest.empty() ? "" : "at least ",
                    lost.rows, lost.rows == 1 ? " row" : " rows", " (", lost.first,
                    lost.rest.empty() || lost.rest == lost.first ? "" : absl::StrCat("; ", lost.rest), ")");
  }
  return out;
}

TableScan::TableScan(const SqliteDatabase& database, std::string table, std::span<const char* const> columns,
                     size_t required, TableLosses& losses)
    : database_(database),
      table_(std::move(table)),
      columns_(columns.begin(), columns.end()),
      losses_(losses),
      last_row_(kFirstRow) {
  const SqliteDatabase::Table* found = database.Find(table_);
  if (found == nullptr) return;
  for (const char* column : columns.first(required)) {
    if (found->Has(column)) continue;
    losses_.Add(table_, 1, absl::StrCat("it has no column ", column));
    return;
  }
  if (!Prepare(*found, columns)) return;
  FindExpected();
}

bool TableScan::Prepare(const SqliteDatabase::Table& table, std::span<const char* const> columns) {
  std::string sql = "SELECT rowid";
  for (const char* column : columns)
    absl::StrAppend(&sql, ", ", table.Has(column) ? SqlName(column) : "NULL");
  absl::StrAppend(&sql, " FROM ", SqlName(table_), " WHERE rowid >= ?1");
  auto statement = PrepareSqlite(database_.handle(), sql);
  if (!statement.ok()) {
    losses_.Add(table_, 1, absl::StrCat("it cannot be read: ", statement.status().message()));
    return false;
  }
  statement_ = std::move(*statement);
  sqlite3_bind_int64(statement_.get(), 1, kFirstRow);
  return true;
}

void TableScan::FindExpected() {
  auto last = PrepareSqlite(database_.handle(), absl::StrCat("SELECT max(rowid) FROM ", SqlName(table_)));
  if (!last.ok() || sqlite3_step(last->get()) != SQLITE_ROW) return;
  const int64_t row = sqlite3_column_int64(last->get(), 0);
  if (row > 0) expected_ = static_cast<uint64_t>(row);
}

// True if a readable row has this number or a larger one. It is then the current row.
bool TableScan::StepFrom(int64_t row) {
  sqlite3_reset(statement_.get());
  sqlite3_bind_int64(statement_.get(), 1, row);
  return sqlite3_step(statement_.get()) == SQLITE_ROW && sqlite3_column_int64(statement_.get(), 0) >= row;
}

// Doubles the distance until it finds a readable row, then halves it to find the first readable row.
bool TableScan::JumpOverDamage() {
  const int64_t from = last_row_ == kFirstRow ? 1 : last_row_ + 1;
  const int64_t limit = expected_ > 0 && expected_ < static_cast<uint64_t>(kLastRow)
                            ? static_cast<int64_t>(expected_)
                            : kLastRow / 4;
  int64_t failed = from - 1;
  int64_t reached = 0;
  if (++jumps_ <= kMostJumps) {
    for (int64_t distance = 1; from + distance <= limit; distance *= 2) {
      if (StepFrom(from + distance)) {
        reached = from + distance;
        break;
      }
      failed = from + distance;
    }
  }
  if (reached == 0) {
    const std::string what = absl::StrCat("damaged from row ", from, " on");
    if (expected_ >= static_cast<uint64_t>(from)) {
      losses_.Add(table_, expected_ - static_cast<uint64_t>(from) + 1, what);
    } else {
      losses_.AddRest(table_, what);
    }
    return false;
  }
  while (reached - failed > 1) {
    const int64_t middle = failed + (reached - failed) / 2;
    (StepFrom(middle) ? reached : failed) = middle;
  }
  if (!StepFrom(reached)) return false;
  const int64_t row = sqlite3_column_int64(statement_.get(), 0);
  losses_.Add(table_, static_cast<uint64_t>(row - from),
              absl::StrCat("rows ", from, " to ", row - 1, " lie on damaged pages"));
  return row > last_row_;
}

bool TableScan::Next() {
  if (statement_ == nullptr || done_) return false;
  marked_.clear();
  const int code = sqlite3_step(statement_.get());
  // Row numbers only increase. Without this check, damaged pages that form a cycle would never end.
  const bool forwards =
      code == SQLITE_ROW && (last_row_ == kFirstRow || sqlite3_column_int64(statement_.get(), 0) > last_row_);
  if (code == SQLITE_DONE || (!forwards && !JumpOverDamage())) {
    done_ = true;
    return false;
  }
  last_row_ = sqlite3_column_int64(statement_.get(), 0);
  return true;
}

void TableScan::Mark(size_t column, std::string_view what) {
  if (marked_.empty())
    marked_ = absl::StrCat(columns_[column], " of row ", last_row_, " ", std::string(what));
}

std::optional<int64_t> TableScan::Integer(size_t column) {
  const auto place = static_cast<int>(column + 1);
  const int type = sqlite3_column_type(statement_.get(), place);
  if (type == SQLITE_INTEGER) return sqlite3_column_int64(statement_.get(), place);
  if (type != SQLITE_NULL) Mark(column, "is not an integer");
  return std::nullopt;
}

std::string_view TableScan::Text(size_t column) {
  const int type = sqlite3_column_type(statement_.get(), static_cast<int>(column + 1));
  if (type == SQLITE_NULL) return "";
  if (type != SQLITE_TEXT) {
    Mark(column, "is not text");
    return "";
  }
  const auto place = static_cast<int>(column + 1);
  // SQLite converts the text if the file's encoding is not UTF-8.
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), place));
  return text == nullptr
             ? ""
             : std::string_view(text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), place)));
}

std::string_view TableScan::Bytes(size_t column) {
  const auto place = static_cast<int>(column + 1);
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_.get(), place));
  return bytes == nullptr
             ? ""
             : std::string_view(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), place)));
}

bool TableScan::Usable() {
  if (marked_.empty()) return true;
  Refuse(marked_);
  return false;
}

void TableScan::Refuse(std::string_view what) { losses_.Add(table_, 1, what); }

}  // namespace lockstep::formats
