#include "formats/kineto/kineto_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <string>
#include <vector>

#include "base/files/byte_sink.h"
#include "formats/common/read_options.h"
#include "formats/kineto/kineto_capture.h"
#include "formats/kineto/kineto_reader.h"

namespace lockstep::formats {
namespace {

using capture::ActivityKind;
using capture::CollectiveOp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kKinetoStart = 1790000000123456789;

// Two ranks on two hosts with rows of every kind, as in a live capture.
class KinetoWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    capture_.id = "job-1";
    capture_.world_size = 2;
    capture_.hosts = {{.id = "boot-a", .name = "node.a"}, {.id = "boot-b", .name = "node b"}};
    capture_.groups = {{.key = "0xabc", .name = "data", .members = {RankId(0), RankId(1)}, .size = 2}};
    for (int32_t i = 0; i < 2; ++i) Fill(i);
    capture::Finish(capture_);
  }

  void Fill(int32_t index) {
    capture::RankData& r = capture_.ranks.emplace_back();
    r.rank = RankId(index);
    r.host = static_cast<uint32_t>(index);
    r.device = DeviceId(static_cast<uint32_t>(index));
    r.pid = 100 + index;
    r.window = {HostTime(kKinetoStart), HostTime(kKinetoStart + 1000000)};
    r.properties = {.name = "NVIDIA \"H100\"",
                    .sms = 132,
                    .compute_major = 9,
                    .max_threads_per_sm = 2048,
                    .memory_bytes = 80ull << 30};
    r.has_properties = true;
    r.losses = {{.stage = "ring", .kind = "kernel", .records = 3, .reason = "full"}};
    FillDetails(r);
    FillActivities(r);
    FillHost(r);
  }

  static void FillDetails(capture::RankData& r) {
    r.kernel_details = {{.grid = {70000, 2, 3},
                         .block = {1024, 1, 1},
                         .registers = 255,
                         .static_shared_bytes = 4096,
                         .context = ContextId(1)},
                        {.grid = {8, 1, 1},
                         .block = {640, 1, 1},
                         .graph = 7,
                         .graph_node = 9000000001ull,
                         .blocks_per_sm = 0.1f,
                         .warps_per_sm = 2,
                         .occupancy_percent = 3}};
    r.copy_details = {{.bytes = 1ull << 33,
                       .bandwidth_gb_per_s = 26.123456789012345,
                       .context = ContextId(1),
                       .copy_kind = 1,
                       .src_kind = 2,
                       .dst_kind = 3},
                      {.bytes = 64, .dst_kind = 3}};
  }

