// Compares the tables of a job with every kind of row with golden files, and the formats with each other.
#include "views/tables/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "capture/model/timeline_builder_fixture.h"
#include "formats/input/read_input.h"
#include "report/fields.h"
#include "report/report.h"
#include "views/tables/csv_sink.h"
#include "views/tables/parquet_reader_fixture.h"
#include "views/tables/parquet_sink.h"
#include "views/tables/partitioned_parquet.h"
#include "views/tables/write_tables.h"

namespace lockstep::views {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kGolden = LOCKSTEP_SOURCE_DIR "/tests/golden/";
using TextGrid = std::vector<std::vector<std::optional<std::string>>>;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Parses RFC 4180 for this test: rows of fields, in which an empty field without quotes is null.
TextGrid ParseCsv(const std::string& text) {
  TextGrid rows;
  for (size_t at = 0; at < text.size();) {
    std::vector<std::optional<std::string>> row;
    for (bool more = true; more;) {
      std::optional<std::string> field;
      if (text[at] == '"') {
        field = "";
        for (++at; text[at] != '"' || text[at + 1] == '"'; ++at) {
          field->push_back(text[at]);
          if (text[at] == '"') ++at;
        }
        ++at;
      } else {
        const size_t end = text.find_first_of(",\r", at);
        if (end > at) field = text.substr(at, end - at);
        at = end;
      }
      more = text[at] == ',';
      ++at;
      row.push_back(field);
    }
    EXPECT_EQ(text[at], '\n');
    ++at;
    rows.push_back(row);
  }
  return rows;
}

// Compares with the output when the format was defined. A differing output is written to NAME.actual.
void ExpectGolden(const std::string& name, const std::string& actual) {
  const std::string path = kGolden + name;
  if (ReadFile(path) == actual) return;
  const std::string mine = fs::path(name).filename().string() + ".actual";
  std::ofstream(mine, std::ios::binary) << actual;
  ADD_FAILURE() << "differs from " << path << "; what came out is in ./" << mine;
}

class TablesTest : public ::testing::Test {
 protected:
  void Load(capture::Capture capture) {
    capture_ = std::move(capture);
    analysis_ = report::Analyze(capture_);
  }
  // Loads every statement of the timeline format: kernels, copies, sets, collectives, messages, ranges,
  // losses.
  void LoadEveryStatement() {
    const std::vector<std::string> paths = {kGolden + "timeline/every_statement_v1.timeline"};
    auto capture = formats::ReadInput(paths, {});
    ASSERT_TRUE(capture.ok()) << capture.status();
    Load(*std::move(capture));
  }
  Input input() const { return {capture_, analysis_}; }

  std::string Csv(const TableSource& source) const {
    StringSink bytes;
    CsvSink sink(source.table(), bytes);
    EXPECT_TRUE(source.Write(input(), sink).ok());
    return bytes.text();
  }
  std::string Parquet(const TableSource& source) const {
    StringSink bytes;
    ParquetSink sink(source.table(), bytes);
    EXPECT_TRUE(source.Write(input(), sink).ok());
    return bytes.text();
  }
  const TableSource& Source(const std::string& name) const {
    for (const auto& source : all_) {
      if (source->table().name == name) return *source;
    }
    throw std::out_of_range("no table " + name);
  }
  TextGrid Rows(const std::string& name) const { return ParseCsv(Csv(Source(name))); }
  // Expects that the Parquet file holds the cells of the source's CSV.
  void ExpectSameCells(const std::string& file, const TableSource& source) const {
    ExpectSameCells(file, source, source.table());
  }
  void ExpectSameCells(const std::string& file, const TableSource& source, const Table& table) const {
    const TextGrid csv = ParseCsv(Csv(source));
    std::vector<ExpectedCells> columns(table.columns.size());
    for (size_t i = 0; i < columns.size(); ++i) {
      EXPECT_EQ(csv[0].at(i), table.columns[i].name);
      for (size_t row = 1; row < csv.size(); ++row) columns[i].push_back(csv[row].at(i));
    }
    ASSERT_LE(csv.size() - 1, kBatchRows);
    ExpectParquet(file, table, columns,
                  csv.size() == 1 ? std::vector<size_t>{} : std::vector{csv.size() - 1});
  }
  // Returns the cells of a row by column name.
  static std::map<std::string, std::optional<std::string>> Named(const TextGrid& grid, size_t row) {
    std::map<std::string, std::optional<std::string>> out;
    for (size_t i = 0; i < grid.at(0).size(); ++i) out[*grid[0][i]] = grid.at(row)[i];
    return out;
  }

