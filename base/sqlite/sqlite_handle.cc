#include "base/sqlite/sqlite_handle.h"

#include <sqlite3.h>

namespace lockstep::sqlite {

void SqliteCloser::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void SqliteCloser::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

absl::StatusOr<SqliteStatement> PrepareSqlite(sqlite3* database, const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, sql.data(), static_cast<int>(sql.size()), &statement, nullptr) !=
      SQLITE_OK) {
    return absl::InvalidArgumentError(sqlite3_errmsg(database));
  }
  return SqliteStatement(statement);
}

absl::Status ExecuteSqlite(sqlite3* database, const std::string& sql) {
  if (sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return absl::InvalidArgumentError(sqlite3_errmsg(database));
}

}  // namespace lockstep::sqlite
