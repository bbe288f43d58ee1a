#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "aggregator/trace/readers.h"
#include "aggregator/trace/writers.h"
#include "capture/align/clock_model.h"
#include "formats/common/byte_source.h"
#include "formats/nsys/nsys_text.h"
#include "formats/nsys/sqlite_writer.h"

namespace lockstep::trace {
namespace {

namespace fs = std::filesystem;
using store::ActivityKind;
using store::CollectiveOp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr int64_t kStart = 1790000000000000000;
using Rows = std::vector<std::vector<std::string>>;

// What a query of a user gives, cells as text.
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

// The whole database as SQL that makes it again.
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

// Two ranks on two hosts whose clocks differ, with one of everything, as a live capture has it.
class NsysWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("nsys_writer_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    capture_.id = "job-1";
    capture_.job = "train";
    capture_.live = true;
    capture_.world_size = 3;
    capture_.wanted_steps = store::StepSpan{41, 2};
    capture_.notes = {"a note"};
    capture_.hosts = {{.id = "boot-a",
                       .name = "node-a",
                       .exchanges = {{HostTime(1), JobTime(2), JobTime(3), HostTime(4), MonoTime(5)}}},
                      {.id = "boot-b", .name = "node-b", .exchanges = {}}};
    capture_.groups = {{.key = "00000000000000ab",
                        .name = "dp",
                        .members = {RankId(1), RankId(0)},
                        .size = 2,
                        .origin = store::GroupOrigin::kInferred}};
    for (int32_t i = 0; i < 2; ++i) Fill(i);
    store::Finish(capture_);
    clock_ = align::ClockModel({{.offset = Nanos(0)}, {.offset = Nanos(2500)}});
  }
  void TearDown() override { fs::remove_all(folder_); }

  NameId Name(const char* text) { return capture_.strings.Intern(text); }

  void Fill(int32_t index) {
    store::RankData& r = capture_.ranks.emplace_back();
    r.rank = RankId(index);
    r.host = static_cast<uint32_t>(index);
    r.device = DeviceId(static_cast<uint32_t>(index));
    r.pid = 100 + index;
    r.incarnation = 2;
    r.program = "train.py";
    r.rank_source = "RANK";
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
                  .type = store::StreamType::kNonBlocking}};
    r.has_properties = true;
    FillDevice(r);
    FillHost(r);
    r.clocks = {{HostTime(kStart), MonoTime(7), 8, ~0ull, HostTime(9), Nanos(10)}};
    r.channel_timings = {{HostTime(kStart + 10000), HostTime(kStart + 20000), 5, 3, true}};
    r.proxy_ops = {{.start = HostTime(kStart + 10000),
                    .end = HostTime(kStart + 12000),
                    .operation = 5,
                    .group = 0,
                    .peer = 1,
                    .channel = 3,
                    .steps = 4,
                    .steps_seen = 3,
                    .bytes = 99,
                    .gpu_wait = Nanos(1),
                    .peer_wait = Nanos(2),
                    .network_wait = Nanos(3),
                    .flush_wait = Nanos(4),
                    .is_send = true}};
    r.gpu_timer = {Nanos(-12), Nanos(3), 40};
    r.losses = {{.stage = "ring",
                 .kind = "kernel",
                 .records = 3,
                 .reason = "full",
                 .from = HostTime(kStart),
                 .to = HostTime(kStart + 5)}};
    r.unions = {{{HostTime(kStart), HostTime(kStart + 9)}}, {{HostTime(kStart + 1), HostTime(kStart + 2)}}};
    r.unseen_graph_launches = 6;
  }

  void FillDevice(store::RankData& r) {
    const NameId gemm = Name("void ns::gemm<128, 4>(float*, int)");
    const NameId nccl = Name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    r.kernel_details = {{.grid = {70000, 2, 3},
                         .block = {1024, 1, 1},
                         .registers = 255,
                         .static_shared_bytes = 4096,
                         .dynamic_shared_bytes = 5,
                         .context = ContextId(1)},
                        {.grid = {8, 1, 1},
                         .block = {640, 1, 1},
                         .graph = 7,
                         .graph_node = ~0ull,
                         .blocks_per_sm = 0.5f,
                         .warps_per_sm = 2,
                         .occupancy_percent = 3}};
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
                      .source = store::MatchSource::kNcclSequence,
                      .sequence = 41,
                      .bytes = 4096,
                      .datatype = Name("ncclFloat32"),
                      .reduction = Name("Sum"),
                      .operation = 5}};
  }

  void FillHost(store::RankData& r) {
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
                .stream = StreamId(store::kNone),
                .type = store::SyncType::kContext}};
    r.event_records = {{CorrelationId(17), StreamId(7), 12}};
    r.ranges = {{.start = at(0),
                 .end = at(50),
                 .name = Name("step 41"),
                 .thread = ThreadId(200),
                 .start_unknown = true},
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

  std::string Export(const store::Capture& capture) {
    const std::string path = (folder_ / "job.sqlite").string();
    const absl::Status written = WriteNsysSqlite(capture, clock_, path);
    EXPECT_TRUE(written.ok()) << written;
    return path;
  }
  static store::Capture Read(const std::string& path) {
    auto capture = ReadInput(std::vector<std::string>{path}, {});
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? std::move(*capture) : store::Capture();
  }

  fs::path folder_;
  store::Capture capture_;
  align::ClockModel clock_;
};

