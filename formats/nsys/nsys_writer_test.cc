#include "formats/nsys/nsys_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "capture/align/clock_model.h"
#include "formats/common/byte_source.h"
#include "formats/input/read_input.h"
#include "formats/nsys/nsys_text.h"
#include "formats/nsys/sqlite_writer.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using capture::ActivityKind;
using capture::CollectiveOp;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kStart = 1790000000000000000;
// Offset from the clock of each rank's host to the job's clock.
constexpr Nanos kShifts[] = {Nanos(0), Nanos(-2500)};
using Rows = std::vector<std::vector<std::string>>;

// Runs a query and returns its cells as text.
Rows Query(const std::string& path, const std::string& sql) {
  sqlite3* opened = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK) << path;
  const SqliteHandle database(opened);
  auto statement = PrepareSqlite(opened, sql);
  EXPECT_TRUE(statement.ok()) << sql << ": " << statement.status();
  if (!statement.ok()) return {};
  Rows rows;
  while (sqlite3_step(statement->get()) == SQLITE_ROW) {
    auto& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement->get()); ++i) {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement->get(), i));
      row.emplace_back(text == nullptr ? "NULL" : text);
    }
  }
  return rows;
}

// Returns the whole database as SQL that creates it again.
std::string Dump(const std::string& path) {
  std::string out;
  for (const auto& table : Query(path, "SELECT name, sql FROM sqlite_schema WHERE type = 'table'")) {
    out += table[1] + ";\n";
    std::string cells;
    for (const auto& column : Query(path, "SELECT name FROM pragma_table_info('" + table[0] + "')")) {
      cells += (cells.empty() ? "" : " || ',' || ") + ("quote(" + SqlName(column[0]) + ")");
    }
    for (const auto& row : Query(path, "SELECT " + cells + " FROM " + SqlName(table[0])))
      out += "INSERT INTO " + table[0] + " VALUES(" + row[0] + ");\n";
  }
  return out;
}

