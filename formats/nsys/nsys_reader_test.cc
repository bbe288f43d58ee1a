#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/input/input_files_fixture.h"
#include "formats/input/read_input.h"
#include "formats/nsys/nsys_text.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using capture::CollectiveOp;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kEpoch = 1700000000000000000;

// Reads small exports with the tables of Nsight Systems.
class NsysReaderTest : public InputFilesTest {
 protected:
  std::string WriteSql(const std::string& name, const std::string& sql) const {
    return Write(name, SqliteImage(sql));
  }
  absl::StatusOr<capture::Capture> Read(const std::string& path) {
    return ReadInput(std::vector<std::string>{path}, {});
  }
  // Imports one file with these rows.
  capture::Capture Import(const std::string& sql) {
    auto capture = Read(WriteSql("job.sqlite", sql));
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? std::move(*capture) : capture::Capture();
  }

  static std::string Tables() {
    std::string sql = "BEGIN;";
    for (const char* table :
         {"StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY",
          "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_RUNTIME",
          "NVTX_EVENTS", "TARGET_INFO_SESSION_START_TIME", "TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE",
          "META_DATA_EXPORT", "PROCESSES"}) {
      sql += CreateNsysTable(table);
    }
    return sql + "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES(" + std::to_string(kEpoch) +
           ", '', '', 5000);"
           "INSERT INTO StringIds "
           "VALUES(1,'gemm<int>(float*)'),(2,'gemm'),(3,'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'),(4,'"
           "cudaLaunchKernel_v7000'),"
           "(5,'cuMemAlloc_v2'),(6,'ncclAllReduce'),(7,'ncclDevKernel_SendRecv(x)'),(8,'ncclGroupStart'),(9,'"
           "ncclGroupEnd'),(10,'ncclSend'),(11,'ncclRecv');"
           "COMMIT;";
  }
  static std::string Pid(int pid) { return std::to_string(nsys::GlobalId(1, pid, 0)); }
  static std::string Tid(int pid, int tid) { return std::to_string(nsys::GlobalId(1, pid, tid)); }
  static std::string Kernel(int pid, int device, const std::string& start, const std::string& end, int name,
                            int correlation) {
    return "INSERT INTO "
           "CUPTI_ACTIVITY_KIND_KERNEL(start,end,deviceId,contextId,streamId,correlationId,globalPid,"
           "demangledName,shortName,"
           "registersPerThread,gridX,gridY,gridZ,blockX,blockY,blockZ,staticSharedMemory,dynamicSharedMemory,"
           "localMemoryPerThread,localMemoryTotal,"
           "gridId,tensorSizeMinusOneElements) VALUES(" +
           start + "," + end + "," + std::to_string(device) + ",1,7," + std::to_string(correlation) + "," +
           Pid(pid) + "," + std::to_string(name) + ",2,32,128,2,1,256,1,1,16,4096,0,0,0,'[]');";
  }
  static std::string Call(int pid, int tid, int start, int end, int name, int correlation, int kind = 0) {
    return "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(" + std::to_string(start) + "," +
           std::to_string(end) + "," + std::to_string(kind) + "," + Tid(pid, tid) + "," +
           std::to_string(correlation) + "," + std::to_string(name) + ",0,NULL);";
  }
  // `text` is an SQL value, or NULL if the range has `text_id`.
  static std::string Range(int pid, int tid, const std::string& start, const std::string& end,
                           const std::string& text, const std::string& text_id = "NULL",
                           const std::string& domain = "0", const std::string& payload = "NULL",
                           int type = 59) {
    return "INSERT INTO NVTX_EVENTS(start,end,eventType,text,globalTid,textId,domainId,binaryData) VALUES(" +
           start + "," + end + "," + std::to_string(type) + "," + text + "," + Tid(pid, tid) + "," + text_id +
           "," + domain + "," + payload + ");";
  }
  static HostTime At(int64_t t) { return HostTime(kEpoch - 5000 + t); }
};