  void FillActivities(capture::RankData& r) {
    const NameId gemm = capture_.strings.Intern("void gemm<\"quoted\\\">(float*)\n");
    const NameId nccl =
        capture_.strings.Intern("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    r.activities = {{.start = HostTime(kKinetoStart + 1000),
                     .end = HostTime(kKinetoStart + 5001),
                     .name = gemm,
                     .stream = StreamId(7),
                     .correlation = CorrelationId(11),
                     .detail = 0},
                    {.start = HostTime(kKinetoStart + 4000),
                     .end = HostTime(kKinetoStart + 9999),
                     .name = gemm,
                     .stream = StreamId(7),
                     .correlation = CorrelationId(12)},
                    {.start = HostTime(kKinetoStart + 6000),
                     .end = HostTime(kKinetoStart + 6000),
                     .stream = StreamId(7),
                     .detail = 1,
                     .kind = ActivityKind::kMemset},
                    {.start = HostTime(kKinetoStart + 7000),
                     .end = HostTime(kKinetoStart + 8000),
                     .stream = StreamId(9),
                     .correlation = CorrelationId(14),
                     .detail = 0,
                     .kind = ActivityKind::kMemcpy},
                    {.start = HostTime(kKinetoStart + 10000),
                     .end = HostTime(kKinetoStart + 30000),
                     .name = nccl,
                     .stream = StreamId(20),
                     .correlation = CorrelationId(15),
                     .detail = 1,
                     .collective = 0},
                    {.start = HostTime(kKinetoStart + 40000),
                     .end = HostTime(kKinetoStart + 50000),
                     .name = nccl,
                     .stream = StreamId(20),
                     .correlation = CorrelationId(16),
                     .detail = 1,
                     .collective = 1}};
    r.collectives = {{.activity = 4,
                      .group = 0,
                      .op = CollectiveOp::kAllReduce,
                      .source = capture::MatchSource::kNcclSequence,
                      .sequence = 41,
                      .bytes = 4096,
                      .datatype = capture_.strings.Intern("ncclFloat32")},
                     {.activity = 5,
                      .group = 0,
                      .op = CollectiveOp::kReduceScatter,
                      .source = capture::MatchSource::kGroupSequence,
                      .sequence = 42,
                      .bytes = 512,
                      .datatype = capture_.strings.Intern("ncclBfloat16")}};
  }

  void FillHost(capture::RankData& r) {
    for (uint32_t c = 11; c <= 16; ++c) {
      r.api_calls.push_back({.start = HostTime(kKinetoStart + 100 * c),
                             .end = HostTime(kKinetoStart + 100 * c + 50),
                             .name = capture_.strings.Intern("cudaLaunchKernel"),
                             .correlation = CorrelationId(c),
                             .thread = ThreadId(500),
                             .cbid = 211,
                             .driver = c == 12});
    }
    r.syncs = {{.start = HostTime(kKinetoStart + 60000),
                .end = HostTime(kKinetoStart + 70000),
                .correlation = CorrelationId(17),
                .stream = StreamId(20),
                .type = capture::SyncType::kStream},
               {.start = HostTime(kKinetoStart + 80000),
                .end = HostTime(kKinetoStart + 90000),
                .correlation = CorrelationId(18),
                .stream = StreamId(capture::kNone),
                .type = capture::SyncType::kContext}};
    r.ranges = {{.start = HostTime(kKinetoStart),
                 .end = HostTime(kKinetoStart + 60000),
                 .name = capture_.strings.Intern("ProfilerStep#4"),
                 .thread = ThreadId(500)},
                {.start = HostTime(kKinetoStart + 10),
                 .end = HostTime(kKinetoStart + 900),
                 .name = capture_.strings.Intern("forward"),
                 .thread = ThreadId(500),
                 .depth = 1}};
  }

  std::string Text(uint32_t rank, const capture::ClockModel& clock = {}) const {
    StringSink sink;
    EXPECT_TRUE(WriteKineto(capture_, rank, clock, sink).ok());
    return sink.text();
  }

  capture::Capture ReadBack(const capture::ClockModel& clock = {}) const {
    std::vector<ReadFile> files;
    for (uint32_t i = 0; i < capture_.ranks.size(); ++i) {
      const std::string text = Text(i, clock);
      MemorySource source(text);
      files.push_back({{.path = KinetoFileName(capture_, i)},
                       ReadKineto(source, ReadMode::kOneThread, HostDetail::kUnions, nullptr)});
      EXPECT_EQ(files.back().content.damage.Describe(), "");
      EXPECT_EQ(files.back().content.broken_off, "");
    }
    auto capture = JoinKinetoFiles(std::move(files), {});
    EXPECT_TRUE(capture.ok()) << capture.status();
    capture::Finish(*capture);
    return std::move(*capture);
  }

  capture::Capture capture_;
};

