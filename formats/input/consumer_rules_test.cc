// Checks the rules of each consumer of Kineto files. Each test reads the text as that consumer does
// (docs/formats/consumers.md lists the rules and the tests of the other formats).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/files/byte_sink.h"
#include "capture/align/match.h"
#include "capture/model/timeline_builder_fixture.h"
#include "formats/common/kineto_names.h"
#include "formats/kineto/kineto_writer.h"

namespace lockstep::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Row {
  std::string phase, category, name;
  double ts = 0, dur = 0;
  int64_t pid = 0, tid = 0;
  bool has_time = false;
  std::map<std::string, std::string> args;  // values as JSON
  bool Has(const char* arg) const { return args.count(arg) != 0; }
};

// Reads the rows like a consumer that loads the whole file.
std::vector<Row> RowsOf(const std::string& text) {
  std::vector<Row> rows;
  simdjson::dom::parser parser;
  for (const simdjson::dom::element e : parser.parse(text)["traceEvents"].get_array()) {
    Row row;
    const auto string = [&](const char* key) {
      std::string_view value;
      return e[key].get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
    };
    row.phase = string("ph");
    row.category = string("cat");
    row.name = string("name");
    row.has_time = e["ts"].get(row.ts) == simdjson::SUCCESS && e["dur"].get(row.dur) == simdjson::SUCCESS;
    if (e["pid"].get(row.pid)) row.pid = -1;
    if (e["tid"].get(row.tid)) row.tid = -1;
    simdjson::dom::object args;
    if (e["args"].get(args) == simdjson::SUCCESS) {
      for (const auto field : args) row.args[std::string(field.key)] = simdjson::minify(field.value);
    }
    rows.push_back(row);
  }
  return rows;
}

bool OnDevice(const Row& row) {
  return row.category == "kernel" || row.category == "gpu_memcpy" || row.category == "gpu_memset";
}
bool Calls(const Row& row) { return row.category == "cuda_runtime" || row.category == "cuda_driver"; }

// A job of two steps on two ranks. The clock of the second rank's host is 3 ms ahead.
class ConsumerRules : public ::testing::Test {
 protected:
  void SetUp() override {
    capture::TimelineBuilder t;
    const uint32_t group = t.Group("dp", {0, 1});
    for (int rank = 0; rank < 2; ++rank) {
      const double base = rank * 3000.0;
      auto& r = t.Rank(rank, rank == 0 ? "node3" : "node4");
      for (int step = 0; step < 2; ++step) {
        const double at = base + 1000 * step;
        r.Step(7 + step, at, 1000)
            .Kernel("void gemm<float>(float*)", at + 20, 300, 7, at + 5)
            .Kernel("elementwise", at + 250, 100, 7, at + 10)
            .Copy(4096, at + 400, 50, 9, at + 30)
            .Communication({.group = group,
                            .source = capture::MatchSource::kNcclSequence,
                            .sequence = step,
                            .bytes = 1 << 20},
                           at + 500, 200 + 100 * rank, 15, at + 40);
      }
    }
    capture_ = t.Build();
    for (capture::RankData& rank : capture_.ranks) {
      rank.properties = {.name = "NVIDIA H100", .sms = 132};
      rank.has_properties = true;
      for (capture::Collective& c : rank.collectives) c.datatype = capture_.strings.Intern("ncclFloat32");
    }
    capture::Finish(capture_);
    matches_ = capture::Match(capture_);
    capture::HostClock ahead;
    ahead.offset = Nanos(3000000);
    ahead.anchor = capture_.ranks[1].activities[0].start;
    ahead.bound = Nanos(1000);
    clock_ = capture::ClockModel({capture::HostClock{.bound = Nanos()}, ahead});
  }

  std::string Text(uint32_t rank) const {
    StringSink sink;
    EXPECT_TRUE(WriteKineto(capture_, rank, clock_, sink, {.matches = &matches_}).ok());
    return sink.text();
  }

  capture::Capture capture_;
  capture::Matches matches_;
  capture::ClockModel clock_;
};

