// SQLite files of others, opened so that nothing in them can run, write or be written.
//
// A file is read as if nobody else had it (immutable): no lock, no journal beside it. Views, triggers,
// virtual tables and computed columns are not looked at. One thread at a time.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_SQLITE_DATABASE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_SQLITE_DATABASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lockstep::trace {

// "SQLite format 3" and a zero byte.
inline constexpr size_t kSqliteMagicBytes = 16;
bool IsSqlite(std::string_view first_bytes);

struct SqliteCloser {
  void operator()(sqlite3* database) const;
  void operator()(sqlite3_stmt* statement) const;
};
using SqliteHandle = std::unique_ptr<sqlite3, SqliteCloser>;
using SqliteStatement = std::unique_ptr<sqlite3_stmt, SqliteCloser>;

// kInvalidArgument with what SQLite said.
absl::StatusOr<SqliteStatement> PrepareSqlite(sqlite3* database, const std::string& sql);
absl::Status ExecuteSqlite(sqlite3* database, const std::string& sql);

// A name as SQL writes it: quoted, whatever is in it.
std::string SqlName(std::string_view name);

class SqliteDatabase {
 public:
  struct Table {
    std::map<std::string, bool, std::less<>> columns;  // true: alone the table's primary key
    bool Has(std::string_view column) const { return columns.find(column) != columns.end(); }
  };

  // kNotFound, kPermissionDenied or kInvalidArgument: half a sentence ("is no SQLite database").
  static absl::StatusOr<SqliteDatabase> OpenFile(const std::string& path);
  // The bytes of a file; kept.
  static absl::StatusOr<SqliteDatabase> OpenImage(std::string bytes);

  sqlite3* handle() const { return handle_.get(); }
  // nullptr: there is no such table that can be read.
  const Table* Find(std::string_view table) const;
  // Why the file is not what it was, as half a sentence ("the file is shorter than it says"); empty when
  // nothing shows it.
  const std::string& damage() const { return damage_; }

 private:
  SqliteDatabase() = default;
  static absl::StatusOr<SqliteDatabase> Open(const std::string& path, std::string bytes);
  absl::Status Connect(const std::string& path);
  absl::Status ReadTables();
  absl::Status ReadColumns(const std::string& name, Table& table);

  std::unique_ptr<std::string> image_;  // outlives the handle
  SqliteHandle handle_;
  std::map<std::string, Table, std::less<>> tables_;
  std::string damage_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_SQLITE_DATABASE_H_