TEST_F(KinetoWriterTest, WrittenTracesReadBackAsTheSameRows) {
  const capture::Capture back = ReadBack();
  ASSERT_EQ(back.ranks.size(), 2u);
  EXPECT_EQ(back.world_size, 2);
  for (size_t i = 0; i < 2; ++i) {
    const capture::RankData& a = capture_.ranks[i];
    const capture::RankData& b = back.ranks[i];
    EXPECT_EQ(b.rank, a.rank);
    EXPECT_EQ(b.device, a.device);
    EXPECT_EQ(b.pid, a.pid);
    EXPECT_EQ(b.window, a.window);
    EXPECT_EQ(back.hosts[b.host].name, capture_.hosts[a.host].name);
    EXPECT_EQ(b.properties.name, a.properties.name);
    EXPECT_EQ(b.properties.sms, a.properties.sms);
    EXPECT_EQ(b.properties.memory_bytes, a.properties.memory_bytes);
    ASSERT_EQ(b.activities.size(), a.activities.size());
    for (size_t k = 0; k < a.activities.size(); ++k) {
      const capture::DeviceActivity& x = a.activities[k];
      const capture::DeviceActivity& y = b.activities[k];
      EXPECT_EQ(y.start, x.start) << k;
      EXPECT_EQ(y.end, x.end) << k;
      EXPECT_EQ(y.stream, x.stream) << k;
      EXPECT_EQ(y.correlation, x.correlation) << k;
      EXPECT_EQ(y.kind, x.kind) << k;
      EXPECT_EQ(y.communication, x.communication) << k;
      EXPECT_TRUE(x.kind != ActivityKind::kKernel || back.Text(y.name) == capture_.Text(x.name)) << k;
    }
    ASSERT_EQ(b.api_calls.size(), a.api_calls.size());
    for (size_t k = 0; k < a.api_calls.size(); ++k) {
      EXPECT_EQ(b.api_calls[k].start, a.api_calls[k].start);
      EXPECT_EQ(b.api_calls[k].end, a.api_calls[k].end);
      EXPECT_EQ(b.api_calls[k].correlation, a.api_calls[k].correlation);
      EXPECT_EQ(b.api_calls[k].thread, a.api_calls[k].thread);
      EXPECT_EQ(b.api_calls[k].cbid, a.api_calls[k].cbid);
      EXPECT_EQ(b.api_calls[k].driver, a.api_calls[k].driver);
    }
    ASSERT_EQ(b.ranges.size(), a.ranges.size()) << "annotations made for other tools do not come back";
    for (size_t k = 0; k < a.ranges.size(); ++k) {
      EXPECT_EQ(b.ranges[k].start, a.ranges[k].start);
      EXPECT_EQ(b.ranges[k].end, a.ranges[k].end);
      EXPECT_EQ(b.ranges[k].kind, a.ranges[k].kind);
      EXPECT_EQ(b.ranges[k].depth, a.ranges[k].depth);
      EXPECT_EQ(back.Text(b.ranges[k].name), capture_.Text(a.ranges[k].name));
    }
    ASSERT_EQ(b.syncs.size(), a.syncs.size());
    for (size_t k = 0; k < a.syncs.size(); ++k) {
      EXPECT_EQ(b.syncs[k].start, a.syncs[k].start);
      EXPECT_EQ(b.syncs[k].type, a.syncs[k].type);
      EXPECT_EQ(b.syncs[k].stream, a.syncs[k].stream);
    }
  }
}

TEST_F(KinetoWriterTest, WritesDetailsAndCollectives) {
  const capture::Capture back = ReadBack();
  const capture::RankData& a = capture_.ranks[1];
  const capture::RankData& b = back.ranks[1];
  const capture::KernelDetail& big = b.kernel_details[b.activities[0].detail];
  EXPECT_EQ(big.grid[0], 70000u);
  EXPECT_EQ(big.block[0], 1024);
  EXPECT_EQ(big.registers, 255);
  EXPECT_EQ(big.static_shared_bytes, 4096u);
  EXPECT_LT(big.occupancy_percent, 0) << "unknown stays unknown";
  const capture::KernelDetail& comm = b.kernel_details[b.activities[4].detail];
  EXPECT_EQ(comm.graph, 7u);
  EXPECT_EQ(comm.graph_node, 9000000001ull);
  EXPECT_EQ(comm.blocks_per_sm, 0.1f);
  EXPECT_EQ(comm.occupancy_percent, 3);
  const capture::CopyDetail& copy = b.copy_details[b.activities[3].detail];
  EXPECT_EQ(copy.bytes, 1ull << 33);
  EXPECT_EQ(copy.bandwidth_gb_per_s, 26.123456789012345) << "as the source stated it";
  EXPECT_EQ(copy.copy_kind, 1);
  EXPECT_EQ(copy.src_kind, 2);
  EXPECT_EQ(copy.dst_kind, 3);
  ASSERT_EQ(b.collectives.size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(b.collectives[k].op, a.collectives[k].op);
    EXPECT_EQ(b.collectives[k].source, a.collectives[k].source);
    EXPECT_EQ(b.collectives[k].sequence, a.collectives[k].sequence);
    EXPECT_EQ(b.collectives[k].bytes, a.collectives[k].bytes);
    const capture::Group& group = back.groups[b.collectives[k].group];
    EXPECT_EQ(group.members, capture_.groups[0].members);
    EXPECT_EQ(group.name, "data");
  }
  EXPECT_EQ(b.collectives[0].group, back.ranks[0].collectives[0].group) << "one communicator for both ranks";
}

