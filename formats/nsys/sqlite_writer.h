// SqliteWriter writes a new SQLite file once, in one transaction without a journal. The file has a temporary
// name until it is complete.
//
// One thread. After the first error, further calls have no effect. Finish() returns that error.
#ifndef LOCKSTEP_FORMATS_NSYS_SQLITE_WRITER_H_
#define LOCKSTEP_FORMATS_NSYS_SQLITE_WRITER_H_

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

namespace lockstep::formats {

class SqliteWriter {
 public:
  // Creates `path`.partial and replaces an existing one. Finish() renames it. Without Finish(), the partial
  // file stays.
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

// SqliteInsert inserts rows into one table. `writer` outlives it, and is Finish()ed only after the insert is
// destroyed.
class SqliteInsert {
 public:
  struct Constant {
    const char* column;
    const char* sql;
  };
  SqliteInsert(SqliteWriter& writer, const char* table, std::initializer_list<const char*> columns,
               std::initializer_list<Constant> constants = {});

  // Inserts a row with one value per column, in the order of the columns. Values are integers, texts, or
  // optionals of those; nullopt is NULL.
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

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_SQLITE_WRITER_H_
