#include "views/tables/csv_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/files/byte_sink.h"

namespace lockstep::views {
namespace {

using namespace std::string_literals;

Column Of(std::string_view name, CellType type) {
  return {.name = name, .unit = "", .meaning = "", .type = type, .may_be_null = true};
}

std::string Written(const Table& table, const std::vector<Cells>& cells) {
  StringSink bytes;
  CsvSink sink(table, bytes);
  EXPECT_TRUE(sink.Append({.rows = cells.front().size(), .columns = cells}).ok());
  EXPECT_TRUE(sink.Finish().ok());
  return bytes.text();
}

TEST(CsvSinkTest, QuotesTextsAsInRfc4180AndDistinguishesNullFromEmpty) {
  const Table table = {
      .name = "t", .meaning = "", .columns = {Of("a", CellType::kText), Of("b", CellType::kInt64)}};
  std::vector<Cells> cells(2);
  for (const char* text : {"plain", "comma,here", "a \"quoted\" word", "two\r\nlines", ""})
    cells[0].Add(std::string_view(text));
  cells[0].Add(std::optional<std::string_view>());
  for (int i = 0; i < 5; ++i) cells[1].Add(i);
  cells[1].Add(std::optional<int64_t>());
  EXPECT_EQ(Written(table, cells),
            "a,b\r\nplain,0\r\n\"comma,here\",1\r\n\"a \"\"quoted\"\" "
            "word\",2\r\n\"two\r\nlines\",3\r\n\"\",4\r\n,\r\n");
}

TEST(CsvSinkTest, WritesListsAsJson) {
  Table table = {
      .name = "t", .meaning = "", .columns = {Of("n", CellType::kInt32), Of("t", CellType::kText)}};
  for (Column& column : table.columns) column.shape = CellShape::kList;
  std::vector<Cells> cells(2);
  cells[0].Add(std::vector<int>{});
  cells[0].Add(std::vector<int>{3, -4});
  cells[1].Add(std::vector<std::string>{"a;b", "c \"d\""});
  cells[1].Add(std::vector<std::string>{"\xFF"});
  EXPECT_EQ(Written(table, cells),
            "n,t\r\n[],\"[\"\"a;b\"\",\"\"c \\\"\"d\\\"\"\"\"]\"\r\n\"[3,-4]\",\"[\"\"?\"\"]\"\r\n");
}

TEST(CsvSinkTest, NumbersReadBackUnchanged) {
  const Table table = {
      .name = "t",
      .meaning = "",
      .columns = {Of("i", CellType::kInt64), Of("d", CellType::kDouble), Of("b", CellType::kBool)}};
  std::vector<Cells> cells(3);
  for (const int64_t i :
       {std::numeric_limits<int64_t>::min(), int64_t{-1}, std::numeric_limits<int64_t>::max()})
    cells[0].Add(i);
  for (const double d : {0.1, 1e300, std::numeric_limits<double>::quiet_NaN()}) cells[1].Add(d);
  for (const bool b : {true, false, true}) cells[2].Add(b);
  EXPECT_EQ(Written(table, cells),
            "i,d,b\r\n-9223372036854775808,0.1,true\r\n-1,1e+300,false\r\n9223372036854775807,,true\r\n");
}

TEST(CsvSinkTest, ReplacesInvalidUtf8ByQuestionMarks) {
  const Table table = {.name = "t", .meaning = "", .columns = {Of("a", CellType::kText)}};
  std::vector<Cells> cells(1);
  cells[0].Add(std::string_view("gr\xC3\xBC\xC3\x9F"));
  cells[0].Add(std::string_view("bad\xFF\xC3"));
  cells[0].Add("made\x80"s);
  EXPECT_EQ(Written(table, cells), "a\r\ngr\xC3\xBC\xC3\x9F\r\nbad??\r\nmade?\r\n");
}

TEST(CsvSinkTest, WritesTheHeaderOfATableWithoutRows) {
  const Table table = {
      .name = "t", .meaning = "", .columns = {Of("a", CellType::kText), Of("b", CellType::kText)}};
  StringSink bytes;
  CsvSink sink(table, bytes);
  EXPECT_TRUE(sink.Finish().ok());
  EXPECT_EQ(bytes.text(), "a,b\r\n");
}

}  // namespace
}  // namespace lockstep::views
