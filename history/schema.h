// The versions of the tables, and the steps from each to the next (docs/formats/history.md, "Version rule").
#ifndef LOCKSTEP_HISTORY_SCHEMA_H_
#define LOCKSTEP_HISTORY_SCHEMA_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "history/database/database.h"

namespace lockstep::history {

// The statements that make version n out of version n - 1. They are valid in SQLite and in PostgreSQL.
struct Migration {
  int64_t version;
  std::vector<std::string> statements;
};

// All migrations, from version 1 to the newest.
std::span<const Migration> Migrations();

// Checks the version of the database. With kWrite, it first applies the migrations that are missing, all or
// none, and notes the time of each. Programs that do this at the same time wait for each other.
//
// kFailedPrecondition: the version is newer than `migrations`, the tables are another program's, or with
// kRead the version is older. kNotFound: with kRead, there are no tables.
absl::Status PrepareSchema(Database& database, Purpose purpose, const Clock& clock,
                           std::span<const Migration> migrations = Migrations());

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_SCHEMA_H_
