// Writes the tables of a history as Parquet, for DuckDB, pandas and other programs.
#ifndef LOCKSTEP_HISTORY_EXPORT_PARQUET_H_
#define LOCKSTEP_HISTORY_EXPORT_PARQUET_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "history/history_store.h"

namespace lockstep::history {

struct Exported {
  int64_t captures = 0;
  int64_t files = 0;
};

// Writes FOLDER/TABLE/month=2026-03/data.parquet for each table (tables.h) and each month, in UTC, in which a
// capture began. Files of the same names are replaced, each only when the new one is complete. Other files
// stay, so that a folder is also an archive of months that were removed from the history.
//
// kPermissionDenied: a folder cannot be created. Other errors are those of the database and of the files.
absl::StatusOr<Exported> ExportParquet(HistoryStore& store, const std::string& folder);

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_EXPORT_PARQUET_H_