// Two ranks on two hosts whose clocks differ, with rows for every table.
class NsysWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("nsys_writer_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    capture_.hosts = {{.id = "boot-a", .name = "node-a"}, {.id = "boot-b", .name = "node-b"}};
    capture_.groups = {
        {.key = "00000000000000ab", .name = "dp", .members = {RankId(1), RankId(0)}, .size = 2}};
    for (int32_t i = 0; i < 2; ++i) Fill(i);
    capture::Finish(capture_);
    clock_ = capture::ClockModel({{.offset = -kShifts[0]}, {.offset = -kShifts[1]}});
  }
  void TearDown() override { fs::remove_all(folder_); }

  NameId Name(const char* text) { return capture_.strings.Intern(text); }

  void Fill(int32_t index) {
    capture::RankData& r = capture_.ranks.emplace_back();
    r.rank = RankId(index);
    r.host = static_cast<uint32_t>(index);
    r.device = DeviceId(static_cast<uint32_t>(index));
    r.pid = 100 + index;
    r.program = "train.py";
    r.window = {HostTime(kStart), HostTime(kStart + 1000000)};
    r.properties = {.name = "NVIDIA H100",
                    .uuid = "GPU-1",
                    .sms = 132,
                    .compute_major = 9,
                    .compute_minor = 0,
                    .max_threads_per_sm = 2048,
                    .registers_per_sm = 65536,
                    .shared_bytes_per_sm = 233472,
                    .memory_bytes = 80ull << 30,
                    .memory_bytes_per_s = 3000000000000,
                    .l2_bytes = 50 << 20,
                    .clock_khz = 1980000};
    r.contexts = {{.context = ContextId(1), .device = r.device, .null_stream = StreamId(7)}};
    r.streams = {{.context = ContextId(1),
                  .stream = StreamId(20),
                  .priority = -5,
                  .type = capture::StreamType::kNonBlocking}};
    r.has_properties = true;
    FillDevice(r);
    FillHost(r);
  }

  void FillDevice(capture::RankData& r) {
    const NameId gemm = Name("void ns::gemm<128, 4>(float*, int)");
    const NameId nccl = Name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    r.kernel_details = {{.grid = {70000, 2, 3},
                         .block = {1024, 1, 1},
                         .registers = 255,
                         .static_shared_bytes = 4096,
                         .dynamic_shared_bytes = 5,
                         .context = ContextId(1)},
                        {.grid = {8, 1, 1}, .block = {640, 1, 1}, .graph = 7, .graph_node = ~0ull}};
    r.copy_details = {
        {.bytes = 1ull << 33, .context = ContextId(1), .copy_kind = 1, .src_kind = 2, .dst_kind = 3},
        {.bytes = 64, .dst_kind = 3}};
    const auto at = [](int64_t us) { return HostTime(kStart + us * 1000); };
    r.activities = {
        {.start = at(1),
         .end = at(5),
         .name = gemm,
         .stream = StreamId(7),
         .correlation = CorrelationId(11),
         .detail = 0},
        {.start = at(4), .end = at(9), .name = gemm, .stream = StreamId(7), .correlation = CorrelationId(12)},
        {.start = at(6), .end = at(6), .stream = StreamId(7), .detail = 1, .kind = ActivityKind::kMemset},
        {.start = at(7),
         .end = at(8),
         .stream = StreamId(9),
         .correlation = CorrelationId(14),
         .detail = 0,
         .kind = ActivityKind::kMemcpy},
        {.start = at(10),
         .end = at(30),
         .name = nccl,
         .stream = StreamId(20),
         .correlation = CorrelationId(15),
         .detail = 1,
         .collective = 0}};
    r.collectives = {{.activity = 4,
                      .group = 0,
                      .op = CollectiveOp::kAllReduce,
                      .source = capture::MatchSource::kNcclSequence,
                      .sequence = 41,
                      .bytes = 4096,
                      .datatype = Name("ncclFloat32"),
                      .reduction = Name("Sum"),
                      .operation = 5}};
  }

  void FillHost(capture::RankData& r) {
    const auto at = [](int64_t us) { return HostTime(kStart + us * 1000); };
    r.api_calls = {{.start = at(0),
                    .end = at(1),
                    .name = Name("cudaLaunchKernel"),
                    .correlation = CorrelationId(11),
                    .thread = ThreadId(200)},
                   {.start = at(2),
                    .end = at(3),
                    .name = Name("cuLaunchKernel"),
                    .correlation = CorrelationId(15),
                    .thread = ThreadId(-3),
                    .driver = true}};
    r.syncs = {{.start = at(3),
                .end = at(40),
                .correlation = CorrelationId(16),
                .stream = StreamId(capture::kNone),
                .type = capture::SyncType::kContext}};
    r.event_records = {{CorrelationId(17), StreamId(7), 12}};
    r.ranges = {{.start = at(0), .end = at(50), .name = Name("step 41"), .thread = ThreadId(200)},
                {.start = at(2),
                 .end = at(3),
                 .name = Name("ncclAllReduce"),
                 .domain = Name("NCCL"),
                 .thread = ThreadId(-3)},
                {.start = at(60),
                 .end = r.window.end,
                 .name = Name("step 42"),
                 .thread = ThreadId(200),
                 .end_unknown = true}};
    r.thread_names = {{ThreadId(-3), Name("autograd")}};
  }

  std::string Export(const capture::Capture& capture) {
    std::string path = (folder_ / "job.sqlite").string();
    const absl::Status written = WriteNsysSqlite(capture, clock_, path);
    EXPECT_TRUE(written.ok()) << written;
    return path;
  }
  static capture::Capture Read(const std::string& path) {
    auto capture = ReadInput(std::vector<std::string>{path}, {});
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? std::move(*capture) : capture::Capture();
  }

  fs::path folder_;
  capture::Capture capture_;
  capture::ClockModel clock_;
};

