#include "formats/perfetto/perfetto_writer.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/files/byte_sink.h"
#include "perfetto_subset.pb.h"
#include "simdjson.h"

namespace lockstep::formats {
namespace {

namespace pb = lockstep::perfetto_subset;
using capture::ActivityKind;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr int64_t kPerfettoStart = 1790000000000000000;
constexpr const char* kAllReduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";

// A slice as a viewer shows it.
struct Shown {
  std::string process;
  std::string track;
  std::string name;
  std::string category;
  int64_t start = 0;
  int64_t end = -1;
  std::vector<uint64_t> flows;
  std::vector<uint64_t> last_flows;
  std::map<std::string, std::string> annotations;
};

// Decodes a trace as a viewer does, and fails on parts that a viewer would drop.
class Viewer {
 public:
  explicit Viewer(const std::string& bytes) {
    pb::Trace trace;
    EXPECT_TRUE(trace.ParseFromString(bytes));
    EXPECT_TRUE(trace.GetReflection()->GetUnknownFields(trace).empty());
    for (const pb::TracePacket& packet : trace.packet()) Take(packet);
    for (const auto& [track, stack] : open_) EXPECT_TRUE(stack.empty()) << tracks_[track].name();
  }

  std::vector<Shown> slices;
  std::vector<std::string> processes;
  std::map<std::string, std::vector<std::pair<int64_t, double>>> counters;  // values by "process/track"

  const Shown& Named(const std::string& name, size_t nth = 0) const {
    for (const Shown& s : slices) {
      if (s.name == name && nth-- == 0) return s;
    }
    ADD_FAILURE() << "no slice " << name;
    return slices.front();
  }

 private:
  struct Sequence {
    std::map<uint64_t, std::string> names, categories, annotation_names;
    bool begun = false;
  };

  void Take(const pb::TracePacket& packet) {
    EXPECT_TRUE(packet.GetReflection()->GetUnknownFields(packet).empty());
    ASSERT_NE(packet.trusted_packet_sequence_id(), 0u);
    Sequence& sequence = sequences_[packet.trusted_packet_sequence_id()];
    if ((packet.sequence_flags() & 1) != 0) sequence = {.begun = true};
    for (const auto& t : packet.interned_data().event_names()) sequence.names[t.iid()] = t.text();
    for (const auto& t : packet.interned_data().event_categories()) sequence.categories[t.iid()] = t.text();
    for (const auto& t : packet.interned_data().debug_annotation_names())
      sequence.annotation_names[t.iid()] = t.text();
    if (packet.has_track_descriptor()) {
      const pb::TrackDescriptor& d = packet.track_descriptor();
      EXPECT_TRUE(tracks_.emplace(d.uuid(), d).second) << "a track twice";
      if (d.has_process()) processes.push_back(d.process().process_name());
    }
    if (packet.has_track_event()) TakeEvent(packet, sequence);
  }

  void TakeEvent(const pb::TracePacket& packet, const Sequence& sequence) {
    const pb::TrackEvent& event = packet.track_event();
    ASSERT_TRUE(sequence.begun) << "needs interned texts before any were sent";
    ASSERT_TRUE(tracks_.contains(event.track_uuid()));
    const auto at = static_cast<int64_t>(packet.timestamp());
    std::vector<size_t>& stack = open_[event.track_uuid()];
    ASSERT_GE(at, latest_[event.track_uuid()]) << "a track goes back in time";
    latest_[event.track_uuid()] = at;
    if (event.type() == pb::TrackEvent::TYPE_COUNTER) {
      const pb::TrackDescriptor& track = tracks_[event.track_uuid()];
      ASSERT_TRUE(track.has_counter());
      counters[tracks_[track.parent_uuid()].process().process_name() + "/" + track.name()].emplace_back(
          at, event.double_counter_value());
      return;
    }
    ASSERT_FALSE(tracks_[event.track_uuid()].has_counter()) << "a slice on a counter's track";
    if (event.type() == pb::TrackEvent::TYPE_SLICE_END) {
      ASSERT_FALSE(stack.empty());
      slices[stack.back()].end = at;
      stack.pop_back();
      return;
    }
    Shown s;
    const pb::TrackDescriptor& track = tracks_[event.track_uuid()];
    s.track = track.name();
    s.process = tracks_[track.parent_uuid()].process().process_name();
    s.name = sequence.names.at(event.name_iid());
    s.category = sequence.categories.at(event.category_iids(0));
    s.start = at;
    s.flows.assign(event.flow_ids().begin(), event.flow_ids().end());
    s.last_flows.assign(event.terminating_flow_ids().begin(), event.terminating_flow_ids().end());
    for (const auto& a : event.debug_annotations()) {
      s.annotations[sequence.annotation_names.at(a.name_iid())] =
          a.has_string_value() ? a.string_value() : std::to_string(a.uint_value());
    }
    stack.push_back(slices.size());
    slices.push_back(std::move(s));
  }