  capture::Capture capture_;
  report::Analysis analysis_;
  const Sources all_ = AllTables();
};

TEST_F(TablesTest, NamesAreUniqueAndHaveTheirUnit) {
  std::set<std::string_view> tables;
  for (const auto& source : all_) {
    const Table& table = source->table();
    EXPECT_TRUE(tables.insert(table.name).second) << table.name;
    EXPECT_FALSE(table.meaning.empty());
    std::set<std::string_view> columns;
    for (const Column& column : table.columns) {
      EXPECT_TRUE(columns.insert(column.name).second) << table.name << "." << column.name;
      EXPECT_FALSE(column.meaning.empty()) << table.name << "." << column.name;
      if (column.unit.empty()) continue;
      const std::string unit(column.unit);
      const bool has_unit = column.name == unit || column.name.ends_with("_" + unit) ||
                            column.name.ends_with("_" + unit + "_per_step");
      EXPECT_TRUE(has_unit) << table.name << "." << column.name << " in " << unit;
    }
  }
  EXPECT_EQ(tables.size(), 17u);
}

// A query then needs no quotes. The words are those that PostgreSQL or SQLite reserve; DuckDB's are checked
// by tests/e2e/recipes_test.py.
TEST_F(TablesTest, NamesAreNotKeywordsOfSql) {
  const std::set<std::string_view> keywords = {
      "add",      "all",         "alter",    "analyze",    "and",     "any",        "array",
      "as",       "asc",         "between",  "both",       "case",    "cast",       "check",
      "collate",  "column",      "commit",   "constraint", "create",  "default",    "deferrable",
      "delete",   "desc",        "distinct", "do",         "drop",    "else",       "end",
      "escape",   "except",      "exists",   "false",      "fetch",   "for",        "foreign",
      "from",     "grant",       "group",    "having",     "in",      "index",      "initially",
      "insert",   "intersect",   "into",     "is",         "isnull",  "join",       "lateral",
      "leading",  "limit",       "not",      "notnull",    "null",    "offset",     "on",
      "only",     "or",          "order",    "placing",    "primary", "references", "returning",
      "select",   "set",         "some",     "symmetric",  "table",   "then",       "to",
      "trailing", "transaction", "true",     "union",      "unique",  "update",     "user",
      "using",    "values",      "variadic", "when",       "where",   "window",     "with"};
  for (const auto& source : all_) {
    EXPECT_FALSE(keywords.contains(source->table().name)) << source->table().name;
    for (const Column& column : source->table().columns)
      EXPECT_FALSE(keywords.contains(column.name)) << source->table().name << "." << column.name;
  }
}

// Expects a column for every field of Row that is neither an object, a list nor an interval.
template <typename Row>
void ExpectColumnsOfFields(const Table& table) {
  report::Fields<Row>::ForEach([&]<auto get>(const report::Field<get>& field) {
    using Value = std::remove_cvref_t<std::invoke_result_t<decltype(get), const Row&>>;
    using Known = std::remove_cvref_t<decltype(std::optional(std::declval<Value>()).value())>;
    constexpr bool kIsCell = std::is_arithmetic_v<Known> || std::is_same_v<Known, Nanos> ||
                             std::is_same_v<Known, RankId> || std::is_same_v<Known, std::string>;
    const std::string name(field.name);
    // These two are not named as in the report (report_tables.cc).
    const bool renamed = field.unit == "gbps" || name == "group";
    EXPECT_TRUE(!kIsCell || renamed ||
                std::any_of(table.columns.begin(), table.columns.end(),
                            [&](const Column& c) { return c.name == name || c.name == name + "_fraction"; }))
        << table.name << " lacks " << name;
  });
}

TEST_F(TablesTest, EveryFieldOfAReportsRowIsAColumn) {
  ExpectColumnsOfFields<report::RankRow>(Source("ranks").table());
  ExpectColumnsOfFields<report::StepRow>(Source("steps").table());
  ExpectColumnsOfFields<report::StepRankRow>(Source("step_ranks").table());
  ExpectColumnsOfFields<report::BreakdownRow>(Source("step_breakdown").table());
  ExpectColumnsOfFields<report::CollectiveRow>(Source("collectives").table());
  ExpectColumnsOfFields<report::StragglerRow>(Source("stragglers").table());
  ExpectColumnsOfFields<report::LossRow>(Source("losses").table());
}

// Tables of the report are left out, because improvements of the analysis change their figures but not the
// format.
TEST_F(TablesTest, RecordedRowsEqualTheGoldenFiles) {
  LoadEveryStatement();
  const std::set<std::string_view> golden = {
      "losses",  "collective_instances", "kernels", "device_activities", "api_calls", "ranges",
      "columns", "memory_operations"};
  size_t compared = 0;
  for (const auto& source : all_) {
    if (golden.count(source->table().name) == 0) continue;
    ExpectGolden("csv/" + std::string(source->table().name) + ".csv", Csv(*source));
    ++compared;
  }
  EXPECT_EQ(compared, golden.size());
}

// The compressed bytes may differ between versions of zstd, but not the content.
TEST_F(TablesTest, AnOldParquetFileHasTheSameContents) {
  LoadEveryStatement();
  const TableSource& source = Source("device_activities");
  Table table = source.table();
  // An old file has the meanings of its version. They are texts, which may change.
  table.meaning = "";
  for (Column& column : table.columns) column.meaning = "";
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr)
    std::ofstream(kGolden + "parquet/device_activities.parquet", std::ios::binary) << Parquet(source);
  ExpectSameCells(ReadFile(kGolden + "parquet/device_activities.parquet"), source, table);
}