TEST_F(NsysReaderTest, RowsOfAProcessBecomeARank) {
  const capture::Capture c = Import(
      Tables() + Kernel(70, 0, "9000", "9500", 1, 11) + Kernel(70, 0, "8000", "8500", 1, 10) +
      "INSERT INTO "
      "CUPTI_ACTIVITY_KIND_MEMCPY(start,end,deviceId,contextId,streamId,correlationId,globalPid,bytes,"
      "copyKind,srcKind,dstKind) "
      "VALUES(8600,8700,0,1,9,12," +
      Pid(70) +
      ",4096,1,1,2);"
      "INSERT INTO "
      "CUPTI_ACTIVITY_KIND_MEMSET(start,end,deviceId,contextId,streamId,correlationId,globalPid,value,bytes,"
      "memKind) "
      "VALUES(8700,8700,0,1,9,NULL," +
      Pid(70) +
      ",0,64,2);"
      "INSERT INTO "
      "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start,end,deviceId,contextId,streamId,correlationId,globalPid,"
      "syncType,eventId,eventSyncId) "
      "VALUES(8700,9600,0,1,4294967295,13," +
      Pid(70) + ",4,4294967295,0);" + Call(70, 71, 7000, 7100, 4, 10) + Call(70, 71, 7200, 7300, 5, 0, 1) +
      Range(70, 71, "6000", "9900", "'ProfilerStep#3'") + "INSERT INTO PROCESSES VALUES(" + Pid(70) +
      ",70,'python3');"
      "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES(" +
      std::to_string(nsys::GlobalId(1, 0, 0)) + ",'x','Hostname',619,'node-a');");
  ASSERT_EQ(c.ranks.size(), 1u);
  const capture::RankData& r = c.ranks[0];
  EXPECT_EQ(r.pid, 70);
  EXPECT_EQ(r.program, "python3");
  ASSERT_EQ(c.hosts.size(), 1u);
  EXPECT_EQ(c.hosts[r.host].name, "node-a");
  ASSERT_EQ(r.activities.size(), 4u);
  EXPECT_EQ(r.activities[0].start, At(8000));
  EXPECT_EQ(c.Text(r.activities[0].name), "gemm<int>(float*)");
  const capture::KernelDetail& d = r.kernel_details.at(r.activities[0].detail);
  EXPECT_THAT(d.grid, ElementsAre(128, 2, 1));
  EXPECT_EQ(d.registers, 32);
  EXPECT_EQ(d.dynamic_shared_bytes, 4096u);
  const capture::CopyDetail& copy = r.copy_details.at(r.activities[1].detail);
  EXPECT_EQ(copy.bytes, 4096u);
  EXPECT_EQ(copy.copy_kind, 1);
  EXPECT_EQ(copy.src_kind, 2);  // CUPTI's number for pinned memory
  EXPECT_EQ(copy.dst_kind, 3);
  EXPECT_EQ(r.activities[2].end, r.activities[2].start);
  ASSERT_EQ(r.syncs.size(), 1u);
  EXPECT_EQ(r.syncs[0].type, capture::SyncType::kContext);
  EXPECT_EQ(r.syncs[0].stream.value(), capture::kNone);
  ASSERT_EQ(r.api_calls.size(), 2u);
  EXPECT_EQ(c.Text(r.api_calls[0].name), "cudaLaunchKernel");
  EXPECT_EQ(c.Text(r.api_calls[1].name), "cuMemAlloc_v2");
  EXPECT_TRUE(r.api_calls[1].driver);
  EXPECT_EQ(r.api_calls[0].thread, ThreadId(71));
  ASSERT_EQ(r.ranges.size(), 1u);
  EXPECT_EQ(r.ranges[0].kind, capture::RangeKind::kStep);
  EXPECT_EQ(r.window.start, At(6000));
  EXPECT_EQ(r.window.end, At(9900));
  EXPECT_THAT(r.losses, IsEmpty());
  EXPECT_THAT(c.notes, IsEmpty());
}

