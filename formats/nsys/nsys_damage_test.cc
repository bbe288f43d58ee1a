// Reads damaged and hostile databases: all readable rows are read, and the others are counted by table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include "formats/nsys/nsys_capture.h"
#include "formats/nsys/nsys_reader.h"
#include "formats/nsys/nsys_text.h"
#include "formats/nsys/table_scan.h"

namespace lockstep::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kKernels = 20000;
constexpr size_t kPage = 4096;

std::string KernelsImage() {
  std::string sql = CreateNsysTable("StringIds") + "INSERT INTO StringIds VALUES(1,'gemm');" +
                    CreateNsysTable("TARGET_INFO_SESSION_START_TIME") +
                    "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(1700000000000000000,'','',0);" +
                    CreateNsysTable("CUPTI_ACTIVITY_KIND_KERNEL") +
                    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < " +
                    std::to_string(kKernels - 1) +
                    ") INSERT INTO "
                    "CUPTI_ACTIVITY_KIND_KERNEL(start,end,deviceId,contextId,streamId,correlationId,"
                    "globalPid,demangledName,shortName,"
                    "registersPerThread,gridX,gridY,gridZ,blockX,blockY,blockZ,staticSharedMemory,"
                    "dynamicSharedMemory,localMemoryPerThread,"
                    "localMemoryTotal,gridId,tensorSizeMinusOneElements) SELECT "
                    "i*10,i*10+5,0,1,7,i,281474976710656,1,1,32,1,1,1,1,1,1,0,0,0,0,0,'[]' FROM n;";
  return SqliteImage(sql);
}

NsysFile ReadNsys(std::string image) {
  auto database = SqliteDatabase::OpenImage(std::move(image));
  EXPECT_TRUE(database.ok()) << database.status();
  return database.ok() ? ReadNsys(*database, nullptr) : NsysFile();
}

uint64_t KernelsOf(const NsysFile& file) {
  uint64_t kernels = 0;
  for (const auto& [pid, process] : file.processes) {
    for (const NsysDevice& device : process.devices) kernels += device.activities.size();
  }
  return kernels;
}

TEST(NsysDamage, CountsRowsOnADamagedPageExactly) {
  const std::string whole = KernelsImage();
  ASSERT_EQ(KernelsOf(ReadNsys(whole)), static_cast<uint64_t>(kKernels));
  // The kernels' table takes nearly all pages of the file after the first few.
  for (const size_t page : {40u, 41u, 150u}) {
    std::string damaged = whole;
    damaged[page * kPage] = '\x7F';  // not a valid type of page
    const NsysFile file = ReadNsys(damaged);
    const uint64_t read = KernelsOf(file);
    EXPECT_LT(read, static_cast<uint64_t>(kKernels));
    EXPECT_GT(read, static_cast<uint64_t>(kKernels) - 200);
    EXPECT_EQ(read + file.losses.rows(), static_cast<uint64_t>(kKernels)) << file.losses.Describe();
    EXPECT_THAT(file.losses.Describe(), HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL"));
    EXPECT_THAT(file.losses.Describe(), HasSubstr("damaged"));
  }
}

TEST(NsysDamage, ReadsATruncatedFileUpToTheCut) {
  const std::string whole = KernelsImage();
  const NsysFile file = ReadNsys(whole.substr(0, whole.size() / 2));
  EXPECT_GT(KernelsOf(file), static_cast<uint64_t>(kKernels) / 3);
  EXPECT_LT(KernelsOf(file), static_cast<uint64_t>(kKernels));
  EXPECT_THAT(file.damage, HasSubstr("cut off"));
  EXPECT_THAT(file.losses.Describe(), AllOf(HasSubstr("at least"), HasSubstr("damaged from row")));
  std::vector<ReadNsysFile> files;
  files.push_back({{.path = "cut.sqlite", .named = true}, ReadNsys(whole.substr(0, whole.size() / 2))});
  const auto capture = JoinNsysFiles(std::move(files));
  ASSERT_TRUE(capture.ok()) << capture.status();
  ASSERT_EQ(capture->ranks.size(), 1u);
  EXPECT_EQ(capture->ranks[0].losses.size(), 2u);
  EXPECT_EQ(capture->ranks[0].losses[0].stage, "import");
}

TEST(NsysDamage, TruncationAnywhereDoesNotCrash) {
  const std::string whole = KernelsImage();
  for (size_t length = 1; length < whole.size(); length += whole.size() / 61) {
    auto database = SqliteDatabase::OpenImage(whole.substr(0, length));
    if (!database.ok()) continue;
    EXPECT_LE(KernelsOf(ReadNsys(*database, nullptr)), static_cast<uint64_t>(kKernels));
  }
}

TEST(NsysDamage, RandomBytesDoNotCrash) {
  const std::string whole = KernelsImage();
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 200; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    std::memcpy(damaged.data(), whole.data(), kSqliteMagicBytes);
    auto database = SqliteDatabase::OpenImage(damaged);
    if (!database.ok()) continue;
    const NsysFile file = ReadNsys(*database, nullptr);
    EXPECT_LE(KernelsOf(file), 2u * kKernels);
  }
}

