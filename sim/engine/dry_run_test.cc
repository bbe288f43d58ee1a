#include "sim/engine/dry_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "scenario/generator.h"
#include "sim/engine/rank_engine.h"

namespace lockstep::sim {
namespace {

using scenario::Scenario;

Scenario Transformer() { return *scenario::MakeTransformer({}); }

Scenario Parsed(const std::string& body) {
  absl::StatusOr<Scenario> s = scenario::Parse("lockstep-scenario 1\n" + body, "test");
  EXPECT_TRUE(s.ok()) << s.status();
  return *s;
}

// Returns the record of an op in a step.
TrueRecord Record(const WorldHistory& world, uint32_t rank, uint32_t step, uint32_t op) {
  for (const TrueRecord& r : world.ranks[rank].records) {
    if (r.step == step && r.op == op) return r;
  }
  ADD_FAILURE() << "no record of op " << op;
  return {};
}

double StepMillis(const Scenario& s, const ModelSettings& settings, uint32_t steps = 20) {
  WorldHistory world = DryRun(s, settings, steps);
  EXPECT_EQ(world.stuck, "");
  return MeanStep(s, world).millis();
}

TEST(DryRun, TheDefaultStepHasItsDocumentedLengthAndLoad) {
  const Scenario s = Transformer();
  const WorldHistory world = DryRun(s, {}, 12);
  ASSERT_EQ(world.stuck, "");
  EXPECT_GT(MeanStep(s, world).millis(), 100);
  EXPECT_LT(MeanStep(s, world).millis(), 150);
  for (const scenario::Rank& rank : s.ranks) {
    int kernels = 0;
    for (const scenario::Op& op : rank.program)
      kernels += op.kind == scenario::OpKind::kKernel || op.kind == scenario::OpKind::kCollective;
    EXPECT_LE(kernels, 400);
    EXPECT_GE(kernels, 150);
  }
}

// Runs one rank alone, paced by its own virtual time.
class Alone final : public CollectiveResolver, public RankObserver {
 public:
  void Enter(OpRun, uint32_t, VirtualTime) override { ADD_FAILURE() << "it has no collectives"; }
  void OnCallStart(OpRun run, VirtualTime start) override { first_.try_emplace(run.step, start); }
  void OnCallEnd(OpRun, VirtualTime, VirtualTime) override {}
  void OnMark(OpRun, VirtualTime) override {}
  void OnDevice(OpRun run, VirtualTime start, VirtualTime) override {
    first_device_.try_emplace(run.step, start);
  }
  std::map<uint32_t, VirtualTime> first_, first_device_;  // by step
};

TEST(RankEngine, AHeldStepDelaysTheFollowingSteps) {
  const Scenario s = Parsed(
      "name k\nrank host=a device=0\nstream id=7\nthread id=0\ncall t0 r211 gap=10 own=5\nkernel s0 n0 gap=2 "
      "own=1000\n"
      "call t0 r131 gap=1 own=3 wait=s0 tail=-4\n");
  const Program program = Compile(s, 0);
  const Model model(program, {});
  Alone free, held;
  RankEngine as_ever(program, model, free, free), waits(program, model, held, held);
  waits.HoldStep(2, VirtualTime(Nanos::Seconds(5).ns()));
  for (RankEngine* engine : {&as_ever, &waits}) {
    engine->AllowSteps(4);
    engine->RunUntil(VirtualTime(Nanos::Seconds(60).ns()));
    EXPECT_TRUE(engine->Finished());
  }
  ASSERT_EQ(free.first_.size(), 4u);
  ASSERT_LT(free.first_[3].ns(), Nanos::Seconds(5).ns());
  EXPECT_EQ(held.first_[1], free.first_[1]);
  const Nanos by = held.first_[2] - free.first_[2];
  EXPECT_GE(held.first_[2].ns(), Nanos::Seconds(5).ns());
  EXPECT_GE(held.first_device_[2].ns(), Nanos::Seconds(5).ns());
  EXPECT_EQ(held.first_[3] - free.first_[3], by);
}

TEST(RankEngine, IterationsOfAHeldLoopKeepTheirPeriod) {
  const Scenario s = Parsed(
      "pacing loop 4000\nname k\nrank host=a device=0\nstream id=7\nthread id=0\ncall t0 r211 gap=10 "
      "own=5\nkernel s0 n0 gap=2 own=1000\n");
  const Program program = Compile(s, 0);
  const Model model(program, {});
  Alone held;
  RankEngine engine(program, model, held, held);
  engine.HoldStep(1, VirtualTime(50'000));
  engine.AllowSteps(4);
  engine.RunUntil(VirtualTime(1'000'000));
  std::vector<int64_t> begins;
  for (const auto& step : held.first_) begins.push_back(step.second.ns());
  EXPECT_EQ(begins, (std::vector<int64_t>{10, 50'010, 54'010, 58'010}));
}

TEST(DryRun, StampsDependOnTheSeedAlone) {
  const Scenario s = Transformer();
  const WorldHistory a = DryRun(s, {}, 4), b = DryRun(s, {}, 4), c = DryRun(s, {.seed = 2}, 4);
  EXPECT_EQ(a.ranks[3].records, b.ranks[3].records);
  EXPECT_NE(a.ranks[3].records, c.ranks[3].records);
}

TEST(DryRun, EveryFaultOfFivePercentOnAnyRankLengthensTheStep) {
  const Scenario s = Transformer();
  const double healthy = StepMillis(s, {});
  for (FaultKind kind :
       {FaultKind::kSlowGpu, FaultKind::kHostStall, FaultKind::kSlowLink, FaultKind::kCopy}) {
    for (uint32_t rank = 0; rank < 8; ++rank) {
      ModelSettings settings;
      ASSERT_TRUE(
          SizeFault(s, kind, rank, 0.05, Nanos(static_cast<int64_t>(healthy * 1e6)), &settings.fault));
      const double gain = StepMillis(s, settings) - healthy;
      EXPECT_GT(gain, 0.02 * healthy) << FaultName(kind) << " on rank " << rank;
      EXPECT_LT(gain, 0.08 * healthy) << FaultName(kind) << " on rank " << rank;
    }
  }
}

// One rank with a call before its first step, three steps of two calls each, and ranges inside them.
constexpr char kThreeSteps[] =
    "pacing loop 90000\nname ProfilerStep#{step:3:0}\nname ProfilerStep#{step:3:1}\n"
    "name ProfilerStep#{step:3:2}\nname batch {step}\nrank host=a device=0\nthread id=0\nthread id=1\n"
    "call t0 r211 gap=10 own=5\n"
    "push t0 n0 gap=0\ncall t1 r211 gap=100 own=5\ncall t0 r211 gap=10 own=5\n"
    "push t0 n3 gap=0\ncall t0 r211 gap=10 own=5\npop t0 gap=0\npop t0 gap=0\n"
    "push t0 n1 gap=0\ncall t0 r211 gap=10 own=5\ncall t0 r211 gap=10 own=5\npop t0 gap=0\n"
    "push t0 n2 gap=0\npop t0 gap=0\ncall t1 r211 gap=200 own=5\n";

TEST(Model, AHostStallComesOncePerStepOfAnIteration) {
  const Scenario s = Parsed(kThreeSteps);
  EXPECT_EQ(StallCalls(s, 0), (std::vector<uint32_t>{3, 9, 14}))
      << "the step's thread comes first; a range inside a step is not a step";
  ModelSettings settings;
  ASSERT_TRUE(SizeFault(s, FaultKind::kHostStall, 0, 0.1, s.period, &settings.fault));
  EXPECT_EQ(settings.fault.extra.ns(), 3000) << "a third of 9 us";
  settings.fault.from_step = 1;
  const Program program = Compile(s, 0);
  const Model model(program, settings);
  const Model healthy(program, {});
  for (uint32_t op = 0; op < program.ops().size(); ++op) {
    EXPECT_EQ(model.Gap(0, op), healthy.Gap(0, op)) << "before the first iteration with the fault";
    const bool stalled = op == 3 || op == 9 || op == 14;
    EXPECT_EQ((model.Gap(1, op) - healthy.Gap(1, op)).ns(), stalled ? 3000 : 0) << op;
  }
}

TEST(Model, AnotherRanksHostDoesNotStall) {
  const Scenario s =
      Parsed(std::string(kThreeSteps) + "rank host=a device=1\nthread id=0\ncall t0 r1 gap=7\n");
  ModelSettings settings;
  ASSERT_TRUE(SizeFault(s, FaultKind::kHostStall, 0, 0.1, s.period, &settings.fault));
  const Program program = Compile(s, 1);
  EXPECT_EQ(Model(program, settings).Gap(1, 0).ns(), 7);
}

TEST(Model, AnIterationWithoutStepsStallsOnceAtItsFirstCall) {
  const std::string rank = "rank host=a device=0\nthread id=0\n";
  EXPECT_EQ(StallCalls(Parsed("name a\n" + rank + "push t0 n0\ncall t0 r1\npop t0\ncall t0 r1\n"), 0),
            std::vector<uint32_t>{1});
  const std::string step_at_the_end = rank + "call t0 r1\npush t0 n0\npop t0\n";
  EXPECT_EQ(StallCalls(Parsed("name {step}\n" + step_at_the_end), 0), std::vector<uint32_t>{0})
      << "its step has no call";
  const Scenario idle = Parsed("name {step}\n" + rank + "push t0 n0\npop t0\n");
  EXPECT_EQ(StallCalls(idle, 0), std::vector<uint32_t>());
  Fault fault;
  EXPECT_FALSE(SizeFault(idle, FaultKind::kHostStall, 0, 0.1, Nanos::Millis(1), &fault));
}

TEST(Model, AGeneratedStepStallsOnce) {
  const Scenario s = Transformer();
  for (uint32_t rank = 0; rank < s.ranks.size(); ++rank) EXPECT_EQ(StallCalls(s, rank).size(), 1u) << rank;
}

TEST(DryRun, ACallAfterASyncStartsAfterTheDeviceIsDone) {
  const Scenario s = Parsed(
      "name k\nrank host=a device=0\nstream id=7\nthread id=0\n"
      "call t0 r211 gap=10 own=5\nkernel s0 n0 gap=2 own=1000\ncall t0 r131 gap=1 own=3 wait=s0 "
      "tail=-4\ncall t0 r17 gap=1 own=1\n");
  const WorldHistory w = DryRun(s, {}, 2);
  EXPECT_EQ(Record(w, 0, 0, 0).start.ns(), 10);
  EXPECT_EQ(Record(w, 0, 0, 1).start.ns(), 12);
  EXPECT_EQ(Record(w, 0, 0, 1).end.ns(), 1012);
  EXPECT_EQ(Record(w, 0, 0, 2).start.ns(), 16);
  EXPECT_EQ(Record(w, 0, 0, 2).end.ns(), 1008);
  EXPECT_EQ(Record(w, 0, 0, 3).start.ns(), 1009);
  EXPECT_EQ(Record(w, 0, 1, 0).start.ns(), 1020);
}

// The main thread launches, then the backward thread, then the main thread again.
TEST(DryRun, AThreadThatFollowsAnotherIsDelayedWithIt) {
  for (const int64_t own : {5, 100}) {
    const Scenario s = Parsed(
        "rank host=a device=0\nstream id=7\nthread id=0\nthread id=1\n"
        "call t0 r17 gap=10 own=" +
        std::to_string(own) +
        "\ncall t1 r17 gap=1 own=7 follows=t0\ncall t0 r17 gap=2 own=3 follows=t1\n"
        "call t1 r17 gap=1 own=1\n");
    const WorldHistory w = DryRun(s, {}, 1);
    EXPECT_EQ(Record(w, 0, 0, 1).start.ns(), 11 + own);
    EXPECT_EQ(Record(w, 0, 0, 2).start.ns(), 20 + own);
    EXPECT_EQ(Record(w, 0, 0, 3).start.ns(), 19 + own) << "it follows its own thread alone";
  }
}

// No host waits for a device, so the hosts run ahead.
TEST(DryRun, AnIterationLastsAsLongAsTheSlowestRankNeeds) {
  const auto iteration = [](const std::string& kernel) {
    const std::string rest =
        "\nstream id=7\nthread id=0\ncall t0 r211 gap=10 own=5\nkernel s0 n0 gap=0 own=100\n"
        "call t0 r211 gap=5 own=5\ncoll s0 n0 g0 all_reduce gap=0 own=20 bytes=4\n";
    std::string slow = rest;
    slow.replace(slow.find("own=100"), 7, "own=" + kernel);
    const Scenario s = Parsed("name k\ngroup comm=1 name=g members=0,1\nrank host=a device=0" + rest +
                              "rank host=a device=1" + slow);
    return MeanIteration(s, DryRun(s, {}, 8)).ns();
  };
  EXPECT_EQ(iteration("100"), 120);
  EXPECT_EQ(iteration("300"), 320);
}

TEST(DryRun, AnEventDelaysTheOtherStream) {
  const Scenario s = Parsed(
      "name k\nrank host=a device=0\nstream id=7\nstream id=8\nthread id=0\n"
      "call t0 r211 gap=0 own=1\nkernel s0 n0 gap=0 own=500\ncall t0 r135 gap=0 own=1\nevent s0 e4\n"
      "call t0 r211 gap=0 own=1\nkernel s0 n0 gap=0 own=500\n"
      "call t0 r147 gap=0 own=1\nafter s1 e4\ncall t0 r211 gap=0 own=1\nkernel s1 n0 gap=3 own=10\n");
  const WorldHistory w = DryRun(s, {}, 1);
  EXPECT_EQ(Record(w, 0, 0, 9).start.ns(), 503);
}

TEST(DryRun, ALoopStartsEachIterationAtItsOriginUnlessLate) {
  const Scenario s = Parsed(
      "pacing loop 1000\nname k\nrank host=a device=0\nstream id=7\nthread id=0\ncall t0 r211 gap=10 "
      "own=5\nkernel s0 n0 gap=0 own=600\n");
  const WorldHistory on_time = DryRun(s, {}, 3);
  EXPECT_EQ(Record(on_time, 0, 2, 1).start.ns(), 2010);
  ModelSettings slow;
  slow.fault = {FaultKind::kSlowGpu, 0, 0, {}, 1'000'000};
  const WorldHistory late = DryRun(s, slow, 3);
  EXPECT_EQ(Record(late, 0, 1, 1).start.ns(), 1210);
  EXPECT_EQ(Record(late, 0, 2, 1).start.ns(), 2410);
}

constexpr char kTwoRanks[] = "name k\ngroup comm=7 name=g members=0,1\n";
std::string RankOf(const std::string& entry, const std::string& collective) {
  return "rank host=a device=0\nstream id=7\nthread id=0\ncall t0 d652 gap=" + entry + " own=1\n" +
         collective + "\n";
}

TEST(DryRun, TheOperationDecidesWhichRanksWait) {
  struct Case {
    const char* early;
    const char* late;
    int64_t early_end;
    int64_t late_end;
  };
  const Case cases[] = {
      {"coll s0 n0 g0 all_reduce gap=0 own=7", "coll s0 n0 g0 all_reduce gap=0 own=9", 107, 109},
      {"coll s0 n0 g0 broadcast gap=0 own=7 peer=0", "coll s0 n0 g0 broadcast gap=0 own=9 peer=0", 17, 109},
      {"coll s0 n0 g0 broadcast gap=0 own=7 peer=1", "coll s0 n0 g0 broadcast gap=0 own=9 peer=1", 107, 109},
      {"coll s0 n0 g0 reduce gap=0 own=7 peer=0", "coll s0 n0 g0 reduce gap=0 own=9 peer=0", 107, 109},
      {"coll s0 n0 g0 reduce gap=0 own=7 peer=1", "coll s0 n0 g0 reduce gap=0 own=9 peer=1", 17, 109},
      {"coll s0 n0 g0 send gap=0 own=7 bytes=10 peer=1", "coll s0 n0 g0 receive gap=0 own=9 bytes=10 peer=0",
       17, 109},
      {"coll s0 n0 g0 receive gap=0 own=7 bytes=10 peer=1", "coll s0 n0 g0 send gap=0 own=9 bytes=10 peer=0",
       107, 109},
      {"coll s0 n0 g0 send gap=0 own=7 bytes=5000000 peer=1",
       "coll s0 n0 g0 receive gap=0 own=9 bytes=5000000 peer=0", 107, 109},
  };
  for (const Case& c : cases) {
    const Scenario s = Parsed(kTwoRanks + RankOf("10", c.early) + RankOf("100", c.late));
    const WorldHistory w = DryRun(s, {}, 1);
    ASSERT_EQ(w.stuck, "") << c.early;
    EXPECT_EQ(Record(w, 0, 0, 1).end.ns(), c.early_end) << c.early;
    EXPECT_EQ(Record(w, 1, 0, 1).end.ns(), c.late_end) << c.late;
  }
}

// Rank 1's kernel receives from ranks 0 and 2. Returns the ends of the three kernels if `late` starts last.
std::vector<int64_t> EndsOfTwoReceives(int late, const std::string& bytes) {
  std::string text = "name k\ngroup comm=7 name=g members=0,1,2\n";
  const std::string kernels[] = {
      "coll s0 n0 g0 send gap=0 own=7 bytes=" + bytes + " peer=1",
      "coll s0 n0 g0 receive gap=0 own=9 bytes=" + bytes + " peer=0 more=receive:2:" + bytes,
      "coll s0 n0 g0 send gap=0 own=11 bytes=" + bytes + " peer=1",
  };
  for (int rank = 0; rank < 3; ++rank)
    text += RankOf(std::to_string(rank == late ? 1000 : 10 * (rank + 1)), kernels[rank]);
  const WorldHistory w = DryRun(Parsed(text), {}, 1);
  EXPECT_EQ(w.stuck, "");
  return {Record(w, 0, 0, 1).end.ns(), Record(w, 1, 0, 1).end.ns(), Record(w, 2, 0, 1).end.ns()};
}

TEST(DryRun, AKernelOfSeveralMessagesEndsByTheLatestKernelThatItNeeds) {
  using Ends = std::vector<int64_t>;
  EXPECT_EQ(EndsOfTwoReceives(0, "8"), (Ends{1007, 1009, 41}));
  EXPECT_EQ(EndsOfTwoReceives(1, "8"), (Ends{17, 1009, 41}));
  EXPECT_EQ(EndsOfTwoReceives(2, "8"), (Ends{17, 1009, 1011}));
}

// Rank 0 does not need rank 2, although rank 1's kernel does.
TEST(DryRun, ASendAboveTheBufferedSizeNeedsOnlyItsReceiversStart) {
  using Ends = std::vector<int64_t>;
  EXPECT_EQ(EndsOfTwoReceives(0, "5000000"), (Ends{1007, 1009, 41}));
  EXPECT_EQ(EndsOfTwoReceives(1, "5000000"), (Ends{1007, 1009, 1011}));
  EXPECT_EQ(EndsOfTwoReceives(2, "5000000"), (Ends{27, 1009, 1011}));
}

// The first send is small and the second one large. The kernel needs only the receiver of the second.
TEST(DryRun, TheBufferedSizeIsJudgedPerMessage) {
  const auto end_of_sender = [](int late) {
    std::string text = "name k\ngroup comm=7 name=g members=0,1,2\n";
    const std::string kernels[] = {
        "coll s0 n0 g0 send gap=0 own=7 bytes=8 peer=1 more=send:2:5000000",
        "coll s0 n0 g0 receive gap=0 own=9 bytes=8 peer=0",
        "coll s0 n0 g0 receive gap=0 own=9 bytes=5000000 peer=0",
    };
    for (int rank = 0; rank < 3; ++rank) text += RankOf(rank == late ? "1000" : "10", kernels[rank]);
    const WorldHistory w = DryRun(Parsed(text), {}, 1);
    EXPECT_EQ(w.stuck, "");
    return Record(w, 0, 0, 1).end.ns();
  };
  EXPECT_EQ(end_of_sender(1), 17);
  EXPECT_EQ(end_of_sender(2), 1007);
}

TEST(DryRun, AnExchangeInOneKernelPerRankDoesNotDeadlock) {
  for (const std::string bytes : {"8", "5000000"}) {
    for (const std::string entry : {"10", "100"}) {
      const Scenario s = Parsed(
          kTwoRanks +
          RankOf("10", "coll s0 n0 g0 send gap=0 own=7 bytes=" + bytes + " peer=1 more=receive:1:" + bytes) +
          RankOf(entry, "coll s0 n0 g0 send gap=0 own=9 bytes=" + bytes + " peer=0 more=receive:0:" + bytes));
      const WorldHistory w = DryRun(s, {}, 3);
      ASSERT_EQ(w.stuck, "");
      const int64_t latest = std::stoll(entry);
      EXPECT_EQ(Record(w, 0, 0, 1).end.ns(), latest + 7) << bytes;
      EXPECT_EQ(Record(w, 1, 0, 1).end.ns(), latest + 9) << bytes;
      EXPECT_EQ(w.ranks[0].records.size(), 6u);
      EXPECT_EQ(w.ranks[1].records.size(), 6u);
    }
  }
}

// The second of two messages in one direction belongs to the second receive, in another kernel.
TEST(DryRun, MessagesOfOneKernelPairInTheirOrder) {
  const auto on_two_streams = [](const std::string& first, const std::string& second) {
    return "rank host=a device=0\nstream id=7\nstream id=8\nthread id=0\ncall t0 d652 gap=10 own=1\n" +
           first + "call t0 d652 gap=1000 own=1\n" + second;
  };
  const Scenario s =
      Parsed(kTwoRanks +
             on_two_streams("coll s0 n0 g0 send gap=0 own=7 bytes=5000000 peer=1\n",
                            "coll s1 n0 g0 send gap=0 own=7 bytes=5000000 peer=1 more=send:1:8\n") +
             on_two_streams("coll s0 n0 g0 receive gap=0 own=9 bytes=5000000 peer=0 more=receive:0:5000000\n",
                            "coll s1 n0 g0 receive gap=0 own=9 bytes=8 peer=0\n"));
  const WorldHistory w = DryRun(s, {}, 2);
  ASSERT_EQ(w.stuck, "");
  EXPECT_EQ(Record(w, 0, 0, 1).end.ns(), 17) << "its receiver started at 10";
  EXPECT_EQ(Record(w, 0, 0, 3).end.ns(), 1018) << "started at 1011, after its receivers";
  EXPECT_EQ(Record(w, 1, 0, 1).end.ns(), 1020) << "waits for the second sender";
}

TEST(DryRun, ANoisyKernelOfSeveralMessagesHasOneDraw) {
  const std::string messages = "coll s0 n0 g0 send gap=0 own=1000000 bytes=8 peer=1";
  const auto end = [&](const std::string& more, const std::string& answer) {
    const Scenario s =
        Parsed("noise_ppm 100000\n" + std::string(kTwoRanks) + RankOf("10", messages + more) +
               RankOf("10", "coll s0 n0 g0 receive gap=0 own=1000000 bytes=8 peer=0" + answer));
    return Record(DryRun(s, {}, 1), 0, 0, 1).end.ns();
  };
  const int64_t alone = end("", "");
  EXPECT_NE(alone, 1'000'010);
  EXPECT_EQ(end(" more=send:1:8", " more=receive:0:8"), alone);
}

TEST(DryRun, ASlowLinkAffectsKernelsWithAnyMessageOverIt) {
  const auto own_of_rank_0 = [](uint32_t faulty) {
    const std::string text = "name k\ngroup comm=7 name=g members=0,1,2,3\n" +
                             RankOf("10", "coll s0 n0 g0 send gap=0 own=100 bytes=8 peer=1 more=send:2:8") +
                             RankOf("10", "coll s0 n0 g0 receive gap=0 own=100 bytes=8 peer=0") +
                             RankOf("10", "coll s0 n0 g0 receive gap=0 own=100 bytes=8 peer=0") +
                             RankOf("10", "");
    ModelSettings settings;
    settings.fault = {FaultKind::kSlowLink, faulty, 0, {}, 500'000};
    const WorldHistory w = DryRun(Parsed(text), settings, 1);
    return (Record(w, 0, 0, 1).end - Record(w, 0, 0, 1).start).ns();
  };
  EXPECT_EQ(own_of_rank_0(0), 150);
  EXPECT_EQ(own_of_rank_0(1), 150);
  EXPECT_EQ(own_of_rank_0(2), 150);
  EXPECT_EQ(own_of_rank_0(3), 100);
}

// Ranks 0 and 2 send in their second kernel what the other's first kernel needs. Rank 0's message to rank 1
// has not arrived either, but no rank waits for it yet.
TEST(DryRun, NamesACircleThroughKernelsOfSeveralMessages) {
  const std::string next = "\ncall t0 d652 gap=0 own=1\n";
  const Scenario s = Parsed("name k\ngroup comm=7 name=g members=0,1,2\n" +
                            RankOf("10", "coll s0 n0 g0 send gap=0 own=1 bytes=8 peer=1 more=receive:2:8" +
                                             next + "coll s0 n0 g0 send gap=0 own=1 bytes=8 peer=2") +
                            RankOf("10", "coll s0 n0 g0 receive gap=0 own=1 bytes=8 peer=2" + next +
                                             "coll s0 n0 g0 receive gap=0 own=1 bytes=8 peer=0") +
                            RankOf("10", "coll s0 n0 g0 receive gap=0 own=1 bytes=8 peer=0" + next +
                                             "coll s0 n0 g0 send gap=0 own=1 bytes=8 peer=0 more=send:1:8"));
  EXPECT_EQ(DryRun(s, {}, 1).stuck,
            "rank 2 waits in step 0 in receive of group g0 (line 22) for members that never come");
}

TEST(DryRun, ReportsADeadlockWithoutHanging) {
  const std::string receive_first =
      "call t0 d652 gap=0 own=1\ncoll s0 n0 g0 receive gap=0 own=1 peer=%\ncall t0 r131 gap=0 own=1 wait=s0\n"
      "call t0 d652 gap=0 own=1\ncoll s0 n0 g0 send gap=0 own=1 peer=%\n";
  const auto program = [&](char peer) {
    std::string text = "rank host=a device=0\nstream id=7\nthread id=0\n" + receive_first;
    std::replace(text.begin(), text.end(), '%', peer);
    return text;
  };
  const WorldHistory w = DryRun(Parsed(kTwoRanks + program('1') + program('0')), {}, 1);
  EXPECT_NE(w.stuck.find("receive of group g0"), std::string::npos) << w.stuck;
}

// docs/formats/scenario.md shows a scenario and its result.
TEST(DryRun, TheDocumentsExampleRunsAsDescribed) {
  std::ifstream in(std::string(LOCKSTEP_SOURCE_DIR) + "/docs/formats/scenario.md");
  std::stringstream text;
  text << in.rdbuf();
  const std::string document = text.str();
  const size_t from = document.find("```\nlockstep-scenario 1\n") + 4, to = document.find("```", from);
  const absl::StatusOr<Scenario> s = scenario::Parse(document.substr(from, to - from), "scenario.md");
  ASSERT_TRUE(s.ok()) << s.status();
  const WorldHistory w = DryRun(*s, {}, 1);
  EXPECT_EQ((Record(w, 0, 0, 3).end - Record(w, 0, 0, 3).start).ns(), 230'000);
  EXPECT_EQ((Record(w, 1, 0, 3).end - Record(w, 1, 0, 3).start).ns(), 30'000);
}

TEST(DryRun, PausesAffectTheDrawnShareOfSteps) {
  const Scenario s = Transformer();
  ModelSettings settings;
  settings.pause_ppm = 300'000;
  settings.pause = Nanos::Millis(30);
  const double healthy = StepMillis(s, {}, 40), paused = StepMillis(s, settings, 40);
  EXPECT_GT(paused, healthy * 1.05);
}

}  // namespace
}  // namespace lockstep::sim
