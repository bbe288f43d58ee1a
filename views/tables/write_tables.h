// Writes tables into files, for `lockstep export --format csv` and `parquet`.
#ifndef LOCKSTEP_VIEWS_TABLES_WRITE_TABLES_H_
#define LOCKSTEP_VIEWS_TABLES_WRITE_TABLES_H_

#include <string>

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

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_WRITE_TABLES_H_
