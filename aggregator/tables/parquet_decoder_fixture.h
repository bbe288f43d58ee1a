// A Parquet reader for tests, written from the specification and sharing nothing with the writer: as much of
// the format as the writer uses, and everything that it states about itself is checked.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_PARQUET_DECODER_FIXTURE_H_
#define LOCKSTEP_AGGREGATOR_TABLES_PARQUET_DECODER_FIXTURE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tables {

struct DecodedColumn {
  std::string name;
  int type = 0;  // the specification's number
  bool optional = false;
  bool utf8 = false;
  std::vector<std::optional<std::string>> cells;  // as CSV has them
};

struct DecodedTable {
  std::string name;
  size_t row_groups = 0;
  std::vector<DecodedColumn> columns;
};

// What is not as the specification has it is a test failure, and cells are missing then.
DecodedTable DecodeParquet(std::string_view file);

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_PARQUET_DECODER_FIXTURE_H_
