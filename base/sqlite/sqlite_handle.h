// Owns what SQLite's C interface returns. One thread at a time uses a database and its statements.
#ifndef LOCKSTEP_BASE_SQLITE_SQLITE_HANDLE_H_
#define LOCKSTEP_BASE_SQLITE_SQLITE_HANDLE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lockstep::sqlite {

struct SqliteCloser {
  void operator()(sqlite3* database) const;
  void operator()(sqlite3_stmt* statement) const;
};
// A database stays open until its last statement is destroyed.
using SqliteHandle = std::unique_ptr<sqlite3, SqliteCloser>;
using SqliteStatement = std::unique_ptr<sqlite3_stmt, SqliteCloser>;

// Fail with kInvalidArgument and SQLite's message. `sql` must hold no values from outside; they are bound to
// parameters.
absl::StatusOr<SqliteStatement> PrepareSqlite(sqlite3* database, const std::string& sql);
absl::Status ExecuteSqlite(sqlite3* database, const std::string& sql);

}  // namespace lockstep::sqlite

#endif  // LOCKSTEP_BASE_SQLITE_SQLITE_HANDLE_H_
