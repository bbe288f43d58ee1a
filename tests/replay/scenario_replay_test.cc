// Replays the output of `lockstep export --format scenario`. The time stamps must equal those of the capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "formats/input/read_input.h"
#include "formats/scenario/scenario_writer.h"
#include "scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "tests/support/sim_capture.h"

namespace lockstep {
namespace {

using scenario::Op;
using scenario::OpKind;
using scenario::Scenario;

// Kind, stream, start and end of each device activity and call, as a multiset.
using Stamps = std::vector<std::tuple<int, uint32_t, int64_t, int64_t>>;

// Returns the capture's device work and calls, from the earliest stamp of any rank.
std::vector<Stamps> Recorded(const capture::Capture& capture, const capture::ClockModel& clock) {
  JobTime origin = JobTime::Max();
  std::vector<Nanos> shifts;
  for (const capture::RankData& rank : capture.ranks) {
    const HostTime middle = rank.activities[rank.activities.size() / 2].start;
    const Nanos shift = clock.ToJob(rank.host, middle) - JobTime(middle.ns());
    shifts.push_back(shift);
    for (const auto& a : rank.activities) origin = std::min(origin, JobTime(a.start.ns()) + shift);
    for (const auto& c : rank.api_calls) origin = std::min(origin, JobTime(c.start.ns()) + shift);
    for (const auto& s : rank.ranges) {
      if (s.kind == capture::RangeKind::kStep && !s.start_unknown && !s.end_unknown)
        origin = std::min(origin, JobTime(s.start.ns()) + shift);
    }
  }
  std::vector<Stamps> all;
  for (size_t r = 0; r < capture.ranks.size(); ++r) {
    const auto since = [&](HostTime t) { return (JobTime(t.ns()) + shifts[r] - origin).ns(); };
    Stamps stamps;
    for (const auto& a : capture.ranks[r].activities)
      stamps.emplace_back(1, a.stream.value(), since(a.start), since(a.end));
    for (const auto& c : capture.ranks[r].api_calls) stamps.emplace_back(0, 0, since(c.start), since(c.end));
    std::sort(stamps.begin(), stamps.end());
    all.push_back(std::move(stamps));
  }
  return all;
}

// Returns the same for one iteration of a dry run, from the iteration's origin.
std::vector<Stamps> Replayed(const Scenario& s, const sim::WorldHistory& world, uint32_t iteration) {
  std::vector<Stamps> all;
  for (size_t r = 0; r < s.ranks.size(); ++r) {
    Stamps stamps;
    const int64_t origin = s.period.ns() * iteration;
    for (const sim::TrueRecord& record : world.ranks[r].records) {
      const Op& op = s.ranks[r].program[record.op];
      if (record.step != iteration || op.kind == OpKind::kPush || op.kind == OpKind::kPop) continue;
      const bool device = op.IsDevice();
      stamps.emplace_back(device ? 1 : 0, device ? s.ranks[r].streams[op.stream] : 0,
                          record.start.ns() - origin, record.end.ns() - origin);
    }
    std::sort(stamps.begin(), stamps.end());
    all.push_back(std::move(stamps));
  }
  return all;
}

size_t Collectives(const Scenario& s) {
  size_t n = 0;
  for (const scenario::Rank& rank : s.ranks)
    n += std::count_if(rank.program.begin(), rank.program.end(),
                       [](const Op& op) { return op.kind == OpKind::kCollective; });
  return n;
}

// Communication kernels of the capture, and those of them that the scenario replays as plain kernels.
struct CommunicationKernels {
  size_t all = 0;
  size_t plain = 0;
};

CommunicationKernels CountKernels(const capture::Capture& capture, const Scenario& s) {
  CommunicationKernels out;
  for (const capture::RankData& rank : capture.ranks) {
    out.all += std::count_if(rank.activities.begin(), rank.activities.end(), [](const auto& a) {
      return a.kind == capture::ActivityKind::kKernel && a.communication;
    });
  }
  out.plain = out.all - Collectives(s);
  return out;
}

size_t KernelsOfSeveralMessages(const Scenario& s) {
  size_t n = 0;
  for (const scenario::Rank& rank : s.ranks)
    n += std::count_if(rank.program.begin(), rank.program.end(),
                       [](const Op& op) { return !op.more.empty(); });
  return n;
}

void ExpectExactReplay(const capture::Capture& capture, Scenario* out) {
  const capture::Matches matches = capture::Match(capture);
  const capture::ClockModel clock = capture::EstimateClocks(capture, matches);
  absl::StatusOr<Scenario> s = formats::MakeScenario(capture, matches, clock);
  ASSERT_TRUE(s.ok()) << s.status();
  const sim::WorldHistory world = sim::DryRun(*s, {}, 3);
  ASSERT_EQ(world.stuck, "");
  const std::vector<Stamps> recorded = Recorded(capture, clock);
  for (uint32_t iteration = 0; iteration < 3; ++iteration) {
    const std::vector<Stamps> replayed = Replayed(*s, world, iteration);
    for (size_t r = 0; r < recorded.size(); ++r) {
      ASSERT_EQ(replayed[r].size(), recorded[r].size()) << "rank " << r;
      size_t different = 0;
      for (size_t i = 0; i < recorded[r].size(); ++i) different += replayed[r][i] != recorded[r][i];
      EXPECT_EQ(different, 0u) << "of " << recorded[r].size() << " records of rank " << r << " in iteration "
                               << iteration;
    }
  }
  *out = *std::move(s);
}

capture::Capture Simulated(const sim::ModelSettings& settings, const tests::SimCaptureOptions& options,
                           const scenario::TransformerShape& shape = {}) {
  const Scenario s = *scenario::MakeTransformer(shape);
  return tests::CaptureOf(s, sim::DryRun(s, settings, 5), options);
}

TEST(ScenarioReplay, ACaptureWithEverythingReplaysToTheNanosecond) {
  Scenario s;
  ExpectExactReplay(Simulated({}, {}), &s);
  EXPECT_GT(Collectives(s), 8u * 5 * 40);
  EXPECT_NE(s.groups.at(0).comm, 0u);
}

TEST(ScenarioReplay, ACaptureOfNamesAndTimesReplaysToTheNanosecond) {
  tests::SimCaptureOptions options;
  options.with_sequences = false;
  options.with_events = false;
  Scenario s;
  ExpectExactReplay(
      Simulated({}, options, {.data_parallel = 4, .tensor_parallel = 1, .pipeline_parallel = 1}), &s);
  EXPECT_GT(Collectives(s), 0u);
  EXPECT_EQ(s.groups.at(0).comm, 0u) << "NCCL does not receive inferred groups";
}

TEST(ScenarioReplay, AWindowCutOutOfTheMiddleReplaysToTheNanosecond) {
  tests::SimCaptureOptions options;
  options.from = VirtualTime(150'000'000);
  options.to = VirtualTime(420'000'000);
  Scenario s;
  ExpectExactReplay(Simulated({}, options), &s);
}

// Four stages in a ring. Each sends forward and backward in one kernel, above and below the buffered size.
Scenario Ring() {
  std::string text =
      "lockstep-scenario 1\nname gemm\nname ncclDevKernel_SendRecv(a)\n"
      "group comm=7 name=ring members=2,0,3,1\n";
  const int place[] = {1, 3, 0, 2};
  for (int rank = 0; rank < 4; ++rank) {
    text +=
        "rank host=node0 device=" + std::to_string(rank) + "\nstream id=7\nthread id=0\npush t0 n0 gap=5\n";
    const std::string next = std::to_string((place[rank] + 1) % 4),
                      before = std::to_string((place[rank] + 3) % 4);
    for (const char* bytes : {"1024", "9000000"}) {
      text += "call t0 r211 gap=1000 own=3000\nkernel s0 n0 gap=1500 own=" +
              std::to_string(300'000 + 70'000 * ((rank * 3) % 4)) + "\ncall t0 d652 gap=1000 own=5000\n" +
              "coll s0 n1 g0 send gap=1000 own=30000 bytes=" + bytes + " peer=" + next +
              " more=receive:" + before + ":" + bytes + ",send:" + before + ":" + bytes + ",receive:" + next +
              ":" + bytes + "\n";
    }
    text += "call t0 r131 gap=1000 own=2000 wait=s0 tail=3000\npop t0 gap=5\n";
  }
  return *scenario::Parse(text, "ring");
}

TEST(ScenarioReplay, KernelsOfSeveralMessagesReplayToTheNanosecond) {
  const capture::Capture capture = tests::CaptureOf(Ring(), sim::DryRun(Ring(), {}, 5), {});
  Scenario s;
  ExpectExactReplay(capture, &s);
  EXPECT_EQ(CountKernels(capture, s).all, 4u * 5 * 2);
  EXPECT_EQ(CountKernels(capture, s).plain, 0u);
  EXPECT_EQ(KernelsOfSeveralMessages(s), 4u * 5 * 2);
  EXPECT_EQ(s.groups.at(0).members, (std::vector<uint32_t>{2, 0, 3, 1}));
  for (const Op& op : s.ranks[0].program) {
    if (op.kind == OpKind::kCollective) {
      EXPECT_THAT(op.more,
                  ::testing::ElementsAre(scenario::Message{scenario::Collective::kReceive, 0, op.bytes},
                                         scenario::Message{scenario::Collective::kSend, 0, op.bytes},
                                         scenario::Message{scenario::Collective::kReceive, 2, op.bytes}));
    }
  }
}

// If the kernels were plain, the other ranks would not wait.
TEST(ScenarioReplay, ASlowRankDelaysThePartnersOfItsMessages) {
  const capture::Capture capture = tests::CaptureOf(Ring(), sim::DryRun(Ring(), {}, 5), {});
  Scenario s;
  ExpectExactReplay(capture, &s);
  sim::ModelSettings slow;
  ASSERT_TRUE(sim::SizeFault(s, sim::FaultKind::kSlowGpu, 2, 0.5, s.period, &slow.fault));
  const sim::WorldHistory healthy = sim::DryRun(s, {}, 1), faulty = sim::DryRun(s, slow, 1);
  for (const int rank : {0, 1, 3})
    EXPECT_GT((faulty.ranks[rank].end - healthy.ranks[rank].end).ns(), s.period.ns() / 4) << rank;
}

// A message without its partner leaves both kernels, and all others that hold messages with them, plain.
TEST(ScenarioReplay, AMissingKernelMakesItsPartnersPlain) {
  capture::Capture capture = tests::CaptureOf(Ring(), sim::DryRun(Ring(), {}, 5), {});
  const capture::Matches all = capture::Match(capture);
  const capture::ClockModel clock = capture::EstimateClocks(capture, all);
  capture::Matches matches = all;
  const uint32_t lost = matches.instance_of[1][0];
  ASSERT_NE(lost, capture::kNone);
  for (const capture::Member& m : matches.instances[lost].members)
    matches.instance_of[m.rank_index][m.collective] = capture::kNone;
  const absl::StatusOr<Scenario> s = formats::MakeScenario(capture, matches, clock);
  ASSERT_TRUE(s.ok()) << s.status();
  EXPECT_EQ(CountKernels(capture, *s).plain, 4u) << "the first kernel of each rank";
}

TEST(ScenarioReplay, AFaultDelaysDependentOperations) {
  Scenario s;
  ExpectExactReplay(Simulated({}, {}), &s);
  sim::ModelSettings slow;
  ASSERT_TRUE(sim::SizeFault(s, sim::FaultKind::kSlowGpu, 2, 0.10, s.period, &slow.fault));
  const sim::WorldHistory healthy = sim::DryRun(s, {}, 3), faulty = sim::DryRun(s, slow, 3);
  const double longer = (sim::MeanIteration(s, faulty) - sim::MeanIteration(s, healthy)).millis();
  EXPECT_GT(longer, 0.03 * s.period.millis());
  EXPECT_GT((faulty.ranks[7].end - healthy.ranks[7].end).ns(), 0) << "the others wait";
}

// Profilers round their stamps, so steps that follow one another may overlap by microseconds.
TEST(ScenarioReplay, StepsThatTouchByRoundingAreKept) {
  capture::Capture capture = Simulated({}, {});
  size_t steps = 0;
  for (capture::HostRange& range : capture.ranks[0].ranges) {
    if (range.kind != capture::RangeKind::kStep || range.start_unknown || range.end_unknown) continue;
    range.end += Nanos::Micros(2);
    ++steps;
  }
  ASSERT_GT(steps, 2u);
  Scenario s;
  ExpectExactReplay(capture, &s);
  // A step that began inside the one before would end it, and would itself last until the end.
  size_t marks = 0;
  std::vector<bool> open_steps;
  for (const Op& op : s.ranks[0].program) {
    if (op.kind == OpKind::kPop) open_steps.pop_back();
    if (op.kind != OpKind::kPush) continue;
    const bool step = s.names[op.name].starts_with("ProfilerStep#");
    EXPECT_FALSE(step && std::count(open_steps.begin(), open_steps.end(), true) > 0) << "inside another step";
    open_steps.push_back(step);
    marks += step ? 1 : 0;
  }
  EXPECT_EQ(marks, steps);
}

TEST(ScenarioReplay, TheTextReadsBackAndRunsTheSame) {
  const capture::Capture capture = Simulated({}, {});
  const capture::Matches matches = capture::Match(capture);
  const capture::ClockModel clock = capture::EstimateClocks(capture, matches);
  StringSink sink;
  ASSERT_TRUE(formats::WriteScenario(capture, matches, clock, sink).ok());
  const absl::StatusOr<Scenario> parsed = scenario::Parse(sink.text(), "t");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const Scenario made = *formats::MakeScenario(capture, matches, clock);
  EXPECT_EQ(sim::DryRun(*parsed, {}, 2).ranks[3].records, sim::DryRun(made, {}, 2).ranks[3].records);
}

TEST(ScenarioReplay, RefusesAnEmptyCapture) {
  const capture::Capture capture;
  const absl::StatusOr<Scenario> s = formats::MakeScenario(capture, {}, {});
  EXPECT_THAT(std::string(s.status().message()), ::testing::HasSubstr("no device work"));
}

// Real traces are kept outside the repository.
class RealTrace : public ::testing::TestWithParam<const char*> {};

TEST_P(RealTrace, ReplaysToTheNanosecond) {
  const std::string folder = std::string(LOCKSTEP_SOURCE_DIR) + "/../shared/traces/" + GetParam();
  if (!std::filesystem::exists(folder)) {
    printf("%s is not here: nothing to replay\n", folder.c_str());
    return;
  }
  const std::string paths[] = {folder};
  absl::StatusOr<capture::Capture> capture = formats::ReadInput(paths, {});
  ASSERT_TRUE(capture.ok()) << capture.status();
  Scenario s;
  ExpectExactReplay(*capture, &s);
  const CommunicationKernels kernels = CountKernels(*capture, s);
  printf("%s: period %.3f ms, %zu communication kernels, %zu of them plain, %zu groups\n", GetParam(),
         s.period.millis(), kernels.all, kernels.plain, s.groups.size());
}

INSTANTIATE_TEST_SUITE_P(Sets, RealTrace,
                         ::testing::Values("param_dlrm_8rank", "bert_ddp_2rank",
                                           "independent_jobs/i_slow_gpu_1f1b"));

// Most kernels of an interleaved pipeline hold several messages.
TEST(ScenarioReplay, AnInterleavedPipelineKeepsItsCommunication) {
  const std::string folder =
      std::string(LOCKSTEP_SOURCE_DIR) + "/../shared/traces/independent_jobs/h_healthy_interleaved";
  if (!std::filesystem::exists(folder)) {
    printf("%s is not here: nothing to replay\n", folder.c_str());
    return;
  }
  const std::string paths[] = {folder};
  absl::StatusOr<capture::Capture> capture = formats::ReadInput(paths, {});
  ASSERT_TRUE(capture.ok()) << capture.status();
  Scenario s;
  ExpectExactReplay(*capture, &s);
  const CommunicationKernels kernels = CountKernels(*capture, s);
  EXPECT_EQ(kernels.all, 1272u);
  EXPECT_EQ(kernels.plain, 0u);
  EXPECT_GT(KernelsOfSeveralMessages(s), 500u);
}

}  // namespace
}  // namespace lockstep