// Expects that `y` has the rows of `x`, read back from an export: on the job's clock, which is `shift` from
// the host's clock.
void ExpectRowsOf(const capture::Capture& a, const capture::RankData& x, Nanos shift,
                  const capture::Capture& b, const capture::RankData& y) {
  ASSERT_EQ(x.activities.size(), y.activities.size());
  for (size_t i = 0; i < x.activities.size(); ++i) {
    const capture::DeviceActivity &p = x.activities[i], &q = y.activities[i];
    EXPECT_EQ(std::tuple(p.start + shift, p.end + shift, p.stream, p.correlation, p.kind, p.communication),
              std::tuple(q.start, q.end, q.stream, q.correlation, q.kind, q.communication));
    EXPECT_EQ(a.Text(p.name), b.Text(q.name));
    EXPECT_EQ(p.detail == capture::kNone, q.detail == capture::kNone);
  }
  ASSERT_EQ(x.api_calls.size(), y.api_calls.size());
  for (size_t i = 0; i < x.api_calls.size(); ++i) {
    const capture::ApiCall &p = x.api_calls[i], &q = y.api_calls[i];
    EXPECT_EQ(std::tuple(p.start + shift, p.end + shift, p.correlation, p.driver),
              std::tuple(q.start, q.end, q.correlation, q.driver));
    EXPECT_EQ(a.Text(p.name), b.Text(q.name));
  }
  ASSERT_EQ(x.ranges.size(), y.ranges.size());
  for (size_t i = 0; i < x.ranges.size(); ++i) {
    const capture::HostRange &p = x.ranges[i], &q = y.ranges[i];
    EXPECT_EQ(std::tuple(p.start + shift, p.kind, p.end_unknown), std::tuple(q.start, q.kind, q.end_unknown));
    EXPECT_TRUE(p.end_unknown || p.end + shift == q.end) << a.Text(p.name);
    EXPECT_EQ(a.Text(p.name), b.Text(q.name));
    EXPECT_EQ(a.Text(p.domain), b.Text(q.domain));
  }
  ASSERT_EQ(x.syncs.size(), y.syncs.size());
  for (size_t i = 0; i < x.syncs.size(); ++i) {
    const capture::Sync &p = x.syncs[i], &q = y.syncs[i];
    EXPECT_EQ(std::tuple(p.start + shift, p.end + shift, p.correlation, p.stream, p.event, p.type),
              std::tuple(q.start, q.end, q.correlation, q.stream, q.event, q.type));
  }
  ASSERT_EQ(x.event_records.size(), y.event_records.size());
  for (size_t i = 0; i < x.event_records.size(); ++i)
    EXPECT_EQ(x.event_records[i].event, y.event_records[i].event);
}

void ExpectSameDevice(const capture::RankData& x, const capture::RankData& y) {
  EXPECT_EQ(std::tuple(x.rank, x.host, x.device, x.pid, x.program),
            std::tuple(y.rank, y.host, y.device, y.pid, y.program));
  const capture::DeviceProperties &p = x.properties, &q = y.properties;
  EXPECT_EQ(x.has_properties, y.has_properties);
  EXPECT_EQ(std::tuple(p.name, p.sms, p.compute_major, p.compute_minor, p.max_threads_per_sm,
                       p.registers_per_sm, p.shared_bytes_per_sm, p.memory_bytes, p.uuid,
                       p.memory_bytes_per_s, p.l2_bytes, p.clock_khz),
            std::tuple(q.name, q.sms, q.compute_major, q.compute_minor, q.max_threads_per_sm,
                       q.registers_per_sm, q.shared_bytes_per_sm, q.memory_bytes, q.uuid,
                       q.memory_bytes_per_s, q.l2_bytes, q.clock_khz));
}

