// Makes databases from SQL text, for tests and the fuzzer.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_TEXT_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_TEXT_H_

#include <sqlite3.h>

#include <cstdio>
#include <string>

#include "formats/nsys/nsys_schema.h"
#include "formats/nsys/sqlite_database.h"

namespace lockstep::formats {

// Runs `sql` and returns the bytes of the database. If the SQL fails, prints the error to stderr and returns
// an empty string.
inline std::string SqliteImage(const std::string& sql) {
  sqlite3* opened = nullptr;
  sqlite3_open(":memory:", &opened);
  const SqliteHandle database(opened);
  if (const absl::Status s = ExecuteSqlite(opened, sql); !s.ok()) {
    std::fprintf(stderr, "%s\n", std::string(s.message()).c_str());
    return "";
  }
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(opened, "main", &size, 0);
  std::string image(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  sqlite3_free(bytes);
  return image;
}

// Returns the CREATE TABLE statement of one of the format's tables.
inline std::string CreateNsysTable(const std::string& name) {
  for (const nsys::Table& table : nsys::Tables()) {
    if (name == table.name) return "CREATE TABLE " + name + " (" + table.columns + ");\n";
  }
  std::fprintf(stderr, "there is no table %s\n", name.c_str());
  return "";
}

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_TEXT_H_