TEST_F(ConsumerRules, Hta1TheFirstMatchingLineNamesTheRank) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    std::istringstream lines(Text(rank));
    std::smatch match;
    std::string line;
    while (std::getline(lines, line) && !std::regex_search(line, match, std::regex("\"rank\":\\s+(\\d+)"))) {
    }
    ASSERT_EQ(match.size(), 2u);
    EXPECT_EQ(match[1], std::to_string(rank));
  }
}

TEST_F(ConsumerRules, Hta2RankIsTheFirstAndOnlyKeyOfThatName) {
  const std::string text = Text(1);
  EXPECT_LT(text.find("\"distributedInfo\""), text.find("\"traceEvents\""));
  EXPECT_EQ(text.find("\"rank\""), text.rfind("\"rank\""));
}

TEST_F(ConsumerRules, Hta3FilesHaveItsSuffixesAndRowsItsMembers) {
  const std::string name = KinetoFileName(capture_, 0);
  EXPECT_TRUE(name.ends_with(".gz"));
  for (const Row& row : RowsOf(Text(0))) {
    if (row.phase != "X") {
      EXPECT_THAT("MCisf", HasSubstr(row.phase)) << row.name;
      continue;
    }
    EXPECT_TRUE(row.has_time) << row.name;
    EXPECT_NE(row.category, "") << row.name;
  }
}

TEST_F(ConsumerRules, Hta4DeviceRowsHaveStreamAndCorrelationAndCallsHaveNoStream) {
  size_t device = 0, calls = 0;
  for (const Row& row : RowsOf(Text(0))) {
    if (OnDevice(row)) {
      EXPECT_TRUE(row.Has("stream") && row.Has("correlation")) << row.name;
      ++device;
    } else if (Calls(row)) {
      EXPECT_TRUE(row.Has("correlation"));
      EXPECT_FALSE(row.Has("stream"));
      ++calls;
    }
  }
  EXPECT_EQ(device, 8u);
  EXPECT_EQ(calls, 8u);
}

TEST_F(ConsumerRules, Hta5StepsNeedCallsWithTheCorrelationOfDeviceRows) {
  const auto steps_and_joined = [](const std::string& text) {
    std::set<std::string> called;
    size_t steps = 0, joined = 0;
    for (const Row& row : RowsOf(text)) {
      if (Calls(row)) called.insert(row.args.at("correlation"));
    }
    for (const Row& row : RowsOf(text)) {
      steps += row.name.starts_with("ProfilerStep#");
      joined += OnDevice(row) && called.count(row.args.at("correlation"));
    }
    return std::pair(steps, joined);
  };
  EXPECT_EQ(steps_and_joined(Text(0)), std::pair(size_t{2}, size_t{8}));
  capture_.ranks[0].api_calls.clear();
  EXPECT_EQ(steps_and_joined(Text(0)).first, 0u) << "it would drop every device row";
}

TEST_F(ConsumerRules, Hta6NamesMatchItsKernelTypes) {
  const std::regex communication("(^nccl.*)|(^hip)|(^hccl)|(.*ncclKernel.*)"), memory("^Memcpy|^Memset");
  for (const Row& row : RowsOf(Text(0))) {
    if (!OnDevice(row)) continue;
    EXPECT_EQ(std::regex_search(row.name, memory), row.category != "kernel") << row.name;
    EXPECT_EQ(std::regex_search(row.name, communication), row.Has("Collective name")) << row.name;
  }
}

TEST_F(ConsumerRules, Hta7RowsOfAllRanksShareAClockWithoutTheBase) {
  // HTA shifts all ranks by the smallest ts of any rank, so simultaneous events must have equal ts.
  const auto first_kernel = [](const std::string& text) {
    const std::vector<Row> rows = RowsOf(text);
    return std::find_if(rows.begin(), rows.end(), [](const Row& r) { return r.category == "kernel"; })->ts;
  };
  EXPECT_DOUBLE_EQ(first_kernel(Text(0)), first_kernel(Text(1)));
}