void ExpectSameRows(const store::Capture& a, const store::RankData& x, const store::Capture& b,
                    const store::RankData& y) {
  ASSERT_EQ(x.activities.size(), y.activities.size());
  for (size_t i = 0; i < x.activities.size(); ++i) {
    const store::DeviceActivity &p = x.activities[i], &q = y.activities[i];
    EXPECT_EQ(std::tuple(p.start, p.end, p.stream, p.correlation, p.kind, p.communication, p.collective),
              std::tuple(q.start, q.end, q.stream, q.correlation, q.kind, q.communication, q.collective));
    EXPECT_EQ(a.Text(p.name), b.Text(q.name));
    EXPECT_EQ(p.detail == store::kNone, q.detail == store::kNone);
  }
  ASSERT_EQ(x.api_calls.size(), y.api_calls.size());
  for (size_t i = 0; i < x.api_calls.size(); ++i) {
    const store::ApiCall &p = x.api_calls[i], &q = y.api_calls[i];
    EXPECT_EQ(std::tuple(p.start, p.end, p.correlation, p.thread, p.driver),
              std::tuple(q.start, q.end, q.correlation, q.thread, q.driver));
    EXPECT_EQ(a.Text(p.name), b.Text(q.name));
  }
  ASSERT_EQ(x.ranges.size(), y.ranges.size());
  for (size_t i = 0; i < x.ranges.size(); ++i) {
    const store::HostRange &p = x.ranges[i], &q = y.ranges[i];
    EXPECT_EQ(std::tuple(p.start, p.end, p.thread, p.kind, p.start_unknown, p.end_unknown),
              std::tuple(q.start, q.end, q.thread, q.kind, q.start_unknown, q.end_unknown));
    EXPECT_EQ(a.Text(p.name), b.Text(q.name));
    EXPECT_EQ(a.Text(p.domain), b.Text(q.domain));
  }
  ASSERT_EQ(x.collectives.size(), y.collectives.size());
  for (size_t i = 0; i < x.collectives.size(); ++i) {
    const store::Collective &p = x.collectives[i], &q = y.collectives[i];
    EXPECT_EQ(
        std::tuple(p.activity, p.group, p.op, p.source, p.sequence, p.bytes, p.root, p.peer, p.operation),
        std::tuple(q.activity, q.group, q.op, q.source, q.sequence, q.bytes, q.root, q.peer, q.operation));
    EXPECT_EQ(a.Text(p.datatype), b.Text(q.datatype));
    EXPECT_EQ(a.Text(p.reduction), b.Text(q.reduction));
  }
  ASSERT_EQ(x.syncs.size(), y.syncs.size());
  for (size_t i = 0; i < x.syncs.size(); ++i) {
    const store::Sync &p = x.syncs[i], &q = y.syncs[i];
    EXPECT_EQ(std::tuple(p.start, p.end, p.correlation, p.stream, p.event, p.type),
              std::tuple(q.start, q.end, q.correlation, q.stream, q.event, q.type));
  }
}