TEST_F(KinetoWriterTest, WritesTheTextThatOtherToolsSearchFor) {
  const std::string text = Text(1);
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  ASSERT_EQ(parser.parse(text).get(document), simdjson::SUCCESS);
  // HTA takes the rank from the first lower-case "rank", and requires a blank after the colon.
  const size_t rank = text.find("\"rank\"");
  EXPECT_EQ(text.substr(rank, 9), "\"rank\": 1");
  EXPECT_LT(rank, text.find("\"traceEvents\""));
  int devices = 0, launches = 0, starts = 0, ends = 0, annotations = 0;
  int64_t external = -1;
  for (simdjson::dom::element row : document["traceEvents"].get_array()) {
    const std::string_view phase = row["ph"].get_string().value();
    std::string_view cat;
    if (row["cat"].get(cat)) cat = "";
    if (phase == "s") ++starts;
    if (phase == "f") ++ends;
    if (phase != "X") continue;
    EXPECT_GE(row["ts"].get_double().value(), 0);
    if (cat == "kernel" || cat == "gpu_memcpy" || cat == "gpu_memset") {
      ++devices;
      EXPECT_EQ(row["args"]["stream"].error(), simdjson::SUCCESS);
      EXPECT_EQ(row["args"]["correlation"].error(), simdjson::SUCCESS);
    }
    if (cat == "cuda_runtime" || cat == "cuda_driver") {
      ++launches;
      EXPECT_NE(row["args"]["stream"].error(), simdjson::SUCCESS) << "HTA would take it for a device row";
    }
    const std::string_view name = row["name"].get_string().value();
    if (name == "nccl:all_reduce") {
      ++annotations;
      external = row["args"]["External id"].get_int64().value();
      EXPECT_EQ(row["args"]["Input Dims"].at(0).at(0).get_int64().value(), 1024);
    }
    if (name.starts_with("ncclDevKernel") && row["args"]["NCCL Seq"].error() == simdjson::SUCCESS) {
      EXPECT_EQ(row["args"]["External id"].get_int64().value(), 15);
      EXPECT_EQ(row["args"]["dtype"].get_string().value(), "Float");
      EXPECT_EQ(row["args"]["Process Group Ranks"].get_string().value(), "[0, 1]");
    }
  }
  EXPECT_EQ(devices, 6);
  EXPECT_EQ(launches, 6);
  EXPECT_EQ(starts, 5) << "call 13 started nothing that was recorded";
  EXPECT_EQ(ends, 5);
  EXPECT_EQ(annotations, 1);
  EXPECT_EQ(external, 15);
  EXPECT_THAT(text, HasSubstr("\"name\": \"Record Window End\""));
  EXPECT_THAT(text, HasSubstr("\"name\": \"Memcpy HtoD (Pinned -> Device)\""));
}

TEST_F(KinetoWriterTest, WritesMemoryOperationsAsInstantsOfTheCallingThread) {
  EXPECT_THAT(Text(1), Not(HasSubstr("[memory]")));
  capture::RankData& r = capture_.ranks[1];
  constexpr uint8_t kPinned = 2, kDevice = 3;
  r.memory_ops = {{.time = HostTime(kKinetoStart + 1110),
                   .correlation = CorrelationId(11),
                   .address = 4096,
                   .bytes = 512,
                   .memory_kind = kDevice},
                  {.time = HostTime(kKinetoStart + 2000),
                   .correlation = CorrelationId(99),
                   .address = 8192,
                   .bytes = 64,
                   .memory_kind = kPinned},
                  {.time = HostTime(kKinetoStart + 3000),
                   .address = 4096,
                   .bytes = 512,
                   .memory_kind = kDevice,
                   .release = true}};
  const std::string text = Text(1);
  simdjson::dom::parser parser;
  std::vector<simdjson::dom::element> rows;
  for (simdjson::dom::element row : parser.parse(text)["traceEvents"].get_array()) {
    if (std::string_view(row["name"]) == "[memory]") rows.push_back(row);
  }
  ASSERT_EQ(rows.size(), 3u);
  const auto arg = [&](size_t i, const char* name) { return rows[i]["args"][name].get_int64().value(); };
  EXPECT_EQ(std::string_view(rows[0]["ph"]), "i");
  EXPECT_EQ(rows[0]["tid"].get_int64().value(), 500);
  EXPECT_EQ(rows[1]["tid"].get_int64().value(), 101)
      << "of a call that was not recorded only the process is known";
  EXPECT_EQ(arg(0, "Device Type"), 1);
  EXPECT_EQ(arg(0, "Device Id"), 1);
  EXPECT_EQ(arg(0, "Addr"), 4096);
  EXPECT_EQ(arg(0, "Bytes"), 512);
  EXPECT_EQ(arg(1, "Device Type"), 0);
  EXPECT_EQ(arg(1, "Device Id"), -1);
  EXPECT_EQ(arg(2, "Bytes"), -512);
  EXPECT_EQ(ReadBack().ranks[1].activities.size(), r.activities.size()) << "readers skip them";
}

