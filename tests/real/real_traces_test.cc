// Compares reports of real traces, if ../shared is there, with the numbers that others published for them.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "capture/infer/infer_groups.h"
#include "formats/common/byte_source.h"
#include "formats/input/read_input.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "report/report.h"
#include "tests/support/report_check.h"

namespace lockstep::report {
namespace {

using testing::HasSubstr;

std::optional<capture::Capture> Real(const std::string& set) {
  const std::filesystem::path folder =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared" / "traces" / set;
  if (!std::filesystem::exists(folder)) {
    std::cout << "not tested: " << set << " is not there (../shared/traces)\n";
    return std::nullopt;
  }
  auto capture = formats::ReadInput(std::vector<std::string>{folder.string()}, {});
  EXPECT_TRUE(capture.ok()) << capture.status();
  if (!capture.ok()) return std::nullopt;
  return std::move(*capture);
}

struct TrueClock {
  double offset_ns;
  double drift;
};

// Shifts every rank's clock by up to 10 ms, with a drift of up to 50 ppm.
std::vector<TrueClock> SetClocksOff(capture::Capture& capture, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<TrueClock> clocks;
  for (capture::RankData& rank : capture.ranks) {
    const TrueClock clock{unit(random) * 1e7, unit(random) * 50e-6};
    const HostTime base = rank.window.start;
    const auto off = [&](HostTime t) {
      return HostTime(t.ns() + static_cast<int64_t>(clock.offset_ns +
                                                    clock.drift * static_cast<double>((t - base).ns())));
    };
    const auto shift = [&](auto& rows) {
      for (auto& row : rows) row.start = off(row.start), row.end = off(row.end);
    };
    shift(rank.activities);
    shift(rank.api_calls);
    shift(rank.syncs);
    shift(rank.ranges);
    shift(rank.unions.operators);
    shift(rank.unions.data_loader);
    rank.window = {off(rank.window.start), off(rank.window.end)};
    clocks.push_back(clock);
  }
  return clocks;
}

double Millis(Nanos n) { return n.millis(); }

// Latest-start waits on the common clock of these traces, in microseconds.
constexpr double kDlrmWaitUs[8] = {5580, 11125, 3280, 9571, 6370, 6041, 3342, 1534};

void ExpectDlrm(const Report& report) {
  tests::CheckedJson(report);
  tests::ExpectConsistent(report);
  ASSERT_EQ(report.ranks.size(), 8u);
  EXPECT_NEAR(Millis(report.ranks[7].caused_wait), 35.55, 0.05);
  EXPECT_NEAR(Millis(report.ranks[5].caused_wait), 6.28, 0.05);
  EXPECT_NEAR(Millis(report.ranks[4].caused_wait), 5.01, 0.05);
  ASSERT_TRUE(report.ranks[7].late_from_before.has_value());
  EXPECT_NEAR(Millis(*report.ranks[7].late_from_before), 7.513, 0.02);
  for (size_t r = 0; r < 8; ++r) {
    EXPECT_NEAR(static_cast<double>(report.ranks[r].wait->ns()) / 1e3, kDlrmWaitUs[r], 20) << "rank " << r;
    EXPECT_NEAR(static_cast<double>(report.ranks[r].wait_by_clock->ns()) / 1e3, kDlrmWaitUs[r], 20)
        << "rank " << r;
  }
  ASSERT_FALSE(report.stragglers.empty());
  EXPECT_EQ(report.stragglers[0].ranks, std::vector<RankId>{RankId(7)});
  EXPECT_EQ(report.stragglers[0].cause, "unknown");
  EXPECT_EQ(report.stragglers[0].verdict, "undecided") << "one step proves nothing";
  const std::string text = RenderText(report, {.width = 200});
  EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr("the others wait for rank 7"));
  EXPECT_THAT(text, HasSubstr("rank 7 came 7.51 ms late from before the window, cause unknown"));
}

TEST(RealTraces, EightRanksOfDlrmWaitForRankSeven) {
  const auto capture = Real("param_dlrm_8rank");
  if (!capture) return;
  const Analysis analysis = Analyze(*capture);
  ExpectDlrm(analysis.report);
  EXPECT_EQ(analysis.report.capture.matching.matched_fraction, 1.0);
  // The clocks agree, so that every bound must include 0.
  for (const auto& clock : analysis.clock.hosts()) EXPECT_LE(std::llabs(clock.offset.ns()), clock.bound.ns());
}

TEST(RealTraces, TensorBoardsSamplesHaveTwoSpans) {
  const std::filesystem::path samples =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared" / "traces" / "tb_plugin_samples";
  if (!std::filesystem::exists(samples))
    GTEST_SKIP() << "not tested: the samples are not there (../shared/traces)";
  const auto read = [](const std::filesystem::path& path, formats::SpanChoice span) {
    return formats::ReadInput(std::vector<std::string>{path.string()}, {.span = span});
  };
  const std::filesystem::path folder = samples / "resnet50_num_workers_0";
  for (const auto& [number, file] :
       {std::pair(1, "worker0.1623143089861"), std::pair(2, "worker0.1623143566756")}) {
    const auto chosen = read(folder, {formats::SpanChoice::Kind::kNumber, number});
    const auto alone = read(folder / (std::string(file) + ".pt.trace.json.gz"), {});
    ASSERT_TRUE(chosen.ok() && alone.ok()) << chosen.status() << alone.status();
    EXPECT_EQ(chosen->ranks.at(0).source_file, alone->ranks.at(0).source_file);
    EXPECT_EQ(chosen->ranks.at(0).activities.size(), alone->ranks.at(0).activities.size());
  }
  const auto latest = read(folder, {});
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_THAT(latest->notes,
              testing::Contains(HasSubstr("2 spans found; reading the last that all ranks have, span 2")));
  EXPECT_THAT(std::string(read(samples, {}).status().message()), HasSubstr("are of two jobs"));
}

TEST(RealTraces, ClockOffsetsOfTenMillisecondsDoNotChangeDlrmsReport) {
  std::mt19937_64 random(4);
  for (int trial = 0; trial < 6; ++trial) {
    auto capture = Real("param_dlrm_8rank");
    if (!capture) return;
    SetClocksOff(*capture, random);
    ExpectDlrm(Analyze(*capture).report);
  }
}

// Returns the eight files as text by rank, or nothing if they are not there.
std::vector<std::string> DlrmTexts() {
  const std::filesystem::path folder =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared" / "traces" / "param_dlrm_8rank";
  std::vector<std::string> texts;
  if (!std::filesystem::exists(folder)) {
    std::cout << "not tested: param_dlrm_8rank is not there (../shared/traces)\n";
    return texts;
  }
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    auto opened = formats::OpenTrace(path.string());
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return {};
    std::string text, piece(1 << 16, '\0');
    while (const size_t n = opened->source->Read(piece)) text.append(piece, 0, n);
    texts.push_back(std::move(text));
  }
  EXPECT_EQ(texts.size(), 8u);
  return texts;
}

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("lockstep-dlrm-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void Write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }
  Report Analyzed() const {
    auto capture = formats::ReadInput(std::vector<std::string>{path_.string()}, {});
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? Analyze(*capture).report : Report{};
  }

 private:
  std::filesystem::path path_;
};