TEST_F(NsysReaderTest, ProcessesOfOneFileAreRanksByTheirDevices) {
  const capture::Capture c = Import(Tables() + Kernel(90, 0, "1", "2", 1, 1) + Kernel(80, 1, "1", "2", 1, 1));
  ASSERT_EQ(c.ranks.size(), 2u);
  EXPECT_EQ(c.ranks[0].pid, 90);
  EXPECT_EQ(c.ranks[0].rank_source, "position");
  EXPECT_EQ(c.ranks[1].pid, 80);
  EXPECT_EQ(c.ranks[0].host, c.ranks[1].host);
  EXPECT_THAT(c.notes, Contains(HasSubstr("2 processes are numbered by file")));
}

TEST_F(NsysReaderTest, TakesRanksFromMpi) {
  const capture::Capture c =
      Import(Tables() + Kernel(80, 0, "1", "2", 1, 1) + Kernel(90, 1, "1", "2", 1, 1) +
             "CREATE TABLE MPI_RANKS(globalTid INTEGER NOT NULL, rank INTEGER NOT NULL);"
             "INSERT INTO MPI_RANKS VALUES(" +
             Tid(80, 3) + ",5),(" + Tid(90, 3) + ",2);");
  ASSERT_EQ(c.ranks.size(), 2u);
  EXPECT_EQ(c.ranks[0].pid, 90);
  EXPECT_EQ(c.ranks[0].rank, RankId(2));
  EXPECT_EQ(c.ranks[1].rank, RankId(5));
  EXPECT_EQ(c.ranks[1].rank_source, "MPI");
}

TEST_F(NsysReaderTest, TheLaunchersVariableGivesTheRankOfAFilesOnlyProcess) {
  const auto export_of = [&](int rank) {
    return Tables() + Kernel(80 + rank, 0, "1", "2", 1, 1) +
           "INSERT INTO META_DATA_CAPTURE VALUES('PROCESS_0:ENVIRONMENT_VARIABLE','OMPI_COMM_WORLD_RANK=\"" +
           std::to_string(rank) + "\"');";
  };
  WriteSql("a.sqlite", export_of(1));
  WriteSql("b.sqlite", export_of(0));
  const auto c = Read(folder_.string());
  ASSERT_TRUE(c.ok()) << c.status();
  ASSERT_EQ(c->ranks.size(), 2u);
  EXPECT_EQ(c->ranks[0].pid, 80);
  EXPECT_EQ(c->ranks[0].rank_source, "environment");
  const std::string twice = WriteSql("c.sqlite", export_of(1));
  const auto refused = Read(folder_.string());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("a.sqlite"), HasSubstr(twice), HasSubstr("rank 1")));
}

TEST_F(NsysReaderTest, NumbersInFileNamesPrecedePositions) {
  WriteSql("rank7.sqlite", Tables() + Kernel(80, 0, "1", "2", 1, 1));
  WriteSql("rank3.sqlite", Tables() + Kernel(81, 0, "1", "2", 1, 1));
  const auto c = Read(folder_.string());
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->ranks[0].rank, RankId(3));
  EXPECT_EQ(c->ranks[1].rank, RankId(7));
  EXPECT_EQ(c->ranks[0].rank_source, "file name");
}

TEST_F(NsysReaderTest, AcceptsTimesInUtc) {
  const capture::Capture c =
      Import(Tables() + Kernel(70, 0, "1700000000000000001", "1700000000000000009", 1, 1) +
             "INSERT INTO META_DATA_EXPORT VALUES('EXPORT_PARAM_TIME_NORMALIZE','true');");
  ASSERT_EQ(c.ranks.size(), 1u);
  EXPECT_EQ(c.ranks[0].activities[0].start, HostTime(1700000000000000001));
}

