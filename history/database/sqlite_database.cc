#include "history/database/sqlite_database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/rpc/status_macros.h"

namespace lockstep::history {
namespace {

// No cell of a history is longer. A damaged or foreign file may claim any length.
constexpr int kLongestSqliteCellBytes = 16 << 20;

absl::Status MakeSqliteFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot create the folder ", folder));
  }
  return absl::OkStatus();
}

// SQLite would create the file readable for others, as the umask says. Its journal has the mode of the file.
absl::Status MakeSqliteFile(const std::string& path) {
  LOCKSTEP_RETURN_IF_ERROR(MakeSqliteFolders(path));
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return absl::OkStatus();
}

absl::Status CheckSqliteFile(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.ok()) return absl::OkStatus();
  if (errno != ENOENT) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return NoHistoryIn(path);
}

void BindSqlite(sqlite3_stmt* statement, int place, const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) {
    sqlite3_bind_int64(statement, place, *number);
  } else if (const auto* real = std::get_if<double>(&value)) {
    sqlite3_bind_double(statement, place, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    sqlite3_bind_text(statement, place, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
  } else {
    sqlite3_bind_null(statement, place);
  }
}

Value SqliteValueAt(sqlite3_stmt* statement, int column) {
  switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
      return int64_t{sqlite3_column_int64(statement, column)};
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement, column);
    case SQLITE_NULL:
      return std::monostate();
    default: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
      if (text == nullptr) return std::monostate();
      return std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement, column)));
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> SqliteDatabase::Open(const std::string& path, Purpose purpose,
                                                               Nanos patience) {
  LOCKSTEP_RETURN_IF_ERROR(purpose == Purpose::kWrite ? MakeSqliteFile(path) : CheckSqliteFile(path));
  sqlite3* opened = nullptr;
  // A reader must be able to undo what a program left that ended in the middle of writing.
  const int code =
      sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  sqlite::SqliteHandle handle(opened);
  if (code != SQLITE_OK)
    return absl::InternalError(absl::StrCat("cannot open ", path, ": ", sqlite3_errstr(code)));
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(path, std::move(handle)));
  LOCKSTEP_RETURN_IF_ERROR(database->Configure(purpose, patience));
  return std::unique_ptr<Database>(std::move(database));
}

// The file may come from another user, so nothing in its schema is trusted.
absl::Status SqliteDatabase::Configure(Purpose purpose, Nanos patience) {
  sqlite3* raw = handle_.get();
  sqlite3_busy_timeout(
      raw, static_cast<int>(std::min<int64_t>(patience.ns() / 1'000'000, std::numeric_limits<int>::max())));
  sqlite3_extended_result_codes(raw, 1);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kLongestSqliteCellBytes);
  sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  // The first read finds files of other kinds.
  LOCKSTEP_RETURN_IF_ERROR(Tables().status());
  return Execute(purpose == Purpose::kWrite ? "PRAGMA foreign_keys = ON" : "PRAGMA query_only = ON");
}

absl::Status SqliteDatabase::Error(const char* what) const {
  const int code = sqlite3_errcode(handle_.get()) & 0xFF;
  const std::string text = absl::StrCat(path_, ": ", what, ": ", sqlite3_errmsg(handle_.get()));
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    return absl::UnavailableError(
        absl::StrCat(text, "; another program writes into it for a long time: try again when it has ended"));
  }
  if (code == SQLITE_NOTADB) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " is not an SQLite database: name a new file with --db, or remove it"));
  }
  return absl::InternalError(text);
}

absl::Status SqliteDatabase::Execute(const std::string& sql) {
  if (sqlite::ExecuteSqlite(handle_.get(), sql).ok()) return absl::OkStatus();
  return Error("a statement failed");
}

absl::StatusOr<std::vector<Row>> SqliteDatabase::Run(const std::string& sql,
                                                     const std::vector<Value>& values) {
  auto statement = sqlite::PrepareSqlite(handle_.get(), sql);
  if (!statement.ok()) return Error("a statement cannot be used");
  sqlite3_stmt* raw = statement->get();
  for (size_t i = 0; i < values.size(); ++i) {
    // SQLite counts the parameters by their first occurrence, so each is found by its name.
    const int place = sqlite3_bind_parameter_index(raw, absl::StrCat("$", i + 1).c_str());
    if (place > 0) BindSqlite(raw, place, values[i]);
  }
  std::vector<Row> rows;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(raw)) == SQLITE_ROW) {
    Row& row = rows.emplace_back();
    for (int column = 0; column < sqlite3_column_count(raw); ++column)
      row.push_back(SqliteValueAt(raw, column));
  }
  if (code != SQLITE_DONE) return Error("a statement failed");
  return rows;
}

absl::Status SqliteDatabase::BeginWriting() { return Execute("BEGIN IMMEDIATE"); }
absl::Status SqliteDatabase::Commit() { return Execute("COMMIT"); }
// After some errors SQLite has already undone the transaction, and the statement fails.
void SqliteDatabase::Rollback() { Execute("ROLLBACK").IgnoreError(); }

absl::StatusOr<std::vector<std::string>> SqliteDatabase::Tables() {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<Row> rows,
      Run("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
          {}));
  std::vector<std::string> names;
  for (const Row& row : rows) names.push_back(std::get<std::string>(row[0]));
  return names;
}

}  // namespace lockstep::history