std::string WithRank(std::string text, int was, int is) {
  const std::string stated = "\"rank\": " + std::to_string(was) + ",";
  const size_t at = text.find(stated);
  EXPECT_NE(at, std::string::npos);
  return at == std::string::npos ? text
                                 : text.replace(at, stated.size(), "\"rank\": " + std::to_string(is) + ",");
}

// Returns the file with its events in random order.
std::string Shuffled(const std::string& text, std::mt19937_64& random) {
  const std::string begin = "\"traceEvents\": [\n", between = "\n  },\n";
  const size_t first = text.find(begin) + begin.size(), last = text.rfind("\n  }");
  std::vector<std::string> events;
  for (size_t at = first; at < last;) {
    const size_t end = std::min(last, text.find(between, at));
    events.push_back(text.substr(at, end - at));
    at = end + between.size();
  }
  EXPECT_GT(events.size(), 500u);
  std::shuffle(events.begin(), events.end(), random);
  std::string out = text.substr(0, first);
  for (size_t i = 0; i < events.size(); ++i) out += (i > 0 ? between : "") + events[i];
  return out + text.substr(last);
}

TEST(RealTraces, DlrmsStragglerFollowsItsRankNumber) {
  const std::vector<std::string> texts = DlrmTexts();
  if (texts.empty()) return;
  std::mt19937_64 random(12);
  for (int trial = 0; trial < 3; ++trial) {
    std::vector<int> number = {0, 1, 2, 3, 4, 5, 6, 7};
    if (trial > 0) std::shuffle(number.begin(), number.end(), random);
    const Folder folder;
    for (int r = 0; r < 8; ++r) {
      const auto i = static_cast<size_t>(r);
      std::string text = WithRank(texts[i], r, number[i]);
      if (trial == 2) text = Shuffled(text, random);
      folder.Write("trace-" + std::string(1, static_cast<char>('a' + (r * 3 + trial) % 8)) + ".json", text);
    }
    const Report report = folder.Analyzed();
    tests::CheckedJson(report);
    ASSERT_FALSE(report.stragglers.empty());
    EXPECT_EQ(report.stragglers[0].ranks, std::vector<RankId>{RankId(number[7])}) << "trial " << trial;
    EXPECT_THAT(RenderText(report, {.width = 300}),
                HasSubstr("the others wait for rank " + std::to_string(number[7])));
    EXPECT_NEAR(Millis(report.ranks[static_cast<size_t>(number[7])].caused_wait), 35.55, 0.05);
  }
}

