// For tests and the fuzzer: databases made of SQL text.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_TEXT_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_TEXT_H_

#include <sqlite3.h>

#include <cstdio>
#include <string>

#include "formats/nsys/nsys_schema.h"
#include "formats/nsys/sqlite_database.h"

namespace lockstep::trace {

// The bytes of a database in which `sql` ran; empty, and said on stderr, when it cannot be run.
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

// CREATE TABLE of one of the format's tables.
inline std::string CreateNsysTable(const std::string& name) {
  for (const nsys::Table& table : nsys::Tables()) {
    if (name == table.name) return "CREATE TABLE " + name + " (" + table.columns + ");\n";
  }
  std::fprintf(stderr, "there is no table %s\n", name.c_str());
  return "";
}

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_TEXT_H_
