#include "views/tables/parquet_reader_fixture.h"

#include <fstream>

#include "base/json/json_out.h"
#include "gtest/gtest.h"
#include "tests/support/check_after_tests.h"

namespace lockstep::views {
namespace {

// Returns the type's name in the specification.
std::string_view TypeName(CellType type) {
  switch (type) {
    case CellType::kBool:
      return "BOOLEAN";
    case CellType::kInt32:
      return "INT32";
    case CellType::kInt64:
      return "INT64";
    case CellType::kDouble:
      return "DOUBLE";
    case CellType::kText:
      return "BYTE_ARRAY";
  }
  return "";
}

std::string TableLine(const Table& table, const std::vector<size_t>& group_rows) {
  JsonOut out(JsonOut::Layout::kOneLine);
  out.BeginObject();
  out.Member("name", table.name);
  out.Member("meaning", table.meaning);
  out.Member("group_rows", group_rows);
  out.Key("columns").BeginArray();
  for (const Column& column : table.columns) {
    out.BeginObject();
    out.Member("name", column.name);
    out.Member("meaning", column.meaning);
    out.Member("type", TypeName(column.type));
    out.Member("may_be_null", column.may_be_null);
    out.Member("list", column.shape == CellShape::kList);
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
  return out.Take();
}

}  // namespace

void ExpectParquet(std::string_view file, const Table& table, const std::vector<ExpectedCells>& columns,
                   const std::vector<size_t>& group_rows) {
  const std::string command = "'" LOCKSTEP_DEBIAN_PYTHON "' '" LOCKSTEP_SOURCE_DIR
                              "/tests/parquet/read_back.py' '" LOCKSTEP_PARQUET_READER "'";
  std::ofstream out(tests::CheckAfterTests(command, ".parquet", file) + ".expected", std::ios::binary);
  out << TableLine(table, group_rows);
  for (const ExpectedCells& cells : columns) {
    JsonOut line(JsonOut::Layout::kOneLine);
    line.Value(cells);
    out << line.Take();
  }
  out.close();
  EXPECT_TRUE(out) << "cannot write what is expected";
}

}  // namespace lockstep::views
