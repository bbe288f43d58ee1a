// A new SQLite file, written once from front to back: one transaction, no journal, beside its place until it
// is whole.
//
// One thread. The first error stays and everything after it does nothing; Finish() tells it.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_SQLITE_WRITER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_SQLITE_WRITER_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formats/nsys/sqlite_database.h"

namespace lockstep::trace {

class SqliteWriter {
 public:
  // Into `path`.partial, replacing what lies there; Finish() renames it. Without Finish() the partial file
  // stays behind.
  static absl::StatusOr<SqliteWriter> Create(const std::string& path);

  void Execute(const std::string& sql);
  absl::Status Finish();

  sqlite3* handle() const { return handle_.get(); }
  bool ok() const { return error_.empty(); }
  void Fail(std::string_view what);

 private:
  explicit SqliteWriter(std::string path) : path_(std::move(path)) {}
  std::string Partial() const { return path_ + ".partial"; }

  std::string path_;
  SqliteHandle handle_;
  std::string error_;
};

// Rows into one table. `writer` outlives it and is not Finish()ed before the insert is gone.
class SqliteInsert {
 public:
  struct Constant {
    const char* column;
    const char* sql;
  };
  SqliteInsert(SqliteWriter& writer, const char* table, std::initializer_list<const char*> columns,
               std::initializer_list<Constant> constants = {});

  // As many values as columns, in their order: integers, doubles, text, or an optional of those, where
  // nullopt is NULL.
  template <typename... Values>
  void Row(const Values&... values) {
    if (statement_ == nullptr) return;
    int place = 0;
    (Bind(++place, values), ...);
    Step(place);
  }

 private:
  template <std::integral T>
  void Bind(int place, T value) {
    BindInteger(place, static_cast<int64_t>(value));
  }
  void Bind(int place, double value);
  void Bind(int place, std::string_view text);
  void Bind(int place, const std::string& text) { Bind(place, std::string_view(text)); }
  void Bind(int place, const char* text) { Bind(place, std::string_view(text)); }
  template <typename T>
  void Bind(int place, const std::optional<T>& value) {
    if (value) {
      Bind(place, *value);
    } else {
      BindNull(place);
    }
  }
  void BindInteger(int place, int64_t value);
  void BindNull(int place);
  void Step(int values);

  SqliteWriter& writer_;
  SqliteStatement statement_;
  int columns_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_SQLITE_WRITER_H_