TEST_F(NsysWriterTest, TheExportReadsBack) {
  const capture::Capture read = Read(Export(capture_));
  EXPECT_FALSE(read.live);
  ASSERT_EQ(read.hosts.size(), 2u);
  EXPECT_EQ(read.hosts[1].name, "node-b");
  ASSERT_EQ(read.ranks.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    ExpectSameDevice(capture_.ranks[i], read.ranks[i]);
    ExpectRowsOf(capture_, capture_.ranks[i], kShifts[i], read, read.ranks[i]);
    EXPECT_EQ(read.ranks[i].rank_source, "position");
    EXPECT_THAT(read.ranks[i].losses, IsEmpty());
  }
  const capture::RankData& r = read.ranks[1];
  const capture::KernelDetail& first = r.kernel_details.at(r.activities[0].detail);
  EXPECT_EQ(std::tuple(first.grid[0], first.block[0], first.registers, first.dynamic_shared_bytes),
            std::tuple(70000u, 1024u, 255u, 5u));
  const capture::KernelDetail& last = r.kernel_details.at(r.activities[4].detail);
  EXPECT_EQ(std::tuple(last.graph, last.graph_node), std::tuple(7u, ~0ull));
  const capture::CopyDetail& copy = r.copy_details.at(r.activities[3].detail);
  EXPECT_EQ(std::tuple(copy.bytes, copy.copy_kind, copy.src_kind, copy.dst_kind),
            std::tuple(1ull << 33, 1, 2, 3));
  // The kernel's name gives the operation. No table has its communicator or bytes.
  ASSERT_EQ(r.collectives.size(), 1u);
  EXPECT_EQ(std::tuple(r.collectives[0].activity, r.collectives[0].op, r.collectives[0].bytes),
            std::tuple(4u, CollectiveOp::kAllReduce, -1));
  // A thread number that does not fit is replaced by the same number in every table.
  ASSERT_EQ(r.thread_names.size(), 1u);
  EXPECT_EQ(r.thread_names[0].thread, r.api_calls[1].thread);
  EXPECT_EQ(r.thread_names[0].thread, r.ranges[1].thread);
  EXPECT_EQ(r.api_calls[0].thread, ThreadId(200));
}

TEST_F(NsysWriterTest, LeavesOutRangesThatBeganBeforeTheWindow) {
  capture_.ranks[0].ranges[0].start_unknown = true;
  const capture::Capture read = Read(Export(capture_));
  ASSERT_EQ(read.ranks.size(), 2u);
  EXPECT_EQ(read.ranks[0].ranges.size(), capture_.ranks[0].ranges.size() - 1);
  EXPECT_EQ(read.ranks[1].ranges.size(), capture_.ranks[1].ranges.size());
}

TEST_F(NsysWriterTest, WritesTheGoldenFile) {
  const fs::path golden = fs::path(LOCKSTEP_SOURCE_DIR) / "tests/golden/nsys/export_v1.sql";
  std::ifstream in(golden);
  std::ostringstream expected;
  expected << in.rdbuf();
  const std::string actual = Dump(Export(capture_));
  if (actual != expected.str()) {
    const std::string kept = (fs::path(testing::TempDir()) / "export_v1.sql.actual").string();
    std::ofstream(kept) << actual;
    FAIL() << "the export differs from " << golden << "; the new one is in " << kept;
  }
  // The golden file can be read.
  std::ofstream((folder_ / "golden.sqlite").string(), std::ios::binary) << SqliteImage(expected.str());
  const capture::Capture read = Read((folder_ / "golden.sqlite").string());
  ASSERT_EQ(read.ranks.size(), 2u);
  ExpectRowsOf(capture_, capture_.ranks[1], kShifts[1], read, read.ranks[1]);
}