TEST_F(NsysReaderTest, OperatorsOfEmitNvtxAreFramesAndNotRanges) {
  const capture::Capture c = Import(Tables() + Kernel(70, 0, "9000", "9500", 1, 11) +
                                    Range(70, 71, "100", "200", "'aten::add, seq = 12, op_id = 7'") +
                                    Range(70, 71, "150", "300", "'nccl:all_to_all, op_id = 8'") +
                                    Range(70, 71, "400", "500", "'enumerate(DataLoader)#_Next, op_id = 9'") +
                                    Range(70, 71, "600", "NULL", "'open'") +
                                    Range(70, 71, "700", "NULL", "'mark'", "NULL", "0", "NULL", 34));
  ASSERT_EQ(c.ranks.size(), 1u);
  const capture::RankData& r = c.ranks[0];
  ASSERT_EQ(r.ranges.size(), 4u);
  EXPECT_EQ(c.Text(r.ranges[0].name), "nccl:all_to_all");
  EXPECT_TRUE(r.ranges[2].end_unknown);
  EXPECT_EQ(r.ranges[2].end, At(9500));
  EXPECT_EQ(r.ranges[3].end, r.ranges[3].start);
  EXPECT_EQ(r.unions.operators, (std::vector<HostInterval>{{At(100), At(200)}}));
  EXPECT_EQ(r.unions.data_loader, (std::vector<HostInterval>{{At(400), At(500)}}));
}

// NCCL's schemas in domain 1. Schema 7 has communicator, message size and reduction; schema 8 has
// communicator, ranks and rank.
constexpr char kSchemas[] =
    "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES(domainId INTEGER NOT NULL, schemaId INTEGER NOT NULL, idx "
    "INTEGER NOT NULL, flags INTEGER, type INTEGER,"
    "name TEXT, description TEXT, arrayOrUnionDetail INTEGER, offset INTEGER);"
    "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES(1,7,0,NULL,18,'NCCL communicator "
    "ID',NULL,NULL,NULL),(1,7,1,NULL,22,'Message size [bytes]',NULL,NULL,8),"
    "(1,7,2,NULL,9,'Reduction operation',NULL,NULL,16),(1,8,0,NULL,18,'NCCL communicator "
    "ID',NULL,NULL,NULL),(1,8,1,NULL,5,'No. of ranks',NULL,NULL,8),"
    "(1,8,2,NULL,5,'Rank',NULL,NULL,12),(1,9,0,NULL,18,'NCCL communicator "
    "ID',NULL,NULL,NULL),(1,9,1,NULL,22,'Message size [bytes]',NULL,NULL,8),"
    "(1,9,2,NULL,5,'Peer rank',NULL,NULL,16);"
    "CREATE TABLE NVTX_PAYLOAD_ENUM_ENTRIES(domainId INTEGER, schemaId INTEGER, idx INTEGER, name TEXT, "
    "value INTEGER, isFlag INTEGER);"
    "INSERT INTO NVTX_PAYLOAD_ENUM_ENTRIES VALUES(1,77,0,'Sum',0,0);"
    "UPDATE NVTX_PAYLOAD_SCHEMA_ENTRIES SET type = 77 WHERE name = 'Reduction operation';";

std::string Little(uint64_t value, int bytes) {
  std::string hex;
  for (int i = 0; i < bytes; ++i) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", static_cast<unsigned>(value >> (8 * i) & 0xFF));
    hex += text;
  }
  return hex;
}
std::string Payload(int schema, const std::string& fields) {
  const uint64_t bytes = fields.size() / 2;
  return "x'" + Little(1, 4) + Little(0, 4) + Little(static_cast<uint64_t>(schema), 4) + Little(0, 4) +
         Little(bytes, 8) + Little(bytes + 32, 8) + fields + "'";
}