TEST_F(TablesTest, BothFormatsHoldTheSameCells) {
  LoadEveryStatement();
  for (const auto& source : all_) ExpectSameCells(Parquet(*source), *source);
}

TEST_F(TablesTest, CollectivesHaveWaitingTimes) {
  capture::TimelineBuilder t;
  const uint32_t dp = t.Group("dp", {0, 1});
  t.Rank(0).Kernel("gemm", 0, 100).AllReduce(dp, 100, 50, 4096);
  t.Rank(1).Kernel("gemm", 0, 140).AllReduce(dp, 140, 10, 4096);
  t.Rank(1).Communication({.group = dp, .bytes = 64}, 400, 10);
  Load(t.Build());
  const TextGrid rows = Rows("collective_instances");
  ASSERT_EQ(rows.size(), 4u);
  auto first = Named(rows, 1);
  EXPECT_EQ(first["instance"], "0");
  EXPECT_EQ(first["communicator"], "dp");
  EXPECT_EQ(first["op"], "all_reduce");
  EXPECT_EQ(first["rank"], "0");
  EXPECT_EQ(first["duration_ns"], "50000");
  EXPECT_EQ(first["wait_ns"], "40000");
  EXPECT_EQ(first["transfer_ns"], "10000");
  EXPECT_EQ(first["last"], "false");
  EXPECT_EQ(first["bytes"], "4096");
  EXPECT_EQ(first["root"], std::nullopt);
  EXPECT_EQ(Named(rows, 2)["last"], "true");
  EXPECT_EQ(Named(rows, 2)["wait_ns"], "0");
  auto sums = Named(Rows("collectives"), 1);
  EXPECT_EQ(sums["communicator"], "dp");
  EXPECT_EQ(sums["last_ranks"], "[1]");
  EXPECT_EQ(sums["last_counts"], "[1]");
  // The third one has no partner.
  EXPECT_EQ(Named(rows, 3)["wait_ns"], std::nullopt);
  EXPECT_EQ(Named(rows, 3)["complete"], "false");
}

TEST_F(TablesTest, SumsKernelsByNameInOrderOfCost) {
  capture::TimelineBuilder t;
  t.Rank(0).Kernel("small", 0, 10).Kernel("big", 20, 30).Kernel("small", 60, 5).Copy(1000, 80, 2);
  t.Rank(1).Kernel("small", 0, 10);
  Load(t.Build());
  const TextGrid rows = Rows("kernels");
  ASSERT_EQ(rows.size(), 4u) << "no copies";
  EXPECT_EQ(Named(rows, 1)["name"], "big");
  auto small = Named(rows, 2);
  EXPECT_EQ(small["rank"], "0");
  EXPECT_EQ(small["count"], "2");
  EXPECT_EQ(small["total_ns"], "15000");
  EXPECT_EQ(small["mean_ns"], "7500");
  EXPECT_EQ(small["min_ns"], "5000");
  EXPECT_EQ(small["max_ns"], "10000");
  EXPECT_EQ(Named(rows, 3)["rank"], "1");
}