TEST_F(ConsumerRules, Hta8KernelsKeepTheirRecordedNames) {
  // HTA's get_potential_stragglers fails on current NCCL names. Older names would mislead all other
  // consumers.
  std::set<std::string> names;
  for (const Row& row : RowsOf(Text(0))) {
    if (row.category == "kernel") names.insert(row.name);
  }
  std::set<std::string> recorded;
  for (const capture::DeviceActivity& a : capture_.ranks[0].activities) {
    if (a.kind == capture::ActivityKind::kKernel) recorded.insert(std::string(capture_.Text(a.name)));
  }
  EXPECT_EQ(names, recorded);
}

TEST_F(ConsumerRules, TensorBoard1FileNamesHaveNodeAndWorker) {
  std::set<std::string> workers;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const std::string name = KinetoFileName(capture_, rank);
    std::smatch file, worker;
    ASSERT_TRUE(std::regex_match(name, file, std::regex("(.*?)(\\.\\d+)?\\.pt\\.trace\\.json(\\.gz)?")))
        << name;
    const std::string who = file[1];
    ASSERT_TRUE(std::regex_match(who, worker, std::regex("(.*)_(\\d+)"))) << who;
    EXPECT_EQ(worker[1], rank == 0 ? "node3" : "node4");
    workers.insert(who);
  }
  EXPECT_EQ(workers.size(), 2u);
}

TEST_F(ConsumerRules, TensorBoard2CommunicationIsFoundByAnAnnotationWithTheKernelsExternalId) {
  const std::set<std::string> known = {"nccl:broadcast", "nccl:reduce", "nccl:all_reduce", "nccl:all_gather",
                                       "nccl:reduce_scatter"};
  std::map<std::string, const Row*> annotations;
  const std::vector<Row> rows = RowsOf(Text(0));
  for (const Row& row : rows) {
    if (known.count(row.name)) annotations[row.args.at("External id")] = &row;
  }
  ASSERT_EQ(annotations.size(), 2u);
  size_t joined = 0;
  for (const Row& row : rows) {
    if (row.category != "kernel" || !row.Has("Collective name")) continue;
    const auto it = annotations.find(row.args.at("External id"));
    ASSERT_NE(it, annotations.end());
    // The plugin computes bytes as the elements of "Input Dims" times the size of "Input type".
    EXPECT_EQ(it->second->args.at("Input Dims"), "[[262144]]");
    EXPECT_EQ(it->second->args.at("Input type"), "[\"float\"]");
    ++joined;
  }
  EXPECT_EQ(joined, 2u);
}

TEST(ConsumerTypes, TensorBoard2EveryTypeHasAKnownTypeOfItsSize) {
  // The plugin's table (communication.py).
  const std::map<std::string_view, int> known = {{"long int", 8},      {"float", 4},
                                                 {"int", 4},           {"c10::Half", 2},
                                                 {"c10::BFloat16", 2}, {"unsigned char", 1}};
  for (const char* type : {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
                           "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3",
                           "ncclFloat8e5m2", "Char", "Bool", "Double", "Long", "Short"}) {
    const auto found = known.find(TensorBoardElementType(type));
    ASSERT_NE(found, known.end()) << type;
    EXPECT_EQ(found->second, capture::ElementBytes(type)) << type;
  }
  EXPECT_EQ(TensorBoardElementType("ComplexDouble"), "");
}

TEST_F(ConsumerRules, TensorBoard3EveryTraceHasAStepAndACall) {
  const auto has = [](const std::vector<Row>& rows, auto what) {
    return std::any_of(rows.begin(), rows.end(), what);
  };
  for (capture::RankData& rank : capture_.ranks) rank.ranges.clear();
  const std::vector<Row> rows = RowsOf(Text(0));
  EXPECT_TRUE(has(rows, [](const Row& r) { return r.name.starts_with("ProfilerStep#"); }));
  EXPECT_TRUE(has(rows, Calls));
}