TEST_F(NsysReaderTest, ReadsCommunicatorSizeAndRankFromPayloads) {
  std::string sql = Tables() + kSchemas;
  for (int rank = 0; rank < 2; ++rank) {
    const int pid = 90 - rank;  // pids in the opposite order of the devices
    sql += "INSERT OR IGNORE INTO StringIds VALUES(20,'ncclCommInitRank');";
    sql += Range(pid, 5, "10", "20", "NULL", "20", "1",
                 Payload(8, Little(0xABC, 8) + Little(2, 4) + Little(static_cast<uint64_t>(1 - rank), 4)));
    sql += Range(pid, 5, "100", "200", "NULL", "6", "1",
                 Payload(7, Little(0xABC, 8) + Little(4096, 8) + Little(0, 4)));
    sql += Call(pid, 5, 150, 160, 4, 31) + Kernel(pid, rank, "300", "400", 3, 31);
  }
  const capture::Capture c = Import(sql);
  ASSERT_EQ(c.ranks.size(), 2u);
  EXPECT_EQ(c.ranks[0].device, DeviceId(1));
  EXPECT_EQ(c.ranks[0].rank_source, "NCCL's largest communicator");
  EXPECT_EQ(c.world_size, 2);
  ASSERT_EQ(c.groups.size(), 1u);
  EXPECT_EQ(c.groups[0].key, "0000000000000abc");
  EXPECT_THAT(c.groups[0].members, ElementsAre(RankId(0), RankId(1)));
  ASSERT_EQ(c.ranks[0].collectives.size(), 1u);
  const capture::Collective& all_reduce = c.ranks[0].collectives[0];
  EXPECT_EQ(all_reduce.op, CollectiveOp::kAllReduce);
  EXPECT_EQ(all_reduce.bytes, 4096);
  EXPECT_EQ(all_reduce.group, 0u);
  EXPECT_EQ(c.Text(all_reduce.reduction), "Sum");
}

TEST_F(NsysReaderTest, AGroupOfMessagesIsOneKernelOfSeveral) {
  const std::string payload = Little(0xABC, 8) + Little(512, 8);
  const capture::Capture c =
      Import(Tables() + kSchemas + Range(70, 5, "100", "110", "NULL", "8", "1") +
             Range(70, 5, "120", "130", "NULL", "10", "1", Payload(9, payload + Little(1, 4))) +
             Range(70, 5, "140", "150", "NULL", "11", "1", Payload(9, payload + Little(3, 4))) +
             Range(70, 5, "160", "200", "NULL", "9", "1") + Call(70, 5, 170, 180, 4, 31) +
             Kernel(70, 0, "300", "400", 7, 31));
  ASSERT_EQ(c.ranks.size(), 1u);
  const auto& collectives = c.ranks[0].collectives;
  ASSERT_EQ(collectives.size(), 2u);
  EXPECT_EQ(collectives[0].op, CollectiveOp::kSend);
  EXPECT_EQ(collectives[0].peer, 1);
  EXPECT_EQ(collectives[1].op, CollectiveOp::kReceive);
  EXPECT_EQ(collectives[1].peer, 3);
  EXPECT_EQ(collectives[1].bytes, 512);
  EXPECT_EQ(collectives[0].activity, collectives[1].activity);
  EXPECT_THAT(c.notes, Not(Contains(HasSubstr("--include-blobs"))));
}

TEST_F(NsysReaderTest, NotesCallsWithoutPayloads) {
  const capture::Capture c =
      Import(Tables() + Kernel(70, 0, "300", "400", 3, 31) + Call(70, 5, 150, 160, 4, 31) +
             Range(70, 5, "100", "200", "NULL", "6", "1"));
  EXPECT_THAT(c.notes, Contains(HasSubstr("--include-blobs=true")));
  ASSERT_EQ(c.ranks[0].collectives.size(), 1u);
  EXPECT_EQ(c.ranks[0].collectives[0].bytes, -1);
}

