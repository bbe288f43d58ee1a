// Tables into files: what `lockstep export --format csv` and `parquet` do.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_WRITE_TABLES_H_
#define LOCKSTEP_AGGREGATOR_TABLES_WRITE_TABLES_H_

#include <string>

#include "absl/status/status.h"
#include "aggregator/trace/writers.h"
#include "views/tables/table_source.h"

namespace lockstep::tables {

enum class TableFormat { kCsv, kParquet };

// `output` is a folder, made where it is not there, that gets <table>.csv or <table>.parquet of every table.
// Or it is one file, <table>.csv, <table>.csv.gz or <table>.parquet, for that table alone. Every file appears
// whole or not at all. kInvalidArgument: the file has no table's name; kPermissionDenied: the folder cannot
// be made.
absl::Status WriteTables(const Input& input, TableFormat format, const std::string& output,
                         const trace::WriteProgress& progress = {});

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_WRITE_TABLES_H_
