#include "formats/nsys/sqlite_database.h"

#include <sqlite3.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

// A damaged file may claim a cell of any length. No cell of a trace is longer than this.
constexpr int kLongestCell = 16 << 20;
constexpr int kMostTables = 4096;

// Encodes a path for a file: URI.
std::string PercentEncoded(std::string_view path) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      out += c;
    }
  }
  return out;
}

bool IsDamage(int code) {
  return (code & 0xFF) == SQLITE_CORRUPT || (code & 0xFF) == SQLITE_NOTADB || (code & 0xFF) == SQLITE_IOERR;
}

std::string ColumnText(sqlite3_stmt* statement, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  return text == nullptr ? ""
                         : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement, column)));
}

void Harden(sqlite3* database) {
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(database, SQLITE_LIMIT_LENGTH, kLongestCell);
  sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(database, SQLITE_LIMIT_WORKER_THREADS, 0);
}

}  // namespace

bool IsSqlite(std::string_view first_bytes) {
  return first_bytes.substr(0, kSqliteMagicBytes) == std::string_view("SQLite format 3\0", kSqliteMagicBytes);
}

std::string SqlName(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::OpenFile(const std::string& path) { return Open(path, ""); }

absl::StatusOr<SqliteDatabase> SqliteDatabase::OpenImage(std::string bytes) {
  if (bytes.empty()) return absl::InvalidArgumentError("is empty");
  return Open("", std::move(bytes));
}

absl::StatusOr<SqliteDatabase> SqliteDatabase::Open(const std::string& path, std::string bytes) {
  SqliteDatabase database;
  if (!bytes.empty()) database.image_ = std::make_unique<std::string>(std::move(bytes));
  if (absl::Status s = database.Connect(path); !s.ok()) return s;
  if (absl::Status s = database.ReadTables(); !s.ok()) return s;
  return database;
}

absl::Status SqliteDatabase::Connect(const std::string& path) {
  sqlite3* opened = nullptr;
  const std::string uri = absl::StrCat("file:", PercentEncoded(path), "?immutable=1");
  const int code =
      image_ != nullptr
          ? sqlite3_open_v2(":memory:", &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr)
          : sqlite3_open_v2(uri.c_str(), &opened,
                            SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(opened);
  if (code != SQLITE_OK)
    return absl::InvalidArgumentError(absl::StrCat("cannot be opened: ", sqlite3_errstr(code)));
  Harden(opened);
  if (image_ == nullptr) return absl::OkStatus();
  const auto size = static_cast<sqlite3_int64>(image_->size());
  if (sqlite3_deserialize(opened, "main", reinterpret_cast<unsigned char*>(image_->data()), size, size,
                          SQLITE_DESERIALIZE_READONLY) != SQLITE_OK) {
    return absl::InvalidArgumentError("cannot be opened");
  }
  return absl::OkStatus();
}

absl::Status SqliteDatabase::ReadTables() {
  const std::string list =
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE %' LIMIT " +
      std::to_string(kMostTables);
  auto statement = PrepareSqlite(handle(), list);
  int code = sqlite3_errcode(handle());
  if (!statement.ok() && IsDamage(code)) {
    damage_ = (code & 0xFF) == SQLITE_NOTADB ? "is not an SQLite database" : "is cut off or overwritten";
    if ((code & 0xFF) == SQLITE_NOTADB) return absl::InvalidArgumentError(damage_);
    // Defensive mode refuses a file that is shorter than its header says. With a writable schema, SQLite
    // reads the part that exists. The handle stays read-only.
    sqlite3_db_config(handle(), SQLITE_DBCONFIG_DEFENSIVE, 0, nullptr);
    sqlite3_db_config(handle(), SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, nullptr);
    statement = PrepareSqlite(handle(), list);
  }
  if (!statement.ok())
    return absl::InvalidArgumentError(absl::StrCat("cannot be read: ", statement.status().message()));
  std::vector<std::string> names;
  while ((code = sqlite3_step(statement->get())) == SQLITE_ROW)
    names.push_back(ColumnText(statement->get(), 0));
  if (code != SQLITE_DONE) {
    if (names.empty())
      return absl::InvalidArgumentError(absl::StrCat("cannot be read: ", sqlite3_errmsg(handle())));
    damage_ = "has a damaged list of tables";
  }
  for (const std::string& name : names) {
    Table table;
    if (ReadColumns(name, table).ok()) tables_.emplace(name, std::move(table));
  }
  return absl::OkStatus();
}

absl::Status SqliteDatabase::ReadColumns(const std::string& name, Table& table) {
  auto statement = PrepareSqlite(handle(), "SELECT name, hidden, pk FROM pragma_table_xinfo(?1)");
  if (!statement.ok()) return statement.status();
  sqlite3_bind_text(statement->get(), 1, name.data(), static_cast<int>(name.size()), SQLITE_TRANSIENT);
  int keys = 0;
  while (sqlite3_step(statement->get()) == SQLITE_ROW) {
    const bool plain =
        sqlite3_column_int(statement->get(), 1) == 0;  // not computed, and not of a virtual table
    const bool key = sqlite3_column_int(statement->get(), 2) > 0;
    keys += key ? 1 : 0;
    if (plain) table.columns.emplace(ColumnText(statement->get(), 0), key);
  }
  if (keys > 1) {
    for (auto& [column, key] : table.columns) key = false;
  }
  return table.columns.empty() ? absl::InvalidArgumentError("no columns") : absl::OkStatus();
}

const SqliteDatabase::Table* SqliteDatabase::Find(std::string_view table) const {
  const auto it = tables_.find(table);
  return it == tables_.end() ? nullptr : &it->second;
}

}  // namespace lockstep::formats