TEST_F(NsysReaderTest, GraphsRecordedWithoutKernelsAreALoss) {
  const capture::Capture c = Import(
      Tables() + Kernel(70, 0, "300", "400", 1, 31) +
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start INTEGER, end INTEGER, deviceId INTEGER, contextId "
      "INTEGER, "
      "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES(500,900,0,1,7,32," +
      Pid(70) + ",1,1);");
  ASSERT_EQ(c.ranks.size(), 1u);
  EXPECT_EQ(c.ranks[0].unseen_graph_launches, 1u);
  ASSERT_EQ(c.ranks[0].losses.size(), 1u);
  EXPECT_THAT(c.ranks[0].losses[0].reason, HasSubstr("--cuda-graph-trace=node"));
  EXPECT_EQ(c.ranks[0].window.end, At(900));
}

TEST_F(NsysReaderTest, NotesMissingTables) {
  const capture::Capture c =
      Import(CreateNsysTable("CUPTI_ACTIVITY_KIND_KERNEL") + Kernel(70, 0, "300", "400", 1, 31));
  EXPECT_THAT(c.notes, Contains(HasSubstr("does not have the start of its session")));
  EXPECT_THAT(c.notes, Contains(HasSubstr("CUPTI_ACTIVITY_KIND_RUNTIME")));
  EXPECT_THAT(c.notes, Contains(HasSubstr("NVTX_EVENTS")));
  ASSERT_EQ(c.ranks.size(), 1u);
  EXPECT_EQ(c.ranks[0].losses.size(), 1u);  // for the kernel's missing name
}

TEST_F(NsysReaderTest, RefusesAnExportWithoutDeviceActivity) {
  const auto refused = Read(WriteSql("job.sqlite", Tables()));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("job.sqlite"), HasSubstr("--trace=cuda")));
  const auto other =
      Read(WriteSql("bookmarks.sqlite", "CREATE TABLE moz_places(id INTEGER PRIMARY KEY, url TEXT);"));
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("bookmarks.sqlite"));
}

TEST_F(NsysReaderTest, LeavesOutOtherFilesOfAFolderByName) {
  WriteSql("job.sqlite", Tables() + Kernel(70, 0, "300", "400", 1, 31));
  Write("notes.json", "{}");
  const auto c = Read(folder_.string());
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_THAT(c->notes, Contains(HasSubstr("notes.json is not an nsys export")));
  const auto refused = ReadInput(
      std::vector<std::string>{(folder_ / "job.sqlite").string(), (folder_ / "notes.json").string()}, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("one kind"));
}

TEST_F(NsysReaderTest, RefusesTracesOfAnotherProgramInAnotherFolder) {
  WriteSql("a/job.sqlite", Tables() + Kernel(70, 0, "300", "400", 1, 31));
  Write("b/rank0.json", "{\"traceEvents\": []}");
  const auto c = Read(folder_.string());
  ASSERT_FALSE(c.ok());
  EXPECT_THAT(std::string(c.status().message()), HasSubstr("give the folder of one job"));
}

TEST_F(NsysReaderTest, ProgressEndsAtMostAtTheFilesSize) {
  std::string sql = Tables() + "BEGIN;";
  for (int i = 0; i < 20000; ++i) sql += Call(70, 71, i, i + 1, 4, i);
  const std::string path = WriteSql("job.sqlite", sql + "COMMIT;" + Kernel(70, 0, "300", "400", 1, 31));
  uint64_t last = 0, total = 0;
  int calls = 0;
  const auto c =
      ReadInput(std::vector<std::string>{path}, {.threads = 1, .progress = [&](uint64_t done, uint64_t of) {
                                                   EXPECT_GE(done, last);
                                                   last = done;
                                                   total = of;
                                                   ++calls;
                                                 }});
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_GT(calls, 0);
  EXPECT_EQ(total, fs::file_size(path));
  EXPECT_LE(last, total);
}

}  // namespace
}  // namespace lockstep::formats