TEST_F(KinetoWriterTest, TheHeaderDescribesTheDevice) {
  EXPECT_THAT(Text(0), Not(HasSubstr("device_uuid")));
  capture_.ranks[0].properties.uuid = "GPU-1";
  EXPECT_THAT(Text(0), HasSubstr("\"device_uuid\": \"GPU-1\""));
}

TEST_F(KinetoWriterTest, OverlappingKernelsOfOneStreamGetSeparateLanes) {
  const std::string text = Text(0);
  EXPECT_THAT(text, HasSubstr("\"name\": \"stream 7 (lane 2) \""));
  EXPECT_THAT(text, HasSubstr("\"tid\": 10000007"));
}

TEST_F(KinetoWriterTest, AllRanksUseOneBaseAndTheJobClock) {
  capture::HostClock ahead;
  ahead.offset = Nanos(5000000);
  ahead.anchor = HostTime(kKinetoStart);
  ahead.bound = Nanos(1200);
  const capture::ClockModel clock({capture::HostClock{.bound = Nanos()}, ahead});
  simdjson::dom::parser first, second;
  const std::string a = Text(0, clock);
  const std::string b = Text(1, clock);
  EXPECT_EQ(first.parse(a)["baseTimeNanoseconds"].get_int64().value(),
            second.parse(b)["baseTimeNanoseconds"].get_int64().value());
  EXPECT_EQ(second.parse(b)["lockstep"]["clock"]["shifted_ns"].get_int64().value(), -5000000);
  EXPECT_EQ(second.parse(b)["lockstep"]["clock"]["bound_ns"].get_int64().value(), 1200);
  const capture::Capture back = ReadBack(clock);
  EXPECT_EQ(back.ranks[0].activities[0].start, HostTime(kKinetoStart + 1000));
  EXPECT_EQ(back.ranks[1].activities[0].start, HostTime(kKinetoStart + 1000 - 5000000));
  EXPECT_EQ(back.ranks[1].activities[0].end - back.ranks[1].activities[0].start, Nanos(4001))
      << "durations are the rank's own";
}

TEST_F(KinetoWriterTest, ReadingDropsThePlaceholderStepOfATraceWithoutSteps) {
  for (capture::RankData& r : capture_.ranks) r.ranges.clear();
  EXPECT_THAT(Text(0), HasSubstr("ProfilerStep#0"));
  EXPECT_TRUE(ReadBack().ranks[0].ranges.empty());
}

TEST_F(KinetoWriterTest, StepsOfOtherNamesBecomeProfilerSteps) {
  capture_.ranks[0].ranges[0].name = capture_.strings.Intern("iteration 12");
  EXPECT_THAT(Text(0), HasSubstr("\"ProfilerStep#12\""));
  // Without launches, HTA would drop every device row because of such steps.
  capture_.ranks[1].api_calls.clear();
  EXPECT_THAT(Text(1), Not(HasSubstr("ProfilerStep")));
  EXPECT_THAT(Text(1), HasSubstr("\"step 4\""));
}

// Returns all values of "key": N in rows that hold `mark`.
std::vector<double> NumbersOf(const std::string& text, const std::string& mark, const std::string& key) {
  std::vector<double> numbers;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const size_t end = text.find('\n', at);
    const size_t value = text.find("\"" + key + "\": ", at);
    EXPECT_LT(value, end) << mark;
    numbers.push_back(std::stod(text.substr(value + key.size() + 4)));
  }
  return numbers;
}

