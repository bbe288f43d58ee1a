#include "history/schema.h"

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "history/history_fixture.h"
#include "history/row_values.h"
#include "history/tables.h"

namespace lockstep::history {
namespace {

using ::testing::HasSubstr;

// Compares with a file of this repository, or writes it with LOCKSTEP_UPDATE_GOLDEN.
void ExpectFile(const std::string& path, const std::string& text) {
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  EXPECT_EQ(FileText(path).value_or(""), text) << path << ": LOCKSTEP_UPDATE_GOLDEN=1 writes it";
}

class SchemaTest : public HistoryTest {};

TEST_F(SchemaTest, TheTablesAreThoseOfTheGoldenFile) {
  // The statements are the same for both engines, so one golden file shows them.
  if (on_server_) GTEST_SKIP() << "SQLite keeps the text of the statements, PostgreSQL does not";
  const std::unique_ptr<Database> database = Opened();
  ASSERT_TRUE(PrepareSchema(*database, Purpose::kWrite, FixedClock()).ok());
  const auto rows = database->Run("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid", {});
  std::string text;
  for (const Row& row : *rows) absl::StrAppend(&text, TextIn(row, 0), ";\n");
  ExpectFile(absl::StrCat(LOCKSTEP_GOLDEN_DIR, "/history/schema_v", Migrations().back().version, ".sql"),
             text);
}

TEST_F(SchemaTest, TheTablesHaveTheColumnsOfTheirDescription) {
  const std::unique_ptr<Database> database = Opened();
  ASSERT_TRUE(PrepareSchema(*database, Purpose::kWrite, FixedClock()).ok());
  for (const HistoryTable& table : HistoryTables()) {
    const auto rows = database->Run(
        on_server_
            ? "SELECT column_name::text, data_type::text, CASE is_nullable WHEN 'NO' THEN 1 ELSE 0 END FROM "
              "information_schema.columns WHERE table_schema = 'lockstep' AND table_name = $1 ORDER BY "
              "ordinal_position"
            : "SELECT name, lower(type), \"notnull\" OR pk > 0 FROM pragma_table_info($1)",
        {std::string(table.name)});
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(rows->size(), table.columns.size()) << table.name;
    for (size_t i = 0; i < rows->size(); ++i) {
      const TableColumn& column = table.columns[i];
      const char* type = column.type == ColumnType::kText    ? "text"
                         : column.type == ColumnType::kWhole ? "bigint"
                                                             : "double precision";
      EXPECT_EQ(TextIn((*rows)[i], 0), column.name) << table.name;
      EXPECT_EQ(TextIn((*rows)[i], 1), type) << table.name << "." << column.name;
      EXPECT_EQ(WholeIn((*rows)[i], 2) != 0, column.null == ColumnNull::kNever)
          << table.name << "." << column.name;
    }
  }
}

TEST_F(SchemaTest, ThePageOfTheTablesIsWrittenFromTheirDescription) {
  std::string page =
      "# Tables of a history\n\nA test writes this page from `history/tables.cc`: `LOCKSTEP_UPDATE_GOLDEN=1 "
      "./dev one "
      "schema_test.cc`.\n[history.md](history.md) explains the tables. Types are those of PostgreSQL. A "
      "column that may be null is "
      "null if the value is unknown.\n";
  for (const HistoryTable& table : HistoryTables()) {
    absl::StrAppend(&page, "\n## ", table.name, "\n\nThe table has ", table.meaning,
                    ".\n\n| column | type | unit | meaning |\n|---|---|---|---|\n");
    for (const TableColumn& column : table.columns) {
      absl::StrAppend(&page, "| `", column.name, "` | ",
                      column.type == ColumnType::kText    ? "TEXT"
                      : column.type == ColumnType::kWhole ? "BIGINT"
                                                          : "DOUBLE PRECISION",
                      column.null == ColumnNull::kUnknown ? " or null" : "", " | ", column.unit, " | ",
                      column.meaning, " |\n");
    }
  }
  ExpectFile(absl::StrCat(LOCKSTEP_SOURCE_DIR, "/docs/formats/history-tables.md"), page);
}

TEST_F(SchemaTest, MigrationsAreAppliedOnceAndInOrder) {
  const std::unique_ptr<Database> database = Opened();
  std::vector<Migration> migrations = {{1, {"CREATE TABLE one (a BIGINT)"}}};
  ASSERT_TRUE(PrepareSchema(*database, Purpose::kWrite, FixedClock(), migrations).ok());
  migrations.push_back({2, {"ALTER TABLE one ADD COLUMN b TEXT", "INSERT INTO one (a, b) VALUES (1, 'x')"}});
  EXPECT_EQ(PrepareSchema(*database, Purpose::kRead, FixedClock(), migrations).code(),
            absl::StatusCode::kFailedPrecondition);
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(PrepareSchema(*database, Purpose::kWrite, FixedClock(), migrations).ok());
  EXPECT_EQ(database->Run("SELECT b FROM one", {})->size(), 1u);
  EXPECT_EQ(database->Run("SELECT version FROM schema_versions", {})->size(), 2u);
  EXPECT_TRUE(PrepareSchema(*database, Purpose::kRead, FixedClock(), migrations).ok());
}

TEST_F(SchemaTest, AMigrationThatFailsLeavesTheOldVersion) {
  const std::unique_ptr<Database> database = Opened();
  std::vector<Migration> migrations = {{1, {"CREATE TABLE one (a BIGINT)"}}};
  ASSERT_TRUE(PrepareSchema(*database, Purpose::kWrite, FixedClock(), migrations).ok());
  migrations.push_back({2, {"CREATE TABLE two (a BIGINT)", "this is not SQL"}});
  EXPECT_FALSE(PrepareSchema(*database, Purpose::kWrite, FixedClock(), migrations).ok());
  migrations.pop_back();
  EXPECT_TRUE(PrepareSchema(*database, Purpose::kRead, FixedClock(), migrations).ok());
  EXPECT_THAT(*database->Tables(), ::testing::ElementsAre("one", "schema_versions"));
}

TEST_F(SchemaTest, ANewerVersionIsRefusedByNumber) {
  const std::unique_ptr<Database> database = Opened();
  ASSERT_TRUE(PrepareSchema(*database, Purpose::kWrite, FixedClock()).ok());
  ASSERT_TRUE(
      database->Run("INSERT INTO schema_versions (version, applied_unix_ns) VALUES (99, 0)", {}).ok());
  for (const Purpose purpose : {Purpose::kRead, Purpose::kWrite}) {
    const absl::Status status = PrepareSchema(*database, purpose, FixedClock());
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("version 99"));
  }
}

TEST_F(SchemaTest, TablesOfAnotherProgramAreRefused) {
  const std::unique_ptr<Database> database = Opened();
  ASSERT_TRUE(database->Run("CREATE TABLE bookmarks (a BIGINT)", {}).ok());
  const absl::Status status = PrepareSchema(*database, Purpose::kWrite, FixedClock());
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bookmarks"));
}

}  // namespace
}  // namespace lockstep::history