TEST_F(TablesTest, MemoryOperationsHaveTheirPoolSize) {
  capture::TimelineBuilder t;
  std::vector<capture::MemoryOp>& operations = t.Rank(0).Kernel("gemm", 0, 10).data().memory_ops;
  operations.push_back({.time = capture::TimelineBuilder::At(1),
                        .address = 4096,
                        .bytes = 512,
                        .stream = StreamId(capture::kNone)});
  operations.push_back({.time = capture::TimelineBuilder::At(2),
                        .correlation = CorrelationId(9),
                        .address = 4096,
                        .bytes = 512,
                        .stream = StreamId(7),
                        .pool_bytes = 8192,
                        .pool = capture::MemoryPoolType::kOwn,
                        .release = true});
  Load(t.Build());
  const TextGrid rows = Rows("memory_operations");
  ASSERT_EQ(rows.size(), 3u);
  auto first = Named(rows, 1);
  EXPECT_EQ(first["release"], "false");
  EXPECT_EQ(first["stream"], std::nullopt);
  EXPECT_EQ(first["pool_bytes"], std::nullopt) << "of no pool";
  auto second = Named(rows, 2);
  EXPECT_EQ(second["time_ns"], std::to_string(capture::TimelineBuilder::kEpochNs + 2000));
  EXPECT_EQ(second["release"], "true");
  EXPECT_EQ(second["stream"], "7");
  EXPECT_EQ(second["correlation"], "9");
  EXPECT_EQ(second["pool_bytes"], "8192");
}

TEST_F(TablesTest, RowsOfNcclsProfilerNameTheirCollective) {
  capture::TimelineBuilder t;
  capture::RankData& rank = t.Rank(0).Kernel("gemm", 0, 10).data();
  rank.channel_timings = {{.start = capture::TimelineBuilder::At(1),
                           .end = capture::TimelineBuilder::At(4),
                           .operation = 77,
                           .channel = 3,
                           .on_gpu_clock = true}};
  rank.proxy_ops = {{.start = capture::TimelineBuilder::At(2),
                     .end = capture::TimelineBuilder::At(9),
                     .channel = 1,
                     .steps = 8,
                     .steps_seen = 6,
                     .bytes = 4096,
                     .network_wait = Nanos(2500),
                     .is_send = true}};
  rank.gpu_timer = {.offset = Nanos(-40), .spread = Nanos(15), .kernels = 12};
  Load(t.Build());
  auto channel = Named(Rows("channel_timings"), 1);
  EXPECT_EQ(channel["operation"], "77");
  EXPECT_EQ(channel["channel"], "3");
  EXPECT_EQ(channel["duration_ns"], "3000");
  EXPECT_EQ(channel["on_gpu_clock"], "true");
  auto network = Named(Rows("network_operations"), 1);
  EXPECT_EQ(network["operation"], std::nullopt);
  EXPECT_EQ(network["communicator"], std::nullopt);
  EXPECT_EQ(network["peer"], std::nullopt);
  EXPECT_EQ(network["send"], "true");
  EXPECT_EQ(network["network_wait_ns"], "2500");
  EXPECT_EQ(network["gpu_wait_ns"], "0");
  auto timer = Named(Rows("gpu_timers"), 1);
  EXPECT_EQ(timer["offset_ns"], "-40");
  EXPECT_EQ(timer["spread_ns"], "15");
  EXPECT_EQ(timer["kernels"], "12");
}

TEST_F(TablesTest, TablesOfTheReportHaveTheSameRows) {
  LoadEveryStatement();
  const report::Report& report = analysis_.report;
  EXPECT_EQ(Rows("ranks").size() - 1, report.ranks.size());
  EXPECT_EQ(Rows("steps").size() - 1, report.steps.size());
  EXPECT_EQ(Rows("step_breakdown").size() - 1, report.step_breakdown.size());
  EXPECT_EQ(Rows("collectives").size() - 1, report.collectives.size());
  EXPECT_EQ(Rows("stragglers").size() - 1, report.stragglers.size());
  EXPECT_EQ(Rows("losses").size() - 1, report.capture.losses.size());
  ASSERT_FALSE(report.ranks.empty());
  EXPECT_EQ(Named(Rows("ranks"), 1)["compute_ns"], std::to_string(report.ranks[0].compute.ns()));
}

class WriteTablesTest : public TablesTest {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-tables-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    LoadEveryStatement();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder_;
};

TEST_F(WriteTablesTest, WritesEveryTableIntoAFolderWithProgress) {
  for (const TableFormat format : {TableFormat::kCsv, TableFormat::kParquet}) {
    const std::string ending = format == TableFormat::kCsv ? ".csv" : ".parquet";
    std::vector<std::pair<uint64_t, uint64_t>> seen;
    const auto progress = [&](uint64_t done, uint64_t total) { seen.emplace_back(done, total); };
    ASSERT_TRUE(WriteTables(input(), format, folder_ + "/all", progress).ok());
    for (const auto& source : all_)
      EXPECT_TRUE(fs::exists(folder_ + "/all/" + std::string(source->table().name) + ending));
    ASSERT_FALSE(seen.empty());
    EXPECT_EQ(seen.back().first, seen.back().second);
    for (size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i].first, seen[i - 1].first);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ + "/all"), fs::directory_iterator()),
            static_cast<int>(2 * all_.size()));
}

