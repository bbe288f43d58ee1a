// Database runs SQL statements in SQLite or PostgreSQL. It is the only interface of this folder to either.
//
// Statements are written in the SQL that both engines have, with parameters $1, $2 and so on. Values from
// outside are parameters, never part of the text. One thread at a time.
#ifndef LOCKSTEP_HISTORY_DATABASE_DATABASE_H_
#define LOCKSTEP_HISTORY_DATABASE_DATABASE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::history {

// A cell: null, a whole number, a number, or a UTF-8 text without zero bytes.
using Value = std::variant<std::monostate, int64_t, double, std::string>;
using Row = std::vector<Value>;

// kRead: the database must exist, and nothing is created. kWrite: it is created if it is missing.
enum class Purpose : uint8_t { kRead, kWrite };

class Database {
 public:
  virtual ~Database() = default;

  // Runs one statement and returns all its rows. `values[0]` is $1. An error names the database, and has the
  // engine's reason: kUnavailable if the database is locked or not reachable, else kInternal.
  virtual absl::StatusOr<std::vector<Row>> Run(const std::string& sql, const std::vector<Value>& values) = 0;

  // Begins a transaction, and waits until no other program writes. Class Writing ends it.
  virtual absl::Status BeginWriting() = 0;
  virtual absl::Status Commit() = 0;
  virtual void Rollback() = 0;

  // Returns the names of the tables, sorted.
  virtual absl::StatusOr<std::vector<std::string>> Tables() = 0;

  // A name for messages. It has no password.
  virtual const std::string& name() const = 0;
};

// Returns kNotFound, for a database that has not been created and is only read. `place` names it.
absl::Status NoHistoryIn(const std::string& place);

// A transaction. Without Commit(), the destructor undoes it. The database outlives it.
class Writing {
 public:
  static absl::StatusOr<Writing> Begin(Database& database);
  Writing(Writing&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Writing& operator=(Writing&&) = delete;
  ~Writing();

  absl::Status Commit();

 private:
  explicit Writing(Database& database) : database_(&database) {}
  Database* database_;  // null: committed, or moved from
};

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_DATABASE_DATABASE_H_