// TensorBoard's plugin adds ts and dur as doubles and refuses steps that overlap.
TEST_F(KinetoWriterTest, AdjacentStepsDoNotOverlapInDoublePrecision) {
  capture::RankData& rank = capture_.ranks[0];
  rank.ranges.clear();
  int64_t start = kKinetoStart;
  for (int step = 0; step < 500; ++step) {
    const int64_t end = start + 1234 + 7919 * step % 100003;
    rank.ranges.push_back({.start = HostTime(start),
                           .end = HostTime(end),
                           .name = capture_.strings.Intern("ProfilerStep#" + std::to_string(step)),
                           .thread = ThreadId(500),
                           .kind = capture::RangeKind::kStep});
    start = end;
  }
  const std::string text = Text(0);
  const std::vector<double> ts = NumbersOf(text, "\"ProfilerStep#", "ts"),
                            dur = NumbersOf(text, "\"ProfilerStep#", "dur");
  ASSERT_EQ(ts.size(), 500u);
  for (size_t i = 0; i + 1 < ts.size(); ++i) {
    ASSERT_LE(ts[i] + dur[i], ts[i + 1]) << i;
    ASSERT_NEAR(ts[i] + dur[i], ts[i + 1], 0.0011) << i;
  }
}

// Perfetto drops a row that extends one nanosecond beyond the row around it.
TEST_F(KinetoWriterTest, WritesAnnotationsOnlyForCommunicationOfAllRanksInCommonSteps) {
  const auto annotations = [&](const KinetoOptions& options) {
    StringSink sink;
    EXPECT_TRUE(WriteKineto(capture_, 0, {}, sink, options).ok());
    return NumbersOf(sink.text(), "\"name\": \"nccl:", "External id");
  };
  ASSERT_THAT(annotations({}), ElementsAre(15, 16)) << "the calls that launched the two";
  capture::Matches matches = capture::Match(capture_);
  ASSERT_EQ(matches.instances.size(), 2u);
  EXPECT_THAT(annotations({.matches = &matches}), ElementsAre(15, 16));
  matches.instances[matches.instance_of[0][0]].complete = false;
  EXPECT_THAT(annotations({.matches = &matches}), ElementsAre(16));
  const HostInterval until_second{HostTime(kKinetoStart), HostTime(kKinetoStart + 1600)};
  EXPECT_THAT(annotations({.annotated = until_second}), ElementsAre(15));
}

TEST_F(KinetoWriterTest, FileNamesHaveHostRankAndTime) {
  EXPECT_EQ(KinetoFileName(capture_, 0), "node-a_0.1790000000123.pt.trace.json.gz");
  EXPECT_EQ(KinetoFileName(capture_, 1), "node-b_1.1790000000123.pt.trace.json.gz");
  capture_.ranks[1].rank = RankId(0);
  EXPECT_EQ(KinetoFileName(capture_, 1), "node-b_0.1790000000124.pt.trace.json.gz");
}

TEST_F(KinetoWriterTest, NamesWithAnyBytesGiveValidJson) {
  std::string bytes;
  for (int c = 1; c < 256; ++c) bytes.push_back(static_cast<char>(c));
  capture_.ranks[0].activities[0].name = capture_.strings.Intern(bytes);
  capture_.hosts[0].name = bytes;
  simdjson::dom::parser parser;
  EXPECT_EQ(parser.parse(Text(0)).error(), simdjson::SUCCESS);
}

TEST_F(KinetoWriterTest, AnEmptyRankGivesAValidDocument) {
  capture_.ranks[0] = {};
  capture_.ranks[0].rank = RankId(0);
  simdjson::dom::parser parser;
  EXPECT_EQ(parser.parse(Text(0)).error(), simdjson::SUCCESS);
  StringSink sink;
  EXPECT_EQ(WriteKineto(capture_, 9, {}, sink).code(), absl::StatusCode::kInvalidArgument);
}

class FullDisk final : public ByteSink {
 public:
  absl::Status Append(std::string_view) override { return absl::ResourceExhaustedError("disk full"); }
  absl::Status Finish() override { return absl::OkStatus(); }
};

TEST_F(KinetoWriterTest, ReportsAnErrorOfTheSink) {
  FullDisk sink;
  EXPECT_EQ(WriteKineto(capture_, 0, {}, sink).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace lockstep::formats
