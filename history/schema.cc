#include "history/schema.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"

namespace lockstep::history {
namespace {

constexpr char kVersionTable[] = "schema_versions";

// A published migration never changes. A new version is a new migration.
std::vector<Migration> AllMigrations() {
  return {
      {1,
       {
           "CREATE TABLE captures (capture TEXT PRIMARY KEY, job TEXT NOT NULL, job_id TEXT NOT NULL, source "
           "TEXT NOT "
           "NULL, captured_unix_ns BIGINT NOT NULL, added_unix_ns BIGINT NOT NULL, duration_ns BIGINT, "
           "world_size "
           "BIGINT NOT NULL, hosts BIGINT NOT NULL, steps BIGINT NOT NULL, partial BIGINT NOT NULL, "
           "lost_records "
           "BIGINT NOT NULL, step_ns DOUBLE PRECISION, ideal_step_ns DOUBLE PRECISION, lost_ns_per_step "
           "DOUBLE "
           "PRECISION, noise_floor_ns_per_step DOUBLE PRECISION, exposed_ns_per_step DOUBLE PRECISION, "
           "idle_fraction "
           "DOUBLE PRECISION, parallel_efficiency DOUBLE PRECISION, load_balance DOUBLE PRECISION, "
           "communication_efficiency DOUBLE PRECISION, orchestration DOUBLE PRECISION, gain_ns_per_step "
           "DOUBLE "
           "PRECISION, verdict TEXT NOT NULL)",
           "CREATE INDEX captures_by_job ON captures (job, captured_unix_ns)",
           "CREATE INDEX captures_by_time ON captures (captured_unix_ns)",
           "CREATE TABLE labels (capture TEXT NOT NULL REFERENCES captures ON DELETE CASCADE, name TEXT NOT "
           "NULL, "
           "value TEXT NOT NULL, PRIMARY KEY (capture, name))",
           "CREATE TABLE ranks (capture TEXT NOT NULL REFERENCES captures ON DELETE CASCADE, place BIGINT "
           "NOT NULL, "
           "rank BIGINT NOT NULL, host TEXT NOT NULL, device BIGINT NOT NULL, device_name TEXT, device_uuid "
           "TEXT, "
           "compute_ns BIGINT NOT NULL, exposed_communication_ns BIGINT NOT NULL, idle_ns BIGINT NOT NULL, "
           "caused_wait_ns BIGINT NOT NULL, gain_ns_per_step DOUBLE PRECISION, PRIMARY KEY (capture, place))",
           "CREATE TABLE steps (capture TEXT NOT NULL REFERENCES captures ON DELETE CASCADE, place BIGINT "
           "NOT NULL, "
           "step BIGINT NOT NULL, duration_ns BIGINT NOT NULL, parallel_efficiency DOUBLE PRECISION, "
           "load_balance "
           "DOUBLE PRECISION, communication_efficiency DOUBLE PRECISION, orchestration DOUBLE PRECISION, "
           "wait_ns "
           "DOUBLE PRECISION, overlap_ns DOUBLE PRECISION, costliest_rank BIGINT, costliest_lost_ns BIGINT, "
           "PRIMARY "
           "KEY (capture, place))",
           "CREATE TABLE findings (capture TEXT NOT NULL REFERENCES captures ON DELETE CASCADE, place BIGINT "
           "NOT "
           "NULL, list TEXT NOT NULL, kind TEXT NOT NULL, cause TEXT NOT NULL, lost_ns_per_step DOUBLE "
           "PRECISION, "
           "gain_ns_per_step DOUBLE PRECISION, verdict TEXT NOT NULL, confidence DOUBLE PRECISION, "
           "since_step BIGINT, "
           "action TEXT NOT NULL, PRIMARY KEY (capture, place))",
           "CREATE TABLE finding_ranks (capture TEXT NOT NULL, place BIGINT NOT NULL, rank BIGINT NOT NULL, "
           "host TEXT "
           "NOT NULL, PRIMARY KEY (capture, place, rank), FOREIGN KEY (capture, place) REFERENCES findings "
           "ON DELETE "
           "CASCADE)",
           "CREATE VIEW jobs AS SELECT job, COUNT(*) AS captures, MIN(captured_unix_ns) AS first_unix_ns, "
           "MAX(captured_unix_ns) AS last_unix_ns FROM captures GROUP BY job",
       }}};
}

// Returns 0 if there are no tables.
absl::StatusOr<int64_t> VersionOf(Database& database) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> tables, database.Tables());
  if (tables.empty()) return 0;
  if (!std::binary_search(tables.begin(), tables.end(), kVersionTable)) {
    return absl::FailedPreconditionError(absl::StrCat(database.name(), " holds tables of another program (",
                                                      tables.front(), "): name another database with --db"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> rows,
                            database.Run("SELECT MAX(version) FROM schema_versions", {}));
  const auto* version = std::get_if<int64_t>(&rows.at(0).at(0));
  return version == nullptr ? 0 : *version;
}

absl::Status Apply(Database& database, const Migration& migration, HostTime now) {
  for (const std::string& statement : migration.statements)
    LOCKSTEP_RETURN_IF_ERROR(database.Run(statement, {}).status());
  return database
      .Run("INSERT INTO schema_versions (version, applied_unix_ns) VALUES ($1, $2)",
           {migration.version, now.ns()})
      .status();
}

absl::Status CheckNotNewer(const Database& database, int64_t version, int64_t newest) {
  if (version <= newest) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(database.name(), " has version ", version,
                   " of the history's tables, and this lockstep knows versions up to ", newest,
                   ": use the lockstep that wrote it, or a newer one"));
}

}  // namespace

std::span<const Migration> Migrations() {
  static const auto* const kAll =
      new std::vector<Migration>(AllMigrations());  // lives as long as the program
  return *kAll;
}

absl::Status PrepareSchema(Database& database, Purpose purpose, const Clock& clock,
                           std::span<const Migration> migrations) {
  const int64_t newest = migrations.back().version;
  LOCKSTEP_ASSIGN_OR_RETURN(int64_t version, VersionOf(database));
  LOCKSTEP_RETURN_IF_ERROR(CheckNotNewer(database, version, newest));
  if (version == newest) return absl::OkStatus();
  if (purpose == Purpose::kRead) {
    if (version == 0) return NoHistoryIn(database.name());
    return absl::FailedPreconditionError(
        absl::StrCat(database.name(), " has version ", version,
                     " of the history's tables: `lockstep history add` of this version "
                     "makes version ",
                     newest, " of it"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Writing writing, Writing::Begin(database));
  // Another program may have applied them while this one waited.
  LOCKSTEP_ASSIGN_OR_RETURN(version, VersionOf(database));
  LOCKSTEP_RETURN_IF_ERROR(CheckNotNewer(database, version, newest));
  if (version == 0) {
    LOCKSTEP_RETURN_IF_ERROR(database
                                 .Run("CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY "
                                      "KEY, applied_unix_ns BIGINT NOT NULL)",
                                      {})
                                 .status());
  }
  for (const Migration& migration : migrations) {
    if (migration.version > version) LOCKSTEP_RETURN_IF_ERROR(Apply(database, migration, clock.Realtime()));
  }
  return writing.Commit();
}

}  // namespace lockstep::history