  std::map<uint32_t, Sequence> sequences_;
  std::map<uint64_t, pb::TrackDescriptor> tracks_;
  std::map<uint64_t, std::vector<size_t>> open_;
  std::map<uint64_t, int64_t> latest_;
};

class PerfettoWriterTest : public ::testing::Test {
 protected:
  // Adds `ranks` ranks, each on its own host. Rank r enters the collective 1000 r ns late.
  void Fill(int ranks) {
    for (int i = 0; i < ranks; ++i) {
      capture_.hosts.push_back({.id = std::to_string(i), .name = "node" + std::to_string(i)});
      capture::RankData& r = capture_.ranks.emplace_back();
      r.rank = RankId(i);
      r.host = static_cast<uint32_t>(i);
      r.device = DeviceId(4);
      r.window = {HostTime(kPerfettoStart), HostTime(kPerfettoStart + 1000000)};
      r.activities = {Activity(1000, 2000, "gemm", 7, 1), Activity(1500, 1800, "gemm", 7, 2),
                      Activity(3000 + 1000 * i, 20000, kAllReduce, 20, 3),
                      Activity(30000, 30000, "empty", 7, 0)};
      r.activities.push_back({.start = HostTime(kPerfettoStart + 40000),
                              .end = HostTime(kPerfettoStart + 41000),
                              .stream = StreamId(7),
                              .detail = 0,
                              .kind = ActivityKind::kMemcpy});
      r.copy_details = {{.bytes = 1 << 20, .copy_kind = 2, .src_kind = 3, .dst_kind = 1}};
      r.api_calls = {{.start = HostTime(kPerfettoStart + 100),
                      .end = HostTime(kPerfettoStart + 200),
                      .name = capture_.strings.Intern("cudaLaunchKernel"),
                      .correlation = CorrelationId(1),
                      .thread = ThreadId(55)}};
      r.ranges = {{.start = HostTime(kPerfettoStart),
                   .end = HostTime(kPerfettoStart + 50000),
                   .name = capture_.strings.Intern("ProfilerStep#1"),
                   .thread = ThreadId(55)},
                  {.start = HostTime(kPerfettoStart + 50),
                   .end = HostTime(kPerfettoStart + 200),
                   .name = capture_.strings.Intern("forward"),
                   .thread = ThreadId(55)},
                  {.start = HostTime(kPerfettoStart + 150),
                   .end = HostTime(kPerfettoStart + 300),
                   .name = capture_.strings.Intern("crossing"),
                   .thread = ThreadId(55)}};
      r.syncs = {{.start = HostTime(kPerfettoStart + 400),
                  .end = HostTime(kPerfettoStart + 500),
                  .type = capture::SyncType::kStream}};
    }
    capture::Finish(capture_);
    matches_ = capture::Match(capture_);
  }
  capture::DeviceActivity Activity(int64_t start, int64_t end, const char* name, uint32_t stream,
                                   uint32_t correlation) {
    return {.start = HostTime(kPerfettoStart + start),
            .end = HostTime(kPerfettoStart + end),
            .name = capture_.strings.Intern(name),
            .stream = StreamId(stream),
            .correlation = CorrelationId(correlation)};
  }
  std::string Bytes(const capture::ClockModel& clock = {}) const {
    StringSink sink;
    EXPECT_TRUE(WritePerfetto(capture_, matches_, clock, sink).ok());
    return sink.text();
  }