void ExpectSameRank(const store::RankData& x, const store::RankData& y) {
  EXPECT_EQ(std::tuple(x.rank, x.host, x.device, x.pid, x.incarnation, x.program, x.rank_source,
                       x.unseen_graph_launches),
            std::tuple(y.rank, y.host, y.device, y.pid, y.incarnation, y.program, y.rank_source,
                       y.unseen_graph_launches));
  EXPECT_EQ(x.window, y.window);
  EXPECT_EQ(x.unions.operators, y.unions.operators);
  EXPECT_EQ(x.unions.data_loader, y.unions.data_loader);
  const store::DeviceProperties &p = x.properties, &q = y.properties;
  EXPECT_EQ(x.has_properties, y.has_properties);
  EXPECT_EQ(std::tuple(p.name, p.sms, p.compute_major, p.compute_minor, p.max_threads_per_sm,
                       p.registers_per_sm, p.shared_bytes_per_sm, p.memory_bytes, p.uuid,
                       p.memory_bytes_per_s, p.l2_bytes, p.clock_khz),
            std::tuple(q.name, q.sms, q.compute_major, q.compute_minor, q.max_threads_per_sm,
                       q.registers_per_sm, q.shared_bytes_per_sm, q.memory_bytes, q.uuid,
                       q.memory_bytes_per_s, q.l2_bytes, q.clock_khz));
  EXPECT_EQ(std::tuple(x.gpu_timer.offset, x.gpu_timer.spread, x.gpu_timer.kernels),
            std::tuple(y.gpu_timer.offset, y.gpu_timer.spread, y.gpu_timer.kernels));
  ASSERT_EQ(x.clocks.size(), y.clocks.size());
  EXPECT_EQ(x.clocks[0].tsc, y.clocks[0].tsc);
  EXPECT_EQ(x.clocks[0].cupti, y.clocks[0].cupti);
  ASSERT_EQ(x.event_records.size(), y.event_records.size());
  EXPECT_EQ(x.event_records[0].event, y.event_records[0].event);
  ASSERT_EQ(x.channel_timings.size(), y.channel_timings.size());
  EXPECT_EQ(x.channel_timings[0].start, y.channel_timings[0].start);
  ASSERT_EQ(x.proxy_ops.size(), y.proxy_ops.size());
  EXPECT_EQ(x.proxy_ops[0].flush_wait, y.proxy_ops[0].flush_wait);
  EXPECT_EQ(x.proxy_ops[0].group, y.proxy_ops[0].group);
  ASSERT_EQ(x.losses.size(), y.losses.size());
  EXPECT_EQ(x.losses[0].reason, y.losses[0].reason);
  EXPECT_EQ(x.losses[0].to, y.losses[0].to);
  ASSERT_EQ(x.thread_names.size(), y.thread_names.size());
  EXPECT_EQ(x.thread_names[0].thread, y.thread_names[0].thread);
}

TEST_F(NsysWriterTest, ReadBackItIsTheSameCapture) {
  const store::Capture read = Read(Export(capture_));
  EXPECT_EQ(read.id, capture_.id);
  EXPECT_EQ(read.job, capture_.job);
  EXPECT_TRUE(read.live);
  EXPECT_EQ(read.world_size, 3);
  EXPECT_EQ(read.wanted_steps, capture_.wanted_steps);
  EXPECT_EQ(read.notes, capture_.notes);
  EXPECT_EQ(read.missing_ranks, capture_.missing_ranks);
  ASSERT_EQ(read.hosts.size(), 2u);
  EXPECT_EQ(read.hosts[0].id, "boot-a");
  ASSERT_EQ(read.hosts[0].exchanges.size(), 1u);
  EXPECT_EQ(read.hosts[0].exchanges[0].monotonic, MonoTime(5));
  ASSERT_EQ(read.groups.size(), 1u);
  EXPECT_EQ(read.groups[0].name, "dp");
  EXPECT_EQ(read.groups[0].members, capture_.groups[0].members);
  EXPECT_EQ(read.groups[0].origin, store::GroupOrigin::kInferred);
  ASSERT_EQ(read.ranks.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    ExpectSameRank(capture_.ranks[i], read.ranks[i]);
    ExpectSameRows(capture_, capture_.ranks[i], read, read.ranks[i]);
  }
  const store::KernelDetail& d = read.ranks[1].kernel_details.at(read.ranks[1].activities[4].detail);
  EXPECT_EQ(d.graph, 7u);
  EXPECT_EQ(d.graph_node, ~0ull);
  EXPECT_FLOAT_EQ(d.blocks_per_sm, 0.5f);
  EXPECT_FLOAT_EQ(d.occupancy_percent, 3);
}

TEST_F(NsysWriterTest, TwiceTheSameFile) {
  // Names get their numbers in the order of reading.
  const std::string first = Dump(Export(Read(Export(capture_))));
  EXPECT_EQ(Dump(Export(Read((folder_ / "job.sqlite").string()))), first);
}

TEST_F(NsysWriterTest, WhatItWritesIsTheGoldenFile) {
  const fs::path golden = fs::path(LOCKSTEP_SOURCE_DIR) / "tests/golden/nsys/export_v1.sql";
  std::ifstream in(golden);
  std::ostringstream expected;
  expected << in.rdbuf();
  const std::string actual = Dump(Export(capture_));
  if (actual != expected.str()) {
    const std::string kept = (fs::path(testing::TempDir()) / "export_v1.sql.actual").string();
    std::ofstream(kept) << actual;
    FAIL() << "the export differs from " << golden << "; what it is now lies in " << kept;
  }
  // And what was written once can be read.
  std::ofstream((folder_ / "golden.sqlite").string(), std::ios::binary) << SqliteImage(expected.str());
  const store::Capture read = Read((folder_ / "golden.sqlite").string());
  ASSERT_EQ(read.ranks.size(), 2u);
  ExpectSameRows(capture_, capture_.ranks[1], read, read.ranks[1]);
}