TEST(RealTraces, NamesDlrmsStragglerWithBoundsWhenRanksAreMissing) {
  const std::vector<std::string> texts = DlrmTexts();
  if (texts.empty()) return;
  for (const std::vector<int>& missing :
       {std::vector{2}, std::vector{0, 5}, std::vector{1, 3, 4, 6}, std::vector{7}}) {
    const Folder folder;
    for (int r = 0; r < 8; ++r) {
      if (std::find(missing.begin(), missing.end(), r) == missing.end())
        folder.Write("rank" + std::to_string(r) + ".json", texts[static_cast<size_t>(r)]);
    }
    const Report report = folder.Analyzed();
    tests::CheckedJson(report);
    const std::string text = RenderText(report, {.width = 400, .lines = 0});
    EXPECT_EQ(report.capture.missing_ranks.size(), missing.size());
    EXPECT_EQ(report.capture.matching.matched_fraction, 1.0) << text;
    EXPECT_THAT(text, HasSubstr("collectives lack ranks or records: what the others waited for each other is "
                                "the least it can be"));
    EXPECT_THAT(text, HasSubstr("MISSING rank"));
    EXPECT_FALSE(report.ranks[0].wait.has_value()) << "an instance without a member is not split";
    if (missing[0] == 7) continue;
    EXPECT_THAT(text, HasSubstr("the others wait for rank 7"));
    ASSERT_FALSE(report.stragglers.empty());
    EXPECT_EQ(report.stragglers[0].ranks, std::vector<RankId>{RankId(7)});
  }
}

