// Opens the database that a user names.
#ifndef LOCKSTEP_HISTORY_DATABASE_OPEN_DATABASE_H_
#define LOCKSTEP_HISTORY_DATABASE_OPEN_DATABASE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "history/database/database.h"

namespace lockstep::history {

inline constexpr char kHistoryVariable[] = "LOCKSTEP_HISTORY";

// Returns the value of an environment variable; null: not set.
using Environment = std::function<const char*(const char* name)>;

// Returns the given place, else that of LOCKSTEP_HISTORY, else lockstep/history.db in $XDG_DATA_HOME or
// ~/.local/share. kFailedPrecondition: nothing names a place, because HOME is not set.
absl::StatusOr<std::string> HistoryPlace(const std::string& given, const Environment& environment);

// Opens a PostgreSQL URL, or the path of an SQLite file. It fails as these do.
absl::StatusOr<std::unique_ptr<Database>> OpenDatabase(const std::string& place, Purpose purpose);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_DATABASE_OPEN_DATABASE_H_