TEST_F(NsysWriterTest, ColumnsAreThoseOfTheRealExport) {
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

// What people ask of exports: sums by kernel, copies, gaps on a device, calls, NCCL's ranges, launches.
TEST_F(NsysWriterTest, UsersQueriesWork) {
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
  EXPECT_EQ(Query(path,
                  "SELECT c.rank, g.name, c.op, c.bytes, c.end - c.start FROM LOCKSTEP_COLLECTIVES c JOIN "
                  "LOCKSTEP_COMMUNICATORS g ON g.id = "
                  "c.communicator ORDER BY 1"),
            (Rows{{"0", "dp", "all_reduce", "4096", "20000"}, {"1", "dp", "all_reduce", "4096", "20000"}}));
  EXPECT_EQ(Query(path,
                  "SELECT g.name, d.pid FROM TARGET_INFO_GPU g JOIN TARGET_INFO_CUDA_DEVICE d ON d.gpuId = "
                  "g.id ORDER BY 2"),
            (Rows{{"NVIDIA H100", "100"}, {"NVIDIA H100", "101"}}));
  EXPECT_EQ(Query(path, "SELECT utcEpochNs, utcTime FROM TARGET_INFO_SESSION_START_TIME"),
            (Rows{{"1789999999999997500", "2026-09-21T14:13:19"}}));
}

// Host b is 2.5 us ahead: on the job's clock its rank is that much earlier.
TEST_F(NsysWriterTest, AllRanksAreOnTheJobsClock) {
  EXPECT_EQ(Query(Export(capture_), "SELECT deviceId, MIN(start) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY 1"),
            (Rows{{"0", "3500"}, {"1", "1000"}}));
}

// Containers number their processes from 1, and a process may use several devices.
TEST_F(NsysWriterTest, ProcessesStayApart) {
  capture_.ranks[1].host = 0;
  capture_.ranks[1].pid = capture_.ranks[0].pid;
  store::RankData second_device = capture_.ranks[0];
  second_device.device = DeviceId(5);
  second_device.losses.clear();
  capture_.ranks.push_back(second_device);
  store::Finish(capture_);
  const std::string path = Export(capture_);
  EXPECT_EQ(Query(path,
                  "SELECT COUNT(DISTINCT globalPid), COUNT(DISTINCT globalPid || ' ' || deviceId) FROM "
                  "CUPTI_ACTIVITY_KIND_KERNEL"),
            (Rows{{"2", "3"}}));
  const store::Capture read = Read(path);
  ASSERT_EQ(read.ranks.size(), 3u);
  EXPECT_EQ(read.ranks[1].device, DeviceId(5));
  EXPECT_EQ(read.ranks[2].pid, capture_.ranks[0].pid);
  for (const store::RankData& r : read.ranks) EXPECT_EQ(r.ranges.size(), 3u);
}

TEST_F(NsysWriterTest, AnExportOfOursIsGivenAlone) {
  const std::string path = Export(capture_);
  fs::copy(path, folder_ / "again.sqlite");
  const auto refused = ReadInput(std::vector<std::string>{folder_.string()}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("give it alone"));
}

TEST_F(NsysWriterTest, WithoutOurTablesItIsAnExportLikeAnother) {
  const std::string path = Export(capture_);
  sqlite3* opened = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &opened), SQLITE_OK);
  {
    const SqliteHandle database(opened);
    ASSERT_TRUE(ExecuteSqlite(opened, "UPDATE LOCKSTEP_META SET value = '2' WHERE name = 'VERSION'").ok());
  }
  const store::Capture read = Read(path);
  ASSERT_EQ(read.ranks.size(), 2u);
  EXPECT_FALSE(read.live);
  EXPECT_EQ(read.hosts.size(), 2u);
  EXPECT_EQ(read.ranks[0].rank_source, "position");
  EXPECT_EQ(read.ranks[0].properties.memory_bytes, 80ull << 30);
}

TEST_F(NsysWriterTest, WhatCannotBeWrittenIsSaidWithItsPlace) {
  const absl::Status s =
      WriteNsysSqlite(capture_, clock_, (folder_ / "no_such_folder" / "x.sqlite").string());
  EXPECT_THAT(std::string(s.message()), HasSubstr("no_such_folder/x.sqlite.partial"));
  const std::string path = Export(capture_);
  EXPECT_FALSE(fs::exists(path + ".partial"));
}

TEST(SqliteWriterTest, TheFirstErrorStays) {
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

TEST(ShortKernelName, IsWhatStandsBeforeTheParameters) {
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
}  // namespace lockstep::trace
