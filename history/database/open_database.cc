#include "history/database/open_database.h"

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"
#include "history/database/libpq.h"
#include "history/database/postgresql_database.h"
#include "history/database/sqlite_database.h"

namespace lockstep::history {

absl::StatusOr<std::string> HistoryPlace(const std::string& given, const Environment& environment) {
  if (!given.empty()) return given;
  if (const char* set = environment(kHistoryVariable); set != nullptr && *set != '\0')
    return std::string(set);
  // The XDG specification ignores relative paths.
  if (const char* data = environment("XDG_DATA_HOME"); data != nullptr && data[0] == '/')
    return absl::StrCat(data, "/lockstep/history.db");
  if (const char* home = environment("HOME"); home != nullptr && home[0] == '/')
    return absl::StrCat(home, "/.local/share/lockstep/history.db");
  return absl::FailedPreconditionError(
      absl::StrCat("HOME is not set, so the history has no place: give --db PATH or set ", kHistoryVariable));
}

absl::StatusOr<std::unique_ptr<Database>> OpenDatabase(const std::string& place, Purpose purpose) {
  if (IsPostgresqlUrl(place)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Libpq pq, Libpq::Load());
    return PostgresqlDatabase::Open(pq, place, purpose);
  }
  // Only the scheme is repeated, because the rest may hold a password.
  if (const size_t scheme = place.find("://"); scheme != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--db: ", place.substr(0, scheme),
                     ":// is not known; give a path, or postgresql://USER@HOST/DATABASE"));
  }
  return SqliteDatabase::Open(place, purpose);
}

}  // namespace lockstep::history
