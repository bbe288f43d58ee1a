// SqliteDatabase opens SQLite files from other programs. A file can neither run code nor be changed.
//
// It opens a file as immutable: without a lock and without a journal. It ignores views, triggers, virtual
// tables and computed columns. One thread at a time.
#ifndef LOCKSTEP_FORMATS_NSYS_SQLITE_DATABASE_H_
#define LOCKSTEP_FORMATS_NSYS_SQLITE_DATABASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sqlite/sqlite_handle.h"

namespace lockstep::formats {

// The first bytes of a file: "SQLite format 3" and a zero byte.
inline constexpr size_t kSqliteMagicBytes = 16;
bool IsSqlite(std::string_view first_bytes);

using sqlite::ExecuteSqlite;
using sqlite::PrepareSqlite;
using sqlite::SqliteHandle;
using sqlite::SqliteStatement;

// Returns a name quoted for SQL; the name may hold any characters.
std::string SqlName(std::string_view name);

class SqliteDatabase {
 public:
  struct Table {
    std::map<std::string, bool, std::less<>> columns;  // true: it alone is the table's primary key
    bool Has(std::string_view column) const { return columns.find(column) != columns.end(); }
  };

  // Fails with kNotFound, kPermissionDenied or kInvalidArgument. The message is half a sentence that follows
  // the path.
  static absl::StatusOr<SqliteDatabase> OpenFile(const std::string& path);
  // Opens the bytes of a database file and keeps them.
  static absl::StatusOr<SqliteDatabase> OpenImage(std::string bytes);

  sqlite3* handle() const { return handle_.get(); }
  // nullptr: the database has no such table, or the table cannot be read.
  const Table* Find(std::string_view table) const;
  // Half a sentence that says how the file is damaged ("the file is shorter than it says"). Empty: no damage
  // was found.
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

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_SQLITE_DATABASE_H_