TEST_F(ConsumerRules, TensorBoard4CommunicationHasTheSameIndexOnAllWorkers) {
  // The plugin counts the last part of each kernel as transfer, as long as the shortest kernel over the
  // workers. The rest counts as synchronising.
  std::vector<std::vector<Row>> of(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    for (const Row& row : RowsOf(Text(rank))) {
      if (row.category == "kernel" && row.Has("Collective name")) of[rank].push_back(row);
    }
  }
  ASSERT_EQ(of[0].size(), of[1].size());
  for (size_t k = 0; k < of[0].size(); ++k) {
    EXPECT_EQ(of[0][k].args.at("NCCL Seq"), of[1][k].args.at("NCCL Seq")) << k;
    EXPECT_NEAR(std::min(of[0][k].dur, of[1][k].dur), 200, 1e-3);
  }
  // If one worker had one more collective than the other, the plugin would compare wrong pairs. The writer
  // therefore leaves out the annotation of a collective that a rank lacks.
  const auto annotated = [&](uint32_t rank) {
    const std::vector<Row> rows = RowsOf(Text(rank));
    return std::count_if(rows.begin(), rows.end(), [](const Row& r) { return r.name.starts_with("nccl:"); });
  };
  matches_.instances[0].complete = false;
  EXPECT_EQ(annotated(0), 1);
  EXPECT_EQ(annotated(1), 1);
}

TEST_F(ConsumerRules, Chrome1ADeviceRowNeverStartsBeforeItsLaunch) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    std::map<std::string, double> called;
    const std::vector<Row> rows = RowsOf(Text(rank));
    for (const Row& row : rows) {
      if (Calls(row)) called[row.args.at("correlation")] = row.ts;
    }
    for (const Row& row : rows) {
      if (!OnDevice(row)) continue;
      EXPECT_GE(row.ts, called.at(row.args.at("correlation"))) << row.name;
    }
  }
}

TEST_F(ConsumerRules, Chrome2SlicesOfOneTrackDoNotOverlapWithoutNesting) {
  // Perfetto's importer drops such slices since v51. The two kernels of stream 7 overlap in this job.
  std::map<std::pair<int64_t, int64_t>, std::vector<Row>> tracks;
  for (const Row& row : RowsOf(Text(0))) {
    if (row.phase == "X" && OnDevice(row)) tracks[{row.pid, row.tid}].push_back(row);
  }
  EXPECT_EQ(tracks.size(), 4u) << "streams 7, 9 and 15 and a lane";
  for (auto& [track, rows] : tracks) {
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ts < b.ts; });
    for (size_t i = 1; i < rows.size(); ++i)
      EXPECT_GE(rows[i].ts, rows[i - 1].ts + rows[i - 1].dur - 1e-3) << rows[i].name;
  }
}

TEST_F(ConsumerRules, Chrome3NoRowExtendsBeyondTheStepAroundIt) {
  // Adjacent steps are written 1 ns short, so a call that ends with its step must be shortened with it.
  capture::RankData& rank = capture_.ranks[0];
  for (const capture::HostRange& step : rank.ranges) {
    rank.api_calls.push_back({.start = step.end - Nanos(1'000),
                              .end = step.end,
                              .name = capture_.strings.Intern("cudaStreamSynchronize"),
                              .correlation = CorrelationId(),
                              .thread = step.thread});
  }
  std::vector<double> steps, calls;
  for (const Row& row : RowsOf(Text(0))) {
    if (row.name.starts_with("ProfilerStep#")) steps.push_back(row.dur);
    if (row.name == "cudaStreamSynchronize") calls.push_back(row.dur);
  }
  EXPECT_THAT(steps, ElementsAre(999.999, 1000.0));
  EXPECT_THAT(calls, ElementsAre(0.999, 1.0));
}

TEST_F(ConsumerRules, Chrome4UnknownMembersAreOutsideTheEvents) {
  simdjson::dom::parser parser;
  const std::string text = Text(0);
  std::vector<std::string> members;
  for (const auto field : parser.parse(text).get_object()) members.emplace_back(field.key);
  EXPECT_THAT(members,
              ::testing::IsSupersetOf({"schemaVersion", "distributedInfo", "deviceProperties",
                                       "displayTimeUnit", "baseTimeNanoseconds", "traceEvents", "lockstep"}));
}

}  // namespace
}  // namespace lockstep::formats
