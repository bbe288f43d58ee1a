#include "formats/nsys/sqlite_writer.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/fd.h"

namespace lockstep::formats {

absl::StatusOr<SqliteWriter> SqliteWriter::Create(const std::string& path) {
  SqliteWriter writer(path);
  const std::string partial = writer.Partial();
  // open() gives the system's reason if the file cannot be created, and does not follow a link.
  ::unlink(partial.c_str());
  if (Fd fd(::open(partial.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644)); !fd.ok()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", partial));
  }
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(partial.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  writer.handle_.reset(opened);
  if (code != SQLITE_OK)
    return absl::InternalError(absl::StrCat("cannot open ", partial, ": ", sqlite3_errstr(code)));
  // No process sees the file before it is complete, so it needs no protection against a crash.
  writer.Execute(
      "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA "
      "cache_size = -8192; BEGIN");
  return writer;
}

void SqliteWriter::Fail(std::string_view what) {
  if (error_.empty()) error_ = what;
}

void SqliteWriter::Execute(const std::string& sql) {
  if (!ok()) return;
  if (absl::Status s = ExecuteSqlite(handle(), sql); !s.ok()) Fail(std::string(s.message()));
}

absl::Status SqliteWriter::Finish() {
  Execute("COMMIT");
  if (!ok()) return absl::InternalError(absl::StrCat("cannot write ", Partial(), ": ", error_));
  if (sqlite3_close(handle_.release()) != SQLITE_OK)
    return absl::InternalError(absl::StrCat("cannot close ", Partial()));
  // A rename before the bytes are on disk could leave an empty file under the final name after a crash.
  Fd fd(::open(Partial().c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.ok() || (::fdatasync(fd.get()) != 0 && errno != EINVAL && errno != EROFS)) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", Partial()));
  }
  if (::rename(Partial().c_str(), path_.c_str()) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot rename to ", path_));
  return absl::OkStatus();
}

SqliteInsert::SqliteInsert(SqliteWriter& writer, const char* table,
                           std::initializer_list<const char*> columns,
                           std::initializer_list<Constant> constants)
    : writer_(writer), columns_(static_cast<int>(columns.size())) {
  std::string names;
  std::string values;
  for (const char* column : columns) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", SqlName(column));
    absl::StrAppend(&values, values.empty() ? "?" : ", ?");
  }
  for (const Constant& constant : constants) {
    absl::StrAppend(&names, ", ", SqlName(constant.column));
    absl::StrAppend(&values, ", ", constant.sql);
  }
  if (!writer.ok()) return;
  auto statement = PrepareSqlite(
      writer.handle(), absl::StrCat("INSERT INTO ", SqlName(table), " (", names, ") VALUES (", values, ")"));
  if (statement.ok()) {
    statement_ = std::move(*statement);
  } else {
    writer.Fail(std::string(statement.status().message()));
  }
}

void SqliteInsert::BindInteger(int place, int64_t value) {
  sqlite3_bind_int64(statement_.get(), place, value);
}
void SqliteInsert::BindNull(int place) { sqlite3_bind_null(statement_.get(), place); }
// A null pointer would become NULL.
void SqliteInsert::Bind(int place, std::string_view text) {
  sqlite3_bind_text(statement_.get(), place, text.data() == nullptr ? "" : text.data(),
                    static_cast<int>(text.size()), SQLITE_STATIC);
}

void SqliteInsert::Step(int values) {
  if (!writer_.ok()) return;
  if (values != columns_) return writer_.Fail("the number of values differs from the number of columns");
  if (sqlite3_step(statement_.get()) != SQLITE_DONE) writer_.Fail(sqlite3_errmsg(writer_.handle()));
  sqlite3_reset(statement_.get());
}

}  // namespace lockstep::formats
