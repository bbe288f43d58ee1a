// Test helper: records the expected content of a Parquet file. After all tests have run, hyparquet, an
// independent reader, reads the file and checks it (tests/parquet/read_back.mjs). It also checks the file's
// own offsets, sizes, counts, statistics and meanings.
#ifndef LOCKSTEP_VIEWS_TABLES_PARQUET_READER_FIXTURE_H_
#define LOCKSTEP_VIEWS_TABLES_PARQUET_READER_FIXTURE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "views/tables/table.h"

namespace lockstep::views {

// The cells of one column, as CSV writes them.
using ExpectedCells = std::vector<std::optional<std::string>>;

// `group_rows` has the number of rows of each row group.
void ExpectParquet(std::string_view file, const Table& table, const std::vector<ExpectedCells>& columns,
                   const std::vector<size_t>& group_rows);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_PARQUET_READER_FIXTURE_H_