// SQLite does not enforce a column's type: any cell may hold any value.
TEST(NsysDamage, CellsOfAnotherTypeLoseTheirRow) {
  const std::string table =
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, streamId, correlationId, globalPid, "
      "demangledName, gridX, blockX, registersPerThread);";
  const NsysFile file =
      ReadNsys(SqliteImage(
          table + "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
                  "VALUES('soon',2,0,7,1,0,1,1,1,1),(1,2,'first',7,1,0,1,1,1,1),(5,4,0,7,1,0,1,1,1,1),"
                  "(1,2,0,7,1,0,1,99999999999,1,1),(1,x'00',0,7,1,0,1,1,1,1),(NULL,2,0,7,1,0,1,1,1,1),("
                  "1,9223372036854775807,0,7,1,0,1,1,1,1),"
                  "(1,2,0,7,1,0,1.5,1,1,1),(1,2,0,7,NULL,NULL,NULL,1,1,1);"));
  EXPECT_EQ(KernelsOf(file), 1u);
  EXPECT_EQ(file.losses.tables().at("CUPTI_ACTIVITY_KIND_KERNEL").rows, 8u) << file.losses.Describe();
  EXPECT_THAT(file.losses.Describe(), HasSubstr("start of row 1 is not an integer"));
}

// The reader ignores parts of a database that could run code or never end.
TEST(NsysDamage, IgnoresViewsAndComputedColumns) {
  const NsysFile file = ReadNsys(
      SqliteImage("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(start) AS (SELECT 1 UNION "
                  "ALL SELECT start FROM n) SELECT start, start "
                  "AS end, 0 AS deviceId FROM n;"
                  "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, deviceId INTEGER, end INTEGER "
                  "GENERATED ALWAYS AS (start + 1));"
                  "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY(start, deviceId) VALUES(1, 0);"));
  EXPECT_EQ(KernelsOf(file), 0u);
  EXPECT_THAT(file.losses.Describe(), HasSubstr("CUPTI_ACTIVITY_KIND_MEMCPY: 1 row (it has no column end)"));
}

TEST(NsysDamage, ReportsAFileThatIsNotADatabase) {
  const auto text = SqliteDatabase::OpenImage(std::string("SQLite format 3") + '\0' + std::string(9000, 'x'));
  EXPECT_FALSE(text.ok());
}

TEST(NsysDamage, ReadsStringsWithoutAKeyOnce) {
  const NsysFile file = ReadNsys(SqliteImage(
      "CREATE TABLE StringIds(id INTEGER, value TEXT); INSERT INTO StringIds VALUES(1,'gemm'),(2,'copy');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, demangledName);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1,2,0,2);"));
  ASSERT_EQ(KernelsOf(file), 1u);
  EXPECT_EQ(file.strings.Text(file.processes.begin()->second.devices[0].activities[0].name), "copy");
  EXPECT_THAT(file.losses.tables(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::formats