// The files of all ranks hold together the rows of the table, each with the rank of its folder.
TEST_F(WriteTablesTest, WritesAFolderPerCaptureAndRank) {
  capture_.id = ".job 1/2";
  ASSERT_TRUE(WritePartitions(input(), folder_).ok());
  EXPECT_TRUE(fs::exists(folder_ + "/steps/capture=%2Ejob%201%2F2/data.parquet"));
  const TableSource& source = Source("collective_instances");
  Table table = source.table();
  const size_t rank_column = 7;
  ASSERT_EQ(table.columns[rank_column].name, "rank");
  table.columns.erase(table.columns.begin() + rank_column);
  const TextGrid csv = ParseCsv(Csv(source));
  std::map<std::string, std::vector<ExpectedCells>> ranks;
  for (size_t row = 1; row < csv.size(); ++row) {
    auto cells = csv[row];
    std::vector<ExpectedCells>& columns = ranks[*cells[rank_column]];
    columns.resize(table.columns.size());
    cells.erase(cells.begin() + rank_column);
    for (size_t c = 0; c < cells.size(); ++c) columns[c].push_back(cells[c]);
  }
  ASSERT_GT(ranks.size(), 1u);
  for (const auto& [rank, columns] : ranks) {
    const std::string path = "/collective_instances/capture=%2Ejob%201%2F2/rank=" + rank + "/data.parquet";
    ExpectParquet(ReadFile(folder_ + path), table, columns, {columns[0].size()});
  }
}

// With little room, the rank with the most rows is written first, as a row group of its own.
TEST_F(WriteTablesTest, PartitionsHoldFewRows) {
  const Table table = {.name = "t",
                       .meaning = "",
                       .columns = {{.name = "rank", .unit = "", .meaning = "", .type = CellType::kInt32},
                                   {.name = "number", .unit = "", .meaning = ""}}};
  PartitionedParquet sink(table, folder_, 4);
  std::vector<Cells> cells(2);
  for (const int rank : {0, 0, 1, 0, 1, 0, 0}) cells[0].Add(rank);
  for (int i = 0; i < 7; ++i) cells[1].Add(i);
  ASSERT_TRUE(sink.Append({.rows = 7, .columns = cells}).ok());
  ASSERT_TRUE(sink.Finish().ok());
  const Table of_rank = {.name = "t", .meaning = "", .columns = {table.columns[1]}};
  ExpectParquet(ReadFile(folder_ + "/rank=0/data.parquet"), of_rank, {{"0", "1", "3", "5", "6"}}, {3, 2});
  ExpectParquet(ReadFile(folder_ + "/rank=1/data.parquet"), of_rank, {{"2", "4"}}, {2});
}

TEST_F(WriteTablesTest, WritesTheTableOfTheFilesName) {
  ASSERT_TRUE(WriteTables(input(), TableFormat::kCsv, folder_ + "/kernels.csv").ok());
  EXPECT_THAT(ReadFile(folder_ + "/kernels.csv"), HasSubstr("total_ns"));
  ASSERT_TRUE(WriteTables(input(), TableFormat::kCsv, folder_ + "/ranges.csv.gz").ok());
  EXPECT_EQ(ReadFile(folder_ + "/ranges.csv.gz").substr(0, 2), "\x1F\x8B");
  ASSERT_TRUE(WriteTables(input(), TableFormat::kParquet, folder_ + "/ranks.parquet").ok());
  ExpectSameCells(ReadFile(folder_ + "/ranks.parquet"), Source("ranks"));
  const absl::Status unknown = WriteTables(input(), TableFormat::kCsv, folder_ + "/rnks.csv");
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("\"rnks\" is not a table"));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("device_activities"));
  EXPECT_FALSE(fs::exists(folder_ + "/rnks.csv"));
}

TEST_F(WriteTablesTest, ErrorsNameTheFile) {
  std::ofstream(folder_ + "/file") << "x";
  const absl::Status status = WriteTables(input(), TableFormat::kParquet, folder_ + "/file/below");
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/file/below"));
}

}  // namespace
}  // namespace lockstep::views
