#include "web/page/page.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/escaping.h"
#include "capture/model/timeline_builder_fixture.h"
#include "report/written_job_fixture.h"
#include "views/host/frames_fixture.h"
#include "web/page/flame_chart.h"
#include "web/page/memory_curve.h"
#include "web/page/packed_data.h"
#include "web/page/timeline.h"
#include "web/page/timeline_ranks.h"

namespace lockstep::web {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::string_view kOpening = R"(id="lockstep-data">)";

std::string Page(const capture::Capture& capture, const report::Analysis& analysis) {
  StringSink sink;
  EXPECT_TRUE(WritePage({.capture = capture, .analysis = analysis, .source = "x</script>"}, sink).ok());
  return sink.text();
}

std::string DataOf(const std::string& page) {
  const size_t begin = page.find(kOpening) + kOpening.size();
  return page.substr(begin, page.find('<', begin) - begin);
}

// The data that the page reads: the JSON and the numbers after it.
struct Unpacked {
  std::string json;
  std::vector<float> numbers;
};

Unpacked Unpack(const std::string& base64) {
  std::string packed;
  EXPECT_TRUE(absl::Base64Unescape(base64, &packed));
  std::string bytes(64u << 20, '\0');
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  uint32_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ(length % 4, 0u);
  Unpacked out{.json = bytes.substr(4, length),
               .numbers = std::vector<float>((bytes.size() - 4 - length) / 4)};
  std::memcpy(out.numbers.data(), bytes.data() + 4 + length, out.numbers.size() * 4);
  return out;
}

TEST(PackedDataTest, GivesBackWhatWasPutIn) {
  PackedData data;
  const NumbersAt exact = data.AddExact(std::vector<float>{1.5f, 16777215.0f});
  const NumbersAt rounded = data.AddRounded(std::vector<float>{
      123456789.0f, -3.0f, std::numeric_limits<float>::infinity(), 0.0f, std::numeric_limits<float>::max()});
  const auto sealed = data.Seal("{\"a\":1}");
  ASSERT_TRUE(sealed.ok());
  const Unpacked out = Unpack(*sealed);
  EXPECT_EQ(out.json, "{\"a\":1} ");
  ASSERT_THAT(out.numbers, SizeIs(7));
  EXPECT_EQ(exact.first, 0u);
  EXPECT_EQ(rounded.first, 2u);
  EXPECT_EQ(rounded.count, 5u);
  EXPECT_EQ(out.numbers[0], 1.5f);
  EXPECT_EQ(out.numbers[1], 16777215.0f);
  EXPECT_NEAR(out.numbers[2], 123456789.0f, 123456789.0f / 4096);
  EXPECT_EQ(std::bit_cast<uint32_t>(out.numbers[2]) & 0x7FFu, 0u)
      << "the low bits are what does not compress";
  EXPECT_EQ(out.numbers[3], -3.0f);
  EXPECT_TRUE(std::isnan(out.numbers[4])) << "an infinity is unknown";
  EXPECT_EQ(out.numbers[5], 0.0f);
  EXPECT_TRUE(std::isfinite(out.numbers[6]));
}

TEST(PageTest, LoadsNothingAndStaysSmall) {
  const std::string page(PageTemplate());
  EXPECT_THAT(page, SizeIs(testing::Le(500'000u)));
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  for (const char* asks : {"<script src", "<link rel=\"stylesheet\"", "@import", "url(http", "fetch("})
    EXPECT_THAT(page, Not(HasSubstr(asks)));
}

// Every name of this job contains markup.
TEST(PageTest, NoNameGetsOutOfTheData) {
  report::WrittenJob job = report::WriteJob(1);
  for (capture::Host& host : job.capture.hosts) host.name = "</script><script>alert(1)</script>";
  for (capture::Group& group : job.capture.groups) group.name = "<!--<script>";
  job.capture.job = "\"}<img src=x onerror=alert(1)>\xff";
  const report::Analysis analysis = report::Analyze(job.capture);
  const std::string page = Page(job.capture, analysis), data = DataOf(page);
  EXPECT_EQ(page.size() - data.size(), PageTemplate().size() - std::strlen("<!--LOCKSTEP_DATA-->"));
  EXPECT_EQ(data.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="),
            std::string::npos);
  EXPECT_THAT(Unpack(data).json, HasSubstr("</script><script>alert(1)</script>"));
}

TEST(PageTest, HasACellForEachStepAndRank) {
  for (const uint64_t seed : {2, 3, 4, 5}) {
    const report::WrittenJob job = report::WriteJob(seed);
    const report::Analysis analysis = report::Analyze(job.capture);
    const Unpacked out = Unpack(DataOf(Page(job.capture, analysis)));
    const size_t cells = analysis.report.steps.size() * job.capture.ranks.size();
    size_t first = 0;
    const size_t key = out.json.find("\"cell_duration\"");
    ASSERT_NE(key, std::string::npos);
    size_t count = 0;
    ASSERT_EQ(std::sscanf(out.json.c_str() + key, "\"cell_duration\": [ %zu, %zu", &first, &count), 2)
        << out.json.substr(key, 80);
    ASSERT_EQ(count, cells);
    size_t at = first;
    for (const report::StepRow& step : analysis.report.steps) {
      for (const report::StepRankRow& cell : step.ranks) {
        const auto ns = static_cast<float>(cell.duration.ns());
        EXPECT_NEAR(out.numbers[at++], ns, ns / 4096);
      }
    }
  }
}

TEST(TimelineTest, BoxesLieInTheWindowAndEveryRecordIsInOne) {
  for (const uint64_t seed : {2, 3, 4, 5, 6}) {
    const report::WrittenJob job = report::WriteJob(seed);
    const report::Analysis analysis = report::Analyze(job.capture);
    const Timeline timeline = MakeTimeline(job.capture, analysis);
    ASSERT_THAT(timeline.ranks, SizeIs(3));
    const auto length = static_cast<float>(timeline.window.length().ns());
    for (const TimelineRank& row : timeline.ranks) {
      uint64_t shown = 0, recorded = 0;
      for (const Lane& lane : row.lanes) {
        ASSERT_EQ(lane.start.size(), lane.length.size());
        for (size_t k = 0; k < lane.start.size(); ++k) {
          EXPECT_GE(lane.start[k], 0);
          EXPECT_LE(lane.start[k] + lane.length[k], length * 1.001f);
          EXPECT_LT(lane.name_at[k], static_cast<float>(timeline.names.size()));
          EXPECT_FALSE(lane.wait[k] > lane.length[k] * 1.001f);
          shown += static_cast<uint64_t>(lane.count[k]);
        }
      }
      for (const capture::RankData& rank : job.capture.ranks) {
        if (rank.rank != row.rank) continue;
        for (const capture::DeviceActivity& a : rank.activities) {
          const JobTime start = analysis.clock.ToJob(rank.host, a.start),
                        end = analysis.clock.ToJob(rank.host, a.end);
          if (end > timeline.window.start && start < timeline.window.end && end > start) ++recorded;
        }
      }
      EXPECT_EQ(shown, recorded);
      EXPECT_THAT(row.busy, Not(IsEmpty()));
    }
  }
}

// The GPU works from 0 to 400 us. One kernel waits from 10 to 350 us, another from 100 to 300 us.
TEST(TimelineTest, CountsTheWorkThatWaitsInQueues) {
  capture::TimelineBuilder t;
  t.Rank(0).Kernel("first", 0, 100).Kernel("second", 300, 20, 7, 100).Kernel("third", 350, 50, 7, 10);
  t.Rank(1).Kernel("first", 0, 400);
  const capture::Capture capture = t.Build();
  const Timeline timeline = MakeTimeline(capture, report::Analyze(capture));
  const auto row = std::find_if(timeline.ranks.begin(), timeline.ranks.end(),
                                [](const TimelineRank& r) { return r.rank == RankId(0); });
  ASSERT_NE(row, timeline.ranks.end());
  ASSERT_EQ(row->queued.size(), row->busy.size());
  const auto at = [&](double us) {
    return row->queued[static_cast<size_t>(us * 1000 / static_cast<double>(row->busy_width.ns()))];
  };
  EXPECT_EQ(at(5), 0);
  EXPECT_EQ(at(50), 1);
  EXPECT_EQ(at(200), 2);
  EXPECT_EQ(at(330), 1);
  EXPECT_EQ(at(380), 0);
  double waited = 0;
  for (const float queued : row->queued) waited += queued * static_cast<double>(row->busy_width.ns());
  EXPECT_NEAR(waited, 340'000 + 200'000, 100);
  for (const TimelineRank& other : timeline.ranks) {
    EXPECT_EQ(other.queued.empty(), other.rank == RankId(1)) << "no launch of rank 1 is known";
  }
}

TEST(TimelineTest, ShowsThreeRanksOfWhichTheFirstIsTheCulprit) {
  const report::WrittenJob job = report::WriteJob(7);
  report::Analysis analysis = report::Analyze(job.capture);
  report::StragglerRow found{.kind = "rank", .ranks = {analysis.report.ranks[1].rank}};
  analysis.report.stragglers = {found};
  const auto chosen = ChooseRanks(job.capture, analysis);
  ASSERT_THAT(chosen, SizeIs(3));
  EXPECT_EQ(chosen[0].index, 1u);
  EXPECT_EQ(chosen[0].part, "culprit");
  EXPECT_NE(chosen[1].index, 1u);
  EXPECT_NE(chosen[2].index, chosen[1].index);
  EXPECT_NE(chosen[2].index, 1u);
}

TEST(TimelineTest, TheHealthyRankIsOfTheCulpritsStage) {
  // Besides culprit and victim there are four ranks with equal activities.
  capture::TimelineBuilder t;
  for (int rank = 0; rank < 6; ++rank) t.Rank(rank).Step(1, 0, 100).Kernel("gemm", 10, 50 + rank);
  const capture::Capture capture = t.Build();
  report::Analysis analysis = report::Analyze(capture);
  analysis.report.stragglers = {{.kind = "rank", .ranks = {RankId(5)}}};
  for (const uint32_t peer : {0u, 1u, 3u}) {
    analysis.stage_of = {0, 0, 0, 0, 0, 1};
    analysis.stage_of[peer] = 1;
    const auto chosen = ChooseRanks(capture, analysis);
    ASSERT_THAT(chosen, SizeIs(3));
    if (chosen[1].index == peer) continue;  // the records decide which rank waited most
    EXPECT_EQ(chosen[2].index, peer);
  }
  analysis.stage_of = {0, 0, 0, 0, 0, 1};
  EXPECT_THAT(ChooseRanks(capture, analysis), SizeIs(3))
      << "alone in its stage: another one is better than none";
}

// conv holds 100 from 12 us to 70 us, relu 50 from 65 us on, and 900 others are in use from the start.
TEST(MemoryCurveTest, NamesTheOwnersOfItsPeaks) {
  capture::TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 1);
  capture::Capture capture = t.Build();
  views::FramesBuilder(capture)
      .Frame("aten::conv2d", 0, 50)
      .Frame("aten::relu", 60, 90)
      .Allocation(12, 100, 0, 0xA)
      .Allocation(65, 50, 0, 0xC)
      .Allocation(70, -100, 0, 0xA)
      .Allocation(75, 8, -1, 0xA)
      .To(0);
  const std::vector<MemoryCurve> curves = MakeMemoryCurves(capture);
  ASSERT_THAT(curves, SizeIs(2));
  EXPECT_EQ(curves[0].place, "GPU0");
  EXPECT_EQ(curves[1].place, "host");
  EXPECT_THAT(curves[0].time_ns, testing::ElementsAre(0, 53'000, 58'000));
  EXPECT_THAT(curves[0].in_use_bytes, testing::ElementsAre(100, 150, 50));
  ASSERT_THAT(curves[0].peaks, SizeIs(2));
  const MemoryPeak& peak = curves[0].peaks[0];
  EXPECT_EQ(peak.bytes, 150);
  EXPECT_EQ(peak.time, Nanos::Micros(53));
  ASSERT_THAT(peak.owners, SizeIs(2));
  EXPECT_EQ(peak.owners[0].name, "aten::conv2d");
  EXPECT_EQ(peak.owners[0].bytes, 100);
  EXPECT_EQ(peak.owners[1].name, "aten::relu");
  EXPECT_EQ(peak.owners[1].bytes, 50);
  EXPECT_EQ(peak.unknown_bytes, 0);
}

TEST(MemoryCurveTest, KeepsTheHighestPointOfEachBin) {
  capture::TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 1);
  capture::Capture capture = t.Build();
  views::FramesBuilder frames(capture);
  for (int k = 0; k < 5000; ++k) {
    frames.Allocation(10 + 2 * k, k == 3333 ? 5000 : 100, 0, static_cast<uint64_t>(k + 1));
    frames.Allocation(11 + 2 * k, k == 3333 ? -5000 : -100, 0, static_cast<uint64_t>(k + 1));
  }
  frames.To(0);
  const std::vector<MemoryCurve> curves = MakeMemoryCurves(capture);
  ASSERT_THAT(curves, SizeIs(1));
  EXPECT_THAT(curves[0].time_ns, SizeIs(testing::Le(900u)));
  EXPECT_EQ(*std::max_element(curves[0].in_use_bytes.begin(), curves[0].in_use_bytes.end()), 5000);
  EXPECT_EQ(*std::min_element(curves[0].in_use_bytes.begin(), curves[0].in_use_bytes.end()), 0);
  EXPECT_TRUE(std::is_sorted(curves[0].time_ns.begin(), curves[0].time_ns.end()));
  ASSERT_THAT(curves[0].peaks, SizeIs(1)) << "the others are much lower";
  EXPECT_EQ(curves[0].peaks[0].time, Nanos::Micros(2 * 3333));
}

// The page has the actions and the names of the text report.
// Rank 0 spends 60 us in the operator, rank 1 spends 20 us.
TEST(FlameChartTest, HasTheMeanAndTheTimesOfRanks) {
  capture::TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 20, 60, 7, 12).Kernel("tiny", 90, 0.01, 7, 13);
  t.Rank(1).Kernel("gemm", 20, 20, 7, 12);
  t.Rank(2).Kernel("gemm", 20, 10, 7, 12);
  capture::Capture capture = t.Build();
  for (uint32_t entry = 0; entry < 3; ++entry)
    views::FramesBuilder(capture).Frame("aten::mm", 10, 50).Frame("aten::inner", 30, 40).To(entry);
  const RankId shown[] = {RankId(1), RankId(0)};
  const std::vector<FlameChart> charts = MakeFlameCharts(capture, shown);
  ASSERT_THAT(charts, SizeIs(2)) << "no Python";
  const FlameChart& device = charts[0];
  EXPECT_EQ(device.kind, views::FlameKind::kDevice);
  EXPECT_EQ(device.names, (std::vector<std::string>{"aten::mm", "gemm"}));
  EXPECT_EQ(device.name_at, (std::vector<float>{0, 1}));
  EXPECT_EQ(device.parent, (std::vector<float>{-1, 0}));
  EXPECT_FLOAT_EQ(device.mean_ns[1], 30000) << "of three ranks";
  EXPECT_EQ(device.counted_ranks, 3u);
  EXPECT_EQ(device.left_out, 1u) << "10 ns of 60 us cannot be seen";
  ASSERT_THAT(device.ranks, SizeIs(2));
  EXPECT_EQ(device.ranks[0].rank, RankId(1));
  EXPECT_EQ(device.ranks[0].time_ns, (std::vector<float>{20000, 20000}));
  EXPECT_EQ(device.ranks[1].time_ns, (std::vector<float>{60010, 60000}));
  EXPECT_EQ(charts[1].kind, views::FlameKind::kHost);
  EXPECT_EQ(charts[1].ranks[0].time_ns, (std::vector<float>{40000, 10000}));
}

TEST(FlameChartTest, ChartsNeedFramesAroundKernels) {
  capture::TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 20, 60);
  const capture::Capture capture = t.Build();
  EXPECT_THAT(MakeFlameCharts(capture, {}), IsEmpty());
}