TEST_F(NsysWriterTest, ColumnsEqualThoseOfNsightSystems) {
  const fs::path real =
      fs::path(LOCKSTEP_SOURCE_DIR) / "../shared/traces/nsys_h100_2gpu/mfu_2gpu_before.sqlite.gz";
  if (!fs::exists(real)) GTEST_SKIP() << "not tested: " << real << " is not there";
  auto source = OpenTrace(real.string());
  ASSERT_TRUE(source.ok());
  const std::string path = (folder_ / "real.sqlite").string();
  std::ofstream out(path, std::ios::binary);
  std::vector<char> block(1 << 20);
  while (const size_t n = source->source->Read(block))
    out.write(block.data(), static_cast<std::streamsize>(n));
  out.close();
  const std::string ours = Export(capture_);
  int compared = 0;
  for (const auto& table : Query(ours, "SELECT name FROM sqlite_schema WHERE type = 'table'")) {
    const std::string columns =
        "SELECT name, type, \"notnull\", pk FROM pragma_table_info('" + table[0] + "')";
    const Rows theirs = Query(path, columns);
    if (theirs.empty()) continue;
    EXPECT_EQ(Query(ours, columns), theirs) << table[0];
    ++compared;
    if (!table[0].starts_with("ENUM_")) continue;
    const std::string rows = "SELECT * FROM " + table[0] + " ORDER BY id";
    for (const auto& row : Query(ours, rows))
      EXPECT_THAT(Query(path, rows), ::testing::Contains(row)) << table[0];
  }
  EXPECT_EQ(compared, 22);
}

// Typical queries of users: sums by kernel, copies, gaps on a device, calls, NCCL's ranges, launches.
TEST_F(NsysWriterTest, CommonQueriesWork) {
  const std::string path = Export(capture_);
  EXPECT_EQ(Query(path,
                  "SELECT s.value, COUNT(*), SUM(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
                  "StringIds s ON k.shortName = s.id "
                  "GROUP BY 1 ORDER BY 1"),
            (Rows{{"gemm", "4", "18000"}, {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "2", "40000"}}));
  EXPECT_EQ(Query(path,
                  "SELECT o.label, SUM(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN ENUM_CUDA_MEMCPY_OPER o "
                  "ON o.id = m.copyKind GROUP BY 1"),
            (Rows{{"Host-to-Device", "17179869184"}}));
  EXPECT_EQ(Query(path,
                  "SELECT src.label, dst.label FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN ENUM_CUDA_MEM_KIND src "
                  "ON src.id = m.srcKind JOIN "
                  "ENUM_CUDA_MEM_KIND dst ON dst.id = m.dstKind LIMIT 1"),
            (Rows{{"Pinned", "Device"}}));
  EXPECT_EQ(Query(path,
                  "WITH k AS (SELECT deviceId, start, end, MAX(end) OVER (PARTITION BY globalPid, deviceId "
                  "ORDER BY start ROWS BETWEEN UNBOUNDED "
                  "PRECEDING AND 1 PRECEDING) AS busy FROM CUPTI_ACTIVITY_KIND_KERNEL) SELECT deviceId, "
                  "SUM(start - busy) FROM k WHERE start > busy "
                  "GROUP BY 1"),
            (Rows{{"0", "1000"}, {"1", "1000"}}));
  EXPECT_EQ(Query(path,
                  "SELECT (n.globalTid >> 24) & 0xFFFFFF, COALESCE(n.text, s.value), d.text FROM NVTX_EVENTS "
                  "n LEFT JOIN StringIds s ON n.textId = s.id "
                  "JOIN NVTX_EVENTS d ON d.eventType = 75 AND d.domainId = n.domainId AND d.globalTid / "
                  "0x1000000 = n.globalTid / 0x1000000 "
                  "WHERE n.eventType = 59 ORDER BY 1"),
            (Rows{{"100", "ncclAllReduce", "NCCL"}, {"101", "ncclAllReduce", "NCCL"}}));
  EXPECT_EQ(Query(path,
                  "SELECT r.start, k.start, api.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
                  "CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = "
                  "k.correlationId AND r.globalTid / 0x1000000 = k.globalPid / 0x1000000 JOIN StringIds api "
                  "ON api.id = r.nameId WHERE k.deviceId = 0 "
                  "ORDER BY 1"),
            (Rows{{"2500", "3500", "cudaLaunchKernel"}, {"4500", "12500", "cuLaunchKernel"}}));
  // Both ranks have the correlations 11 and 15.
  EXPECT_EQ(Query(path,
                  "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON "
                  "r.correlationId = k.correlationId"),
            (Rows{{"4"}}));
  EXPECT_EQ(Query(path,
                  "SELECT g.name, d.pid FROM TARGET_INFO_GPU g JOIN TARGET_INFO_CUDA_DEVICE d ON d.gpuId = "
                  "g.id ORDER BY 2"),
            (Rows{{"NVIDIA H100", "100"}, {"NVIDIA H100", "101"}}));
  EXPECT_EQ(Query(path, "SELECT utcEpochNs, utcTime FROM TARGET_INFO_SESSION_START_TIME"),
            (Rows{{"1789999999999997500", "2026-09-21T14:13:19"}}));
}