  capture::Capture capture_;
  capture::Matches matches_;
};

TEST_F(PerfettoWriterTest, EveryRankIsAProcessWithItsStreamsThreadsAndSteps) {
  Fill(3);
  const Viewer viewer(Bytes());
  EXPECT_THAT(viewer.processes,
              ElementsAre("rank 0 · node0 · GPU 4", "rank 1 · node1 · GPU 4", "rank 2 · node2 · GPU 4"));
  std::set<std::string> tracks;
  for (const Shown& s : viewer.slices) {
    if (s.process.starts_with("rank 1")) tracks.insert(s.track);
  }
  EXPECT_THAT(tracks, UnorderedElementsAre("stream 7", "stream 7 (lane 2)", "stream 20", "steps", "thread 55",
                                           "thread 55 (lane 2)", "synchronisation"));
}

TEST_F(PerfettoWriterTest, DescribesDevicesAndStreams) {
  Fill(1);
  capture::RankData& r = capture_.ranks[0];
  r.properties.name = "NVIDIA H100";
  r.streams = {{.context = ContextId(1), .stream = StreamId(7), .type = capture::StreamType::kDefault},
               {.context = ContextId(1),
                .stream = StreamId(20),
                .priority = -5,
                .type = capture::StreamType::kNonBlocking}};
  const Viewer viewer(Bytes());
  EXPECT_THAT(viewer.processes, ElementsAre("rank 0 · node0 · GPU 4 (NVIDIA H100)"));
  std::set<std::string> tracks;
  for (const Shown& s : viewer.slices) tracks.insert(s.track);
  EXPECT_THAT(tracks, testing::IsSupersetOf(
                          {"stream 7 (default)", "stream 7 (default) (lane 2)", "stream 20 (priority -5)"}));
}

TEST_F(PerfettoWriterTest, TimesNamesAndCategoriesEqualTheCaptures) {
  Fill(1);
  const Viewer viewer(Bytes());
  const Shown& kernel = viewer.Named("gemm");
  EXPECT_EQ(kernel.start, kPerfettoStart + 1000);
  EXPECT_EQ(kernel.end, kPerfettoStart + 2000);
  EXPECT_EQ(kernel.category, "kernel");
  EXPECT_EQ(kernel.annotations.at("correlation"), "1");
  EXPECT_EQ(viewer.Named("gemm", 1).track, "stream 7 (lane 2)") << "it overlaps the first";
  const Shown& collective = viewer.Named(kAllReduce);
  EXPECT_EQ(collective.category, "communication");
  EXPECT_EQ(collective.annotations.at("operation"), "all_reduce");
  EXPECT_EQ(viewer.Named("empty").end, kPerfettoStart + 30000);
  const Shown& copy = viewer.Named("Memcpy DtoH (Device -> Pageable)");
  EXPECT_EQ(copy.category, "memcpy");
  EXPECT_EQ(copy.annotations.at("bytes"), "1048576");
  EXPECT_EQ(viewer.Named("ProfilerStep#1").track, "steps");
  EXPECT_EQ(viewer.Named("stream sync").end, kPerfettoStart + 500);
  EXPECT_EQ(viewer.Named("forward").track, "thread 55");
  EXPECT_EQ(viewer.Named("cudaLaunchKernel").track, "thread 55");
  EXPECT_EQ(viewer.Named("crossing").track, "thread 55 (lane 2)") << "it sticks out of the range before it";
  EXPECT_EQ(viewer.slices.size(), 10u);
}

TEST_F(PerfettoWriterTest, AFlowConnectsACollectiveAcrossRanksAndEndsAtTheLast) {
  Fill(4);
  const Viewer viewer(Bytes());
  std::set<uint64_t> flows, last;
  std::vector<std::string> ends_in;
  for (const Shown& s : viewer.slices) {
    if (s.category != "communication") continue;
    flows.insert(s.flows.begin(), s.flows.end());
    for (uint64_t f : s.last_flows) {
      if (f < (uint64_t{1} << 48)) {
        last.insert(f);
        ends_in.push_back(s.process);
      }
    }
  }
  EXPECT_EQ(flows.size(), 1u);
  EXPECT_EQ(last, flows);
  EXPECT_THAT(ends_in, ElementsAre("rank 3 · node3 · GPU 4"));
}

TEST_F(PerfettoWriterTest, AFlowConnectsALaunchOnlyToItsKernel) {
  Fill(2);
  const Viewer viewer(Bytes());
  std::map<uint64_t, int> ends;
  for (const Shown& s : viewer.slices) {
    for (uint64_t f : s.last_flows) ++ends[f];
  }
  std::set<uint64_t> starts;
  for (const Shown& s : viewer.slices) {
    if (s.name != "cudaLaunchKernel") continue;
    ASSERT_EQ(s.flows.size(), 1u);
    EXPECT_EQ(ends[s.flows[0]], 1);
    EXPECT_TRUE(starts.insert(s.flows[0]).second) << "two ranks share a flow";
  }
}

TEST_F(PerfettoWriterTest, EveryRankUsesTheJobClock) {
  Fill(2);
  const capture::ClockModel clock(
      {capture::HostClock{},
       capture::HostClock{.offset = Nanos(7000000), .drift = 50e-6, .anchor = HostTime(kPerfettoStart)}});
  const Viewer viewer(Bytes(clock));
  EXPECT_EQ(viewer.Named("gemm", 0).start, kPerfettoStart + 1000);
  EXPECT_EQ(viewer.Named("gemm", 2).start, kPerfettoStart + 1000 - 7000000);
}

// Returns the area under a counter, in nanoseconds at 100 %.
double AreaOf(const std::vector<std::pair<int64_t, double>>& values) {
  double area = 0;
  for (size_t i = 0; i + 1 < values.size(); ++i)
    area += values[i].second / 100 * static_cast<double>(values[i + 1].first - values[i].first);
  return area;
}

TEST_F(PerfettoWriterTest, WritesCountersOfUtilisationAndOccupancy) {
  Fill(1);
  capture::RankData& rank = capture_.ranks[0];
  rank.properties.sms = 100;
  rank.kernel_details = {{.grid = {50, 1, 1}, .block = {128, 1, 1}}};
  for (capture::DeviceActivity& a : rank.activities) {
    if (a.kind == ActivityKind::kKernel) a.detail = 0;
  }
  const Viewer viewer(Bytes());
  const auto& busy = viewer.counters.at("rank 0 · node0 · GPU 4/GPU busy");
  // Busy from 1000 to 2000 and from 3000 to 20000 ns. The second gemm runs inside the first, and the copy
  // does not count.
  EXPECT_NEAR(AreaOf(busy), 1000 + 17000, 1);
  EXPECT_EQ(busy.front().first, kPerfettoStart + 1000);
  EXPECT_EQ(busy.back().second, 0);
  // Each kernel fills half of the multiprocessors, and two kernels at the same time fill all.
  EXPECT_NEAR(AreaOf(viewer.counters.at("rank 0 · node0 · GPU 4/SM efficiency")),
              0.5 * (1000 + 17000) + 0.5 * 300, 1);
}

TEST_F(PerfettoWriterTest, WritesCountersOfQueuesAndCopyRates) {
  Fill(1);
  const Viewer viewer(Bytes());
  using Values = std::vector<std::pair<int64_t, double>>;
  EXPECT_EQ(viewer.counters.at("rank 0 · node0 · GPU 4/queued on stream 7"),
            (Values{{kPerfettoStart + 100, 1}, {kPerfettoStart + 1000, 0}}));
  // 1 MiB in one microsecond.
  EXPECT_EQ(viewer.counters.at("rank 0 · node0 · GPU 4/rate of Memcpy DtoH (Device -> Pageable)"),
            (Values{{kPerfettoStart + 40000, 1048.576}, {kPerfettoStart + 41000, 0}}));
  EXPECT_FALSE(viewer.counters.contains("rank 0 · node0 · GPU 4/queued on stream 20"))
      << "its launches were not recorded";
}

TEST_F(PerfettoWriterTest, WritesNoOccupancyCounterWithoutGrids) {
  Fill(1);
  EXPECT_FALSE(Viewer(Bytes()).counters.contains("rank 0 · node0 · GPU 4/SM efficiency"));
}

TEST_F(PerfettoWriterTest, FindingsAreSeparateTracksAboveTheRanks) {
  Fill(2);
  const TraceFinding findings[] = {{.title = "rank 1 · gpu_clock",
                                    .start = JobTime(kPerfettoStart),
                                    .end = JobTime(kPerfettoStart + 9000),
                                    .evidence = {"kernels +8.0%", "replace it"}},
                                   {.title = "rank 0 · copy",
                                    .start = JobTime(kPerfettoStart + 4000),
                                    .end = JobTime(kPerfettoStart + 20000)}};
  StringSink sink;
  ASSERT_TRUE(WritePerfetto(capture_, matches_, {}, sink, {.findings = findings}).ok());
  const Viewer viewer(sink.text());
  EXPECT_EQ(viewer.processes.size(), 3u);
  const Shown& first = viewer.Named("rank 1 · gpu_clock");
  EXPECT_EQ(first.process, "Lockstep: what holds the job back");
  EXPECT_EQ(first.end, kPerfettoStart + 9000);
  EXPECT_NE(first.track, viewer.Named("rank 0 · copy").track) << "they overlap";
}

std::map<std::string, std::string> MembersOf(const std::string& tar) {
  std::map<std::string, std::string> members;
  for (size_t at = 0; at + 512 <= tar.size() && tar[at] != '\0';) {
    const std::string name(tar.c_str() + at);
    const size_t size = std::stoull(tar.substr(at + 124, 11), nullptr, 8);
    EXPECT_EQ(tar.substr(at + 257, 5), "ustar");
    uint32_t sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? 0 : static_cast<uint8_t>(tar[at + i]);
    EXPECT_EQ(std::stoul(tar.substr(at + 148, 6), nullptr, 8), sum) << name;
    members[name] = tar.substr(at + 512, size);
    at += 512 + (size + 511) / 512 * 512;
  }
  EXPECT_EQ(tar.size() % 512, 0u);
  return members;
}

TEST_F(PerfettoWriterTest, AnArchiveHasEachRankOnItsClockWithOffsets) {
  Fill(3);
  capture_.ranks[2].host = 1;
  const capture::ClockModel clock(
      {capture::HostClock{}, capture::HostClock{.offset = Nanos(7000000), .anchor = HostTime(kPerfettoStart)},
       capture::HostClock{}});
  const TraceFinding findings[] = {
      {.title = "rank 1", .start = JobTime(kPerfettoStart), .end = JobTime(kPerfettoStart + 9000)}};
  StringSink sink;
  ASSERT_TRUE(WritePerfettoArchive(capture_, matches_, clock, sink, {.findings = findings}).ok());
  const auto members = MembersOf(sink.text());
  ASSERT_EQ(members.size(), 5u);
  EXPECT_EQ(Viewer(members.at("job.pftrace")).slices.size(), 1u);
  const Viewer rank(members.at("rank_00001_1.pftrace"));
  EXPECT_EQ(rank.Named("gemm").start, kPerfettoStart + 1000) << "as its host stamped it";
  EXPECT_EQ(rank.processes, std::vector<std::string>{"rank 1 · node1 · GPU 4"});

  const std::string& manifest = members.at("perfetto_manifest.json");
  EXPECT_EQ(manifest.rfind("{\"perfetto_manifest\"", 0), 0u) << "viewers know it by its beginning";
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.parse(manifest)["perfetto_manifest"].value();
  EXPECT_EQ(root["version"].get_int64().value(), 1);
  EXPECT_EQ(root["trace_time"]["file"].get_string().value(), "job.pftrace");
  std::map<std::string, std::string> machines;
  std::map<std::string, int64_t> offsets;
  for (const simdjson::dom::element file : root["files"].get_array()) {
    const std::string path(file["path"].get_string().value());
    EXPECT_TRUE(members.contains(path)) << path;
    machines[path] = std::string(file["machine"]["name"].get_string().value());
    if (file["clocks"].error() != simdjson::SUCCESS) continue;
    EXPECT_EQ(file["clocks"]["sync_to"]["file"].get_string().value(), "job.pftrace");
    offsets[path] = file["clocks"]["offset_ns"].get_int64().value();
  }
  EXPECT_EQ(machines.at("rank_00002_2.pftrace"), "node1");
  EXPECT_EQ(offsets.at("rank_00001_1.pftrace"), -7000000) << "the job's clock is behind that host's";
  EXPECT_FALSE(offsets.contains("rank_00002_2.pftrace")) << "a host has one clock";
}

TEST_F(PerfettoWriterTest, NamesOfAnyBytesAndLengthDecode) {
  Fill(1);
  std::string bytes;
  for (int i = 0; i < 30000; ++i) bytes.push_back(static_cast<char>(1 + i * 7 % 255));
  capture_.ranks[0].activities[0].name = capture_.strings.Intern(bytes);
  capture_.hosts[0].name = bytes;
  capture_.groups[0].name = bytes;
  const Viewer viewer(Bytes());
  EXPECT_EQ(viewer.slices.size(), 10u);
}

TEST_F(PerfettoWriterTest, AnEmptyCaptureGivesAnEmptyTrace) {
  EXPECT_EQ(Bytes(), "");
  capture_.ranks.resize(1);
  const Viewer viewer(Bytes());
  EXPECT_TRUE(viewer.slices.empty());
  EXPECT_EQ(viewer.processes.size(), 1u);
}

TEST_F(PerfettoWriterTest, WritesLargeCapturesInPieces) {
  class Counting final : public ByteSink {
   public:
    absl::Status Append(std::string_view bytes) override {
      largest = std::max(largest, bytes.size());
      text.append(bytes);
      return absl::OkStatus();
    }
    absl::Status Finish() override { return absl::OkStatus(); }
    size_t largest = 0;
    std::string text;
  };
  Fill(1);
  for (int i = 0; i < 50000; ++i)
    capture_.ranks[0].activities.push_back(Activity(100000 + 10 * i, 100005 + 10 * i, "k", 7, 0));
  Counting sink;
  ASSERT_TRUE(WritePerfetto(capture_, matches_, {}, sink).ok());
  EXPECT_LT(sink.largest, size_t{512} * 1024);
  const Viewer viewer(sink.text);
  EXPECT_EQ(viewer.slices.size(), 50010u);
}

}  // namespace
}  // namespace lockstep::formats