TEST(RealTraces, TwoRanksOfDdpHaveNoFalseOffset) {
  for (const std::string set : {"bert_ddp_2rank", "resnet50_ddp_2rank"}) {
    const auto capture = Real(set);
    if (!capture) return;
    const Analysis analysis = Analyze(*capture);
    tests::CheckedJson(analysis.report);
    tests::ExpectConsistent(analysis.report);
    ASSERT_EQ(analysis.clock.hosts().size(), 2u);
    for (const auto& clock : analysis.clock.hosts()) {
      EXPECT_LT(std::llabs(clock.offset.ns()), 50'000) << set;
      EXPECT_LE(std::llabs(clock.offset.ns()), clock.bound.ns()) << set;
    }
  }
}

TEST(RealTraces, TheBoundCoversAddedClockOffsetsOfDdp) {
  std::mt19937_64 random(8);
  for (const std::string set : {"bert_ddp_2rank", "resnet50_ddp_2rank"}) {
    for (int trial = 0; trial < 3; ++trial) {
      auto capture = Real(set);
      if (!capture) return;
      const HostTime base[2] = {capture->ranks[0].window.start, capture->ranks[1].window.start};
      const auto truth = SetClocksOff(*capture, random);
      const Analysis analysis = Analyze(*capture);
      for (const double share : {0.0, 0.5, 1.0}) {
        // The same moment on both clocks, which agreed before the shift.
        const auto length =
            static_cast<double>((capture->ranks[0].window.end - capture->ranks[0].window.start).ns());
        const int64_t at = base[0].ns() + static_cast<int64_t>(share * length);
        JobTime on_job[2];
        for (uint32_t r = 0; r < 2; ++r) {
          const double lead = truth[r].offset_ns + truth[r].drift * static_cast<double>(at - base[r].ns());
          on_job[r] = analysis.clock.ToJob(capture->ranks[r].host, HostTime(at + static_cast<int64_t>(lead)));
        }
        const Nanos error = on_job[0] - on_job[1];
        EXPECT_LE(std::llabs(error.ns()), analysis.clock.bound().ns()) << set;
        // One set has small all-reduces, which determine the clocks well. The other has none, and its three
        // clear waits in 24 s do not determine the drift.
        EXPECT_LT(std::llabs(error.ns()), set == "bert_ddp_2rank" ? 300'000 : 1'500'000) << set;
      }
    }
  }
}

TEST(RealTraces, AlignsAWindowWithLostCollectivesAndReportsTheLoss) {
  auto capture = Real("bert_ddp_2rank");
  if (!capture) return;
  const capture::Matches whole = capture::Match(*capture);
  EXPECT_EQ(whole.MatchedFraction(), 1.0);
  // Rank 1's window begins two collectives later, as in the recorded sets with 27 and 29 collectives.
  capture::RankData& rank = capture->ranks[1];
  const HostTime from = rank.activities[rank.collectives[2].activity].start;
  std::erase_if(rank.activities, [&](const auto& a) { return a.start < from; });
  capture->groups.clear();
  for (capture::RankData& each : capture->ranks) {
    each.collectives.clear();
    for (auto& a : each.activities) a.collective = capture::kNone;
  }
  capture::Finish(*capture);
  const capture::Matches cut = capture::Match(*capture);
  EXPECT_EQ(cut.by_order, whole.by_inferred - 2);
  EXPECT_EQ(cut.cut_by_window, 2u);
  EXPECT_EQ(cut.unmatched, 0u);
  for (const auto& instance : cut.instances) {
    if (!instance.complete) continue;
    EXPECT_EQ(instance.members[0].collective, instance.members[1].collective + 2);
  }
}

TEST(RealTraces, RenumberedRanksAndShuffledRowsGiveTheSameResults) {
  auto capture = Real("param_dlrm_8rank");
  if (!capture) return;
  const Report before = Analyze(*capture).report;
  std::mt19937_64 random(6);
  capture->groups.clear();
  for (capture::RankData& rank : capture->ranks) {
    rank.rank = RankId((rank.rank.value() + 3) % 8);
    for (auto& a : rank.activities) a.collective = capture::kNone;
    rank.collectives.clear();
    std::shuffle(rank.activities.begin(), rank.activities.end(), random);
    std::shuffle(rank.api_calls.begin(), rank.api_calls.end(), random);
    std::shuffle(rank.ranges.begin(), rank.ranges.end(), random);
  }
  capture::Finish(*capture);
  capture::InferGroups(*capture);
  const Report after = Analyze(*capture).report;
  ASSERT_FALSE(after.stragglers.empty());
  EXPECT_EQ(after.stragglers[0].ranks, std::vector<RankId>{RankId(2)});
  for (size_t r = 0; r < 8; ++r) {
    const RankRow& a = before.ranks[r];
    const RankRow& b = after.ranks[(r + 3) % 8];
    EXPECT_EQ(a.compute, b.compute);
    EXPECT_EQ(a.exposed_wait, b.exposed_wait);
    EXPECT_EQ(a.caused_wait, b.caused_wait);
  }
}

TEST(RealTraces, SingleRanksOfLargerJobsGiveAReportWithLimits) {
  for (const std::string set : {"a100_collective_args", "v100_2020_allreduce", "ns_timestamps",
                                "v100_step_pair_rank1", "v100_step_pair_rank3"}) {
    const auto capture = Real(set);
    if (!capture) return;
    const Report report = Analyze(*capture).report;
    tests::CheckedJson(report);
    tests::ExpectConsistent(report);
    EXPECT_TRUE(report.stragglers.empty()) << set << ": one rank cannot delay others";
  }
}

// A job on one GPU is compared with its own steps. The report may name the few milliseconds that the host
// lost in some of them. It must name nothing larger, because the same cost in every step cannot be detected.
TEST(RealTraces, ComparesAJobOfOneRankWithItsOwnSteps) {
  for (const std::string set :
       {"resnet50_num_workers_0/worker0.1623143089861", "resnet50_num_workers_0/worker0.1623143566756",
        "resnet50_num_workers_4/worker0.1623212756351", "resnet50_num_workers_4/worker0.1623213129365"}) {
    const auto capture = Real("tb_plugin_samples/" + set + ".pt.trace.json.gz");
    if (!capture) return;
    const Report report = Analyze(*capture).report;
    tests::CheckedJson(report);
    tests::ExpectConsistent(report);
    ASSERT_TRUE(report.slowdown.step_ns.has_value()) << set;
    for (const auto& entry : report.stragglers) {
      EXPECT_EQ(entry.cause, "host_pause") << set;
      EXPECT_LT(entry.lost_ns_per_step, 0.05 * *report.slowdown.step_ns) << set;
    }
  }
}

// The job waits for its data loader in 70 % of each step, and the plugin's samples show the same job with and
// without loader workers.
TEST(RealTraces, InputThatAllRanksWaitForLeadsTheReport) {
  const auto share_of_input = [](const Report& report) {
    const bool leads = !report.shared_losses.empty() && report.shared_losses[0].kind == "input";
    return leads ? report.shared_losses[0].share_of_step : 0;
  };
  const auto two_ranks = Real("resnet50_ddp_2rank");
  if (!two_ranks) return;
  const Report report = Analyze(*two_ranks).report;
  EXPECT_NEAR(share_of_input(report), 0.70, 0.03);
  EXPECT_TRUE(VerdictSentence(report).starts_with("SLOW JOB: data loader.")) << VerdictSentence(report);
  const std::string folder = "tb_plugin_samples/resnet50_num_workers_";
  const auto without = Real(folder + "0/worker0.1623143089861.pt.trace.json.gz");
  const auto with = Real(folder + "4/worker0.1623212756351.pt.trace.json.gz");
  if (!without || !with) return;
  EXPECT_GT(share_of_input(Analyze(*without).report), 0.2);
  EXPECT_EQ(share_of_input(Analyze(*with).report), 0) << "something else is larger";
}

// Compares an export of Nsight Systems with published counts over exact intervals.
TEST(RealTraces, NsysOfTwoGpus) {
  const auto capture = Real("nsys_h100_2gpu");
  if (!capture) GTEST_SKIP() << "the trace is not there, or could not be read and has failed the test above";
  const Report report = Analyze(*capture).report;
  tests::CheckedJson(report);
  tests::ExpectConsistent(report);
  // GPU 0's timer differs by 14 us from its host's clock in most steps.
  ASSERT_TRUE(report.slowdown.ratio.has_value());
  EXPECT_GT(*report.slowdown.ratio, 1.0);
  EXPECT_LT(*report.slowdown.ratio, 1.1);
  ASSERT_EQ(report.ranks.size(), 2u);
  EXPECT_EQ(capture->ranks[0].activities.size() + capture->ranks[1].activities.size(), 4010u + 1020u + 269u);
  EXPECT_EQ(report.ranks[0].communication, Nanos(17172652));
  EXPECT_EQ(report.ranks[1].communication, Nanos(8229100));
  EXPECT_EQ(report.ranks[0].overlap, Nanos(0));
  EXPECT_EQ(report.ranks[0].wait_by_clock, Nanos(10898336));
  EXPECT_EQ(capture->ranks[0].collectives.size(), 33u);
  EXPECT_TRUE(capture->ranks[0].losses.empty());
  EXPECT_EQ(capture->hosts.size(), 1u);
  EXPECT_EQ(capture->hosts[0].name, "modal");
  // 2026-05-26T07:59:22 UTC.
  EXPECT_EQ(capture->ranks[1].activities[0].start, HostTime(1779782362033915943));
  const bool has_note =
      std::any_of(capture->notes.begin(), capture->notes.end(),
                  [](const std::string& note) { return note.find("--include-blobs") != std::string::npos; });
  EXPECT_TRUE(has_note);
}

}  // namespace
}  // namespace lockstep::report