TEST(PageTest, HasTheWordsOfTheTextReport) {
  const report::WrittenJob job = report::WriteJob(7);
  report::Analysis analysis = report::Analyze(job.capture);
  report::StragglerRow found{
      .kind = "rank", .ranks = {analysis.report.ranks[1].rank}, .cause = "gpu_clock", .verdict = "sure"};
  found.lost_ns_per_step = 0.2 * analysis.report.slowdown.step_ns.value_or(1e9);
  found.action = "read its clocks";
  analysis.report.stragglers = {found};
  const std::string json = Unpack(DataOf(Page(job.capture, analysis))).json;
  EXPECT_THAT(json, HasSubstr(R"("text": "read its clocks")"));
  EXPECT_THAT(json, HasSubstr(R"("cause": "slow GPU")"));
  EXPECT_THAT(json, HasSubstr(R"("members": [)"));
}

TEST(TimelineTest, NothingIsShownOfNothing) {
  const capture::Capture empty;
  const report::Analysis analysis = report::Analyze(empty);
  EXPECT_THAT(MakeTimeline(empty, analysis).ranks, IsEmpty());
  EXPECT_THAT(Unpack(DataOf(Page(empty, analysis))).json, HasSubstr("nothing was recorded"));
}

}  // namespace
}  // namespace lockstep::web
