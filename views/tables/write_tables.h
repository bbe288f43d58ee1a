// Writes tables into files, for `lockstep export --format csv`, `--format parquet` and `--partition`.
#ifndef LOCKSTEP_VIEWS_TABLES_WRITE_TABLES_H_
#define LOCKSTEP_VIEWS_TABLES_WRITE_TABLES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "formats/common/write_progress.h"
#include "views/tables/table_source.h"

namespace lockstep::views {

enum class TableFormat { kCsv, kParquet };

// `output` is a folder, which is created if needed and gets <table>.csv or <table>.parquet of every table. Or
// it is one file, <table>.csv, <table>.csv.gz or <table>.parquet, for that table alone. Every file appears
// only when it is complete. kInvalidArgument: the file has no table's name; kPermissionDenied: the folder
// cannot be created.
absl::Status WriteTables(const Input& input, TableFormat format, const std::string& output,
                         const formats::WriteProgress& progress = {});

// Writes every table as Parquet into folders that are named as Hive names them, so that several captures fit
// into one `output`. The files are TABLE/capture=ID/rank=N/data.parquet, or TABLE/capture=ID/data.parquet for
// a table without ranks. ID is the capture's id. Files of the same names are replaced. Errors are as above.
absl::Status WritePartitions(const Input& input, const std::string& output,
                             const formats::WriteProgress& progress = {});

// Removes the files data.parquet of a folder TABLE/capture=ID, of all its ranks, and folders that are then
// empty. Other files stay. kPermissionDenied: the system refuses.
absl::Status RemovePartition(const std::string& folder);

// Returns the folders TABLE/capture=ID of all tables.
std::vector<std::string> PartitionFolders(const std::string& output, std::string_view capture);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_WRITE_TABLES_H_