// Host b's clock is 2.5 us ahead, so on the job's clock its rank is 2.5 us earlier.
TEST_F(NsysWriterTest, AllRanksUseTheJobClock) {
  EXPECT_EQ(Query(Export(capture_), "SELECT deviceId, MIN(start) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1"),
            (Rows{{"0", "3500"}, {"1", "1000"}}));
}

// Processes of different containers may have the same pid, and a process may use several devices.
TEST_F(NsysWriterTest, SeparatesProcesses) {
  capture_.ranks[1].host = 0;
  capture_.ranks[1].pid = capture_.ranks[0].pid;
  capture::RankData second_device = capture_.ranks[0];
  second_device.device = DeviceId(5);
  capture_.ranks.push_back(second_device);
  capture::Finish(capture_);
  const std::string path = Export(capture_);
  EXPECT_EQ(Query(path,
                  "SELECT COUNT(DISTINCT globalPid), COUNT(DISTINCT globalPid || ' ' || deviceId) FROM "
                  "CUPTI_ACTIVITY_KIND_KERNEL"),
            (Rows{{"2", "3"}}));
  const capture::Capture read = Read(path);
  ASSERT_EQ(read.ranks.size(), 3u);
  EXPECT_EQ(std::tuple(read.ranks[1].rank, read.ranks[1].device), std::tuple(RankId(0), DeviceId(5)));
  EXPECT_EQ(read.ranks[2].rank, RankId(1));
  for (const capture::RankData& r : read.ranks) EXPECT_EQ(r.ranges.size(), 3u);
}

TEST_F(NsysWriterTest, ErrorsNameTheFile) {
  const absl::Status s =
      WriteNsysSqlite(capture_, clock_, (folder_ / "no_such_folder" / "x.sqlite").string());
  EXPECT_THAT(std::string(s.message()), HasSubstr("no_such_folder/x.sqlite.partial"));
  const std::string path = Export(capture_);
  EXPECT_FALSE(fs::exists(path + ".partial"));
}

TEST(SqliteWriterTest, KeepsTheFirstError) {
  const std::string path =
      (fs::path(testing::TempDir()) / ("sqlite_writer_" + std::to_string(::getpid()))).string();
  auto writer = SqliteWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  writer->Execute("CREATE TABLE t (a INTEGER NOT NULL)");
  SqliteInsert(*writer, "t", {"a"}).Row(std::optional<int64_t>());
  SqliteInsert(*writer, "t", {"a"}).Row(1);
  EXPECT_THAT(std::string(writer->Finish().message()), HasSubstr("NOT NULL"));
  EXPECT_FALSE(fs::exists(path));
  fs::remove(path + ".partial");
}

TEST(ShortKernelName, IsTheNameBeforeTheParameters) {
  for (const auto& [name, expected] : std::vector<std::pair<std::string, std::string>>{
           {"void at::native::vectorized_elementwise_kernel<8, at::native::(anonymous "
            "namespace)::copy(int)::{lambda(float)#1}>(int, T2)",
            "vectorized_elementwise_kernel"},
           {"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_SendRecv"},
           {"void at::native::(anonymous namespace)::CatArray<int>(char*)", "CatArray"},
           {"nvjet_tst_96x64", "nvjet_tst_96x64"},
           {"void broken<int", "broken"},
           {"", ""}}) {
    EXPECT_EQ(nsys::ShortKernelName(name), expected);
  }
}

}  // namespace
}  // namespace lockstep::formats
