#include "capture/align/clock_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <random>

#include "capture/align/true_clock_fixture.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

using capture::CollectiveOp;
using capture::TimelineBuilder;

// Error of the model about the difference of two hosts' clocks, at a moment of the job, in us.
double PairErrorUs(const ClockModel& model, const std::vector<TrueClock>& truth, uint32_t a, uint32_t b,
                   double job_us) {
  const JobTime of_a = model.ToJob(a, TimelineBuilder::At(truth[a].Local(job_us)));
  const JobTime of_b = model.ToJob(b, TimelineBuilder::At(truth[b].Local(job_us)));
  return static_cast<double>((of_a - of_b).ns()) / 1000.0;
}

double BoundUs(const ClockModel& model) { return static_cast<double>(model.bound().ns()) / 1000.0; }

// Ranks on separate hosts that share all-reduces and arrive at random.
capture::Capture SyncPoints(const std::vector<TrueClock>& clocks, int count, double every_us,
                            double transfer_us, std::mt19937_64& random) {
  std::exponential_distribution<double> one(1);
  TimelineBuilder t;
  std::vector<int32_t> members;
  for (size_t r = 0; r < clocks.size(); ++r) members.push_back(static_cast<int32_t>(r));
  const uint32_t all = t.Group("all", members);
  for (int i = 0; i < count; ++i) {
    std::vector<double> arrivals;
    double last = 0;
    for (size_t r = 0; r < clocks.size(); ++r) {
      arrivals.push_back(every_us * (i + 1) + 500 * one(random));
      last = std::max(last, arrivals.back());
    }
    const double end = last + transfer_us * (1 + 0.05 * one(random));
    for (size_t r = 0; r < clocks.size(); ++r) {
      const double start = clocks[r].Local(arrivals[r]);
      t.Rank(static_cast<int32_t>(r), "host" + std::to_string(r))
          .AllReduce(all, start, clocks[r].Local(end + 2 * one(random)) - start);
    }
  }
  return t.Build();
}

TEST(ClockModel, OneHostIsItsOwnJobClock) {
  TimelineBuilder t;
  const uint32_t g = t.Group("g", {0, 1});
  t.Rank(0).AllReduce(g, 0, 10);
  t.Rank(1).AllReduce(g, 5, 900);
  const capture::Capture capture = t.Build();
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_EQ(model.bound(), Nanos());
  EXPECT_EQ(model.ToJob(0, HostTime(12345)).ns(), 12345);
}

TEST(ClockModel, CollectivesGiveOffsetAndDriftWithinTheBound) {
  std::mt19937_64 random(17);
  double worst = 0;
  for (int trial = 0; trial < 120; ++trial) {
    const double transfer = trial % 3 == 0 ? 20 : trial % 3 == 1 ? 80 : 500;
    const auto clocks = DrawClocks(4, random);
    const capture::Capture capture = SyncPoints(clocks, 120, 50'000, transfer, random);
    const ClockModel model = EstimateClocks(capture, Match(capture));
    for (uint32_t h = 1; h < 4; ++h) {
      EXPECT_EQ(model.hosts()[h].method == ClockMethod::kCollectives || model.hosts()[h].bound == Nanos(),
                true);
      for (const double at : {50'000.0, 3'000'000.0, 6'000'000.0}) {
        const double error = std::fabs(PairErrorUs(model, clocks, 0, h, at));
        EXPECT_LE(error, BoundUs(model)) << "trial " << trial;
        worst = std::max(worst, error / (1 + transfer / 80));
      }
    }
  }
  EXPECT_LT(worst, 12) << "microseconds, where the bound is some hundred";
}

// ---- Random jobs: the bound is never too small.

struct Disturbance {
  double offset_us, drift_ppm;
  double exit_skew_us;  // mean, drawn again for each rank and time
  double exit_bias_us;  // constant for each host
  double step_us;       // one host's clock is set by this much in the middle; 0: no clock is set
};

struct Ticking {
  TrueClock clock;
  double step_at_us = 1e18, step_us = 0;
  double Local(double job_us) const { return clock.Local(job_us) + (job_us >= step_at_us ? step_us : 0); }
};

TEST(ClockModel, TheBoundHoldsForAllClocksAndExitSkews) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kRuns = 24;
#else
  constexpr int kRuns = 400;
#endif
  std::mt19937_64 random(20'251'121);
  std::exponential_distribution<double> one(1);
  std::uniform_real_distribution<double> unit(-1, 1);
  int noticed = 0, stepped = 0;
  std::vector<double> errors;
  for (int run = 0; run < kRuns; ++run) {
    const double steps[] = {0, 0, 0, 0, 0, 0, 0, 2'000 + 20'000 * std::fabs(unit(random))};
    const Disturbance disturbance{run % 2 == 0 ? 1'000.0 : 50'000.0,
                                  std::array{0.0, 5.0, 50.0, 100.0}[static_cast<size_t>(run / 2) % 4],
                                  std::array{2.0, 5.0, 20.0}[static_cast<size_t>(run) % 3],
                                  run % 5 == 0 ? 5.0 : 0.0, steps[run % 8]};
    constexpr int kHosts = 3, kRanks = 6;
    constexpr double kLength = 4e6;
    std::vector<Ticking> clocks(kHosts);
    std::vector<double> bias;
    for (Ticking& c : clocks) {
      c.clock = {unit(random) * disturbance.offset_us, unit(random) * disturbance.drift_ppm * 1e-6};
      bias.push_back(disturbance.exit_bias_us * std::fabs(unit(random)));
    }
    if (disturbance.step_us != 0) {
      ++stepped;
      clocks[static_cast<size_t>(run / 8) % kHosts].step_at_us = kLength * (0.3 + 0.2 * (1 + unit(random)));
      clocks[static_cast<size_t>(run / 8) % kHosts].step_us =
          (run / 8) % 2 == 0 ? disturbance.step_us : -disturbance.step_us;
    }
    const double transfer = std::array{20.0, 80.0, 500.0}[static_cast<size_t>(run / 3) % 3];
    TimelineBuilder t;
    const uint32_t all = t.Group("all", {0, 1, 2, 3, 4, 5});
    for (int i = 0; i < 100; ++i) {
      double start[kRanks], last = 0;
      for (double& s : start) {
        s = kLength / 100 * (i + 0.3) + 400 * one(random);
        last = std::max(last, s);
      }
      for (int r = 0; r < kRanks; ++r) {
        const size_t h = static_cast<size_t>(r) / 2;
        const double end = last + transfer + bias[h] + disturbance.exit_skew_us * one(random);
        const double from = clocks[h].Local(start[r]);
        t.Rank(r, "host" + std::to_string(h)).AllReduce(all, from, clocks[h].Local(end) - from);
      }
    }
    const capture::Capture capture = t.Build();
    const ClockModel model = EstimateClocks(capture, Match(capture));
    for (uint32_t a = 0; a < kHosts; ++a) {
      for (uint32_t b = a + 1; b < kHosts; ++b) {
        double worst = 0;
        for (int k = 0; k <= 10; ++k) {
          const double at = kLength * (0.01 + 0.098 * k);
          const JobTime of_a = model.ToJob(a, TimelineBuilder::At(clocks[a].Local(at))),
                        of_b = model.ToJob(b, TimelineBuilder::At(clocks[b].Local(at)));
          worst = std::max(worst, std::fabs(static_cast<double>((of_a - of_b).ns()) / 1000.0));
        }
        const Nanos bound = model.hosts()[a].bound + model.hosts()[b].bound;
        EXPECT_LE(worst, static_cast<double>(bound.ns()) / 1000.0)
            << "run " << run << " hosts " << a << ", " << b << " step " << disturbance.step_us << " drift "
            << disturbance.drift_ppm;
        if (disturbance.step_us == 0) errors.push_back(worst);
      }
    }
    if (disturbance.step_us != 0) {
      noticed += std::any_of(model.hosts().begin(), model.hosts().end(),
                             [](const HostClock& h) { return h.step_noticed; })
                     ? 1
                     : 0;
    } else {
      for (const HostClock& h : model.hosts()) EXPECT_FALSE(h.step_noticed) << "run " << run;
    }
  }
  EXPECT_EQ(noticed, stepped);
  std::sort(errors.begin(), errors.end());
  std::cout << "clock error: median " << errors[errors.size() / 2] << " us, p99 "
            << errors[errors.size() * 99 / 100] << " us\n";
}

TEST(ClockModel, LargeOperationsWithExitSkewDoNotCorrectAgreeingClocks) {
  // DDP over a slow link: all-reduces of 50 ms whose ends lie up to 1.5 ms apart, and a small one of 250 us.
  std::mt19937_64 random(2);
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  for (int i = 0; i < 30; ++i) {
    const double start = 100'000.0 * i;
    const bool small = i % 15 == 0;
    const double apart = small ? 13 : 300 + static_cast<double>(random() % 1200);
    t.Rank(0, "a").AllReduce(all, start, small ? 3'700 : 52'000);
    t.Rank(1, "b").AllReduce(all, start + 3'400, (small ? 300 : 48'600) + apart);
  }
  const capture::Capture capture = t.Build();
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_LT(std::fabs(PairErrorUs(model, {{}, {}}, 0, 1, 1'500'000)), 40);
  EXPECT_GE(BoundUs(model), std::fabs(PairErrorUs(model, {{}, {}}, 0, 1, 1'500'000)));
}

TEST(ClockModel, ABroadcastWithAWaitingReceiverGivesTheOffset) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  const capture::CollectiveSpec broadcast{.op = CollectiveOp::kBroadcast, .group = all};
  for (int i = 0; i < 6; ++i) {
    const double at = 50'000.0 * i;
    t.Rank(0, "a").Communication(broadcast, at + 20'000, 75);
    t.Rank(1, "b").Communication(broadcast, at + 7'000 + 4'000, 16'090);  // 7 ms ahead
    t.Rank(0, "a").AllReduce(all, at + 25'000, 15'000);
    t.Rank(1, "b").AllReduce(all, at + 25'000 + 7'000, 16'000);
  }
  const capture::Capture capture = t.Build();
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_LT(std::fabs(PairErrorUs(model, {{}, {7'000, 0}}, 0, 1, 100'000)), 40);
}

TEST(ClockModel, ASenderThatLeftEarlyDoesNotLimitTheReceiversClock) {
  std::mt19937_64 random(51);
  for (int trial = 0; trial < 40; ++trial) {
    const auto clocks = DrawClocks(2, random);
    capture::Capture capture;
    {
      TimelineBuilder t;
      const uint32_t all = t.Group("all", {0, 1});
      const auto put = [&](int r, const capture::CollectiveSpec& spec, double from, double to) {
        const double start = clocks[static_cast<size_t>(r)].Local(from);
        t.Rank(r, "h" + std::to_string(r))
            .Communication(spec, start, clocks[static_cast<size_t>(r)].Local(to) - start);
      };
      for (int i = 0; i < 60; ++i) {
        const double at = 20'000.0 * i, early = static_cast<double>(random() % 900);
        put(0, {.group = all, .source = capture::MatchSource::kGroupSequence, .sequence = i}, at, at + 1200);
        put(1, {.group = all, .source = capture::MatchSource::kGroupSequence, .sequence = i}, at + early,
            at + 1200);
        // The message is buffered. It is sent in 50 us and received 3 ms later, when all of it has arrived.
        put(0, {.op = CollectiveOp::kSend, .group = all, .peer = 1}, at + 5'000, at + 5'050);
        put(1, {.op = CollectiveOp::kReceive, .group = all, .peer = 0}, at + 8'000, at + 8'020);
      }
      capture = t.Build();
    }
    const ClockModel model = EstimateClocks(capture, Match(capture));
    for (const double at : {10'000.0, 600'000.0, 1'190'000.0}) {
      EXPECT_LE(std::fabs(PairErrorUs(model, clocks, 0, 1, at)), BoundUs(model)) << "trial " << trial;
    }
    EXPECT_FALSE(model.hosts()[0].step_noticed || model.hosts()[1].step_noticed);
  }
}

TEST(ClockModel, MessagesInBothDirectionsGiveTheOffset) {
  const std::vector<TrueClock> clocks = {{}, {4'321, 0}};
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  const auto put = [&](int r, const capture::CollectiveSpec& spec, double from, double to) {
    t.Rank(r, "h" + std::to_string(r))
        .Communication(spec, clocks[static_cast<size_t>(r)].Local(from), to - from);
  };
  for (int i = 0; i < 20; ++i) {
    const double at = 20'000.0 * i;
    for (const int from : {0, 1}) {
      // The receiver has waited for 4 ms. The message takes 600 us, and its sender leaves after 200 us.
      put(from, {.op = CollectiveOp::kSend, .group = all, .peer = 1 - from}, at + 10'000.0 * from,
          at + 10'000.0 * from + 200);
      put(1 - from, {.op = CollectiveOp::kReceive, .group = all, .peer = from}, at + 10'000.0 * from - 4'000,
          at + 10'000.0 * from + 600);
    }
  }
  const capture::Capture capture = t.Build();
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_LT(std::fabs(PairErrorUs(model, clocks, 0, 1, 200'000)), 2);
  EXPECT_GE(BoundUs(model), 600) << "that both ways take equally long is likely, not certain";
}

// Two hosts in long all-reduces, whose limits leave 15 ms in either direction.
capture::Capture LongOperations(double set_by_us, double stray_us) {
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1});
  for (int i = 0; i < 40; ++i) {
    const double at = 50'000.0 * (i + 1), early = 100.0 * (i % 7);
    const double ahead = 700 + (i >= 25 ? set_by_us : 0) + (i == 12 ? stray_us : 0);
    t.Rank(0, "a").AllReduce(all, at, 15'000);
    t.Rank(1, "b").AllReduce(all, at - early + ahead, 15'000 + early + (i % 3));
  }
  return t.Build();
}

TEST(ClockModel, DetectsASmallClockStepByTheEndsOfLongOperations) {
  const std::vector<TrueClock> before = {{}, {700, 0}}, after = {{}, {2'700, 0}};
  const capture::Capture capture = LongOperations(2'000, 0);
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_TRUE(model.hosts()[0].step_noticed || model.hosts()[1].step_noticed);
  EXPECT_LT(std::fabs(PairErrorUs(model, before, 0, 1, 100'000)), 3) << "the longer side";
  EXPECT_GE(BoundUs(model), std::fabs(PairErrorUs(model, after, 0, 1, 2'000'000)));
}

TEST(ClockModel, OneWrongMatchIsNotAClockStep) {
  const capture::Capture capture = LongOperations(0, 40'000);
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_FALSE(model.hosts()[0].step_noticed || model.hosts()[1].step_noticed);
  EXPECT_LT(std::fabs(PairErrorUs(model, {{}, {700, 0}}, 0, 1, 100'000)), 3);
  EXPECT_LT(BoundUs(model), 17'000);
}

TEST(ClockModel, HostsThatEachCameLastLimitEachOtherThroughThirdHosts) {
  // Rank 0 never comes last. Only its operations with rank 3 alone limit how far it is behind the others.
  TimelineBuilder t;
  const uint32_t all = t.Group("all", {0, 1, 2, 3}), pair = t.Group("pair", {0, 3});
  const auto meet = [&](uint32_t group, std::initializer_list<int> ranks, int last, double at) {
    for (const int r : ranks) {
      const double early = r == last ? 0 : 5'000;
      t.Rank(r, "h" + std::to_string(r)).AllReduce(group, at - early, 100 + early);
    }
  };
  for (int i = 0; i < 12; ++i) {
    const double at = 100'000.0 * (i + 1);
    for (const int last : {1, 2, 3}) meet(all, {0, 1, 2, 3}, last, at + 10'000.0 * last);
    meet(pair, {0, 3}, 0, at + 50'000);
  }
  const capture::Capture capture = t.Build();
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_LT(BoundUs(model), 700)
      << "100 us operations; alone with the others rank 0 is only known within 5 ms";
}

TEST(ClockModel, HostsWithoutACommonCollectiveHaveUnknownOffsets) {
  TimelineBuilder t;
  const uint32_t a = t.Group("a", {0, 1});
  for (int i = 0; i < 5; ++i) {
    t.Rank(0, "x").AllReduce(a, 1000.0 * i, 50);
    t.Rank(1, "y").AllReduce(a, 1000.0 * i, 50);
    t.Rank(2, "z").Kernel("k", 1000.0 * i, 50);
  }
  const capture::Capture capture = t.Build();
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_EQ(model.hosts()[2].bound, Nanos::Max());
  EXPECT_EQ(model.hosts()[2].method, ClockMethod::kNone);
  EXPECT_EQ(model.bound(), Nanos::Max());
}

TEST(ClockModel, HostsConnectedThroughOthersAddTheirBounds) {
  std::mt19937_64 random(23);
  const auto clocks = DrawClocks(3, random);
  TimelineBuilder t;
  const uint32_t ab = t.Group("ab", {0, 1});
  const uint32_t bc = t.Group("bc", {1, 2});
  for (int i = 0; i < 60; ++i) {
    for (const auto& [group, first] : {std::pair(ab, 0), std::pair(bc, 1)}) {
      const double late = 20'000.0 * i + (first == 0 ? 0 : 7'000);
      for (int r : {first, first + 1}) {
        const double start = late + static_cast<double>(random() % 400);
        t.Rank(r, "h" + std::to_string(r))
            .AllReduce(group, clocks[static_cast<size_t>(r)].Local(start),
                       clocks[static_cast<size_t>(r)].Local(late + 450) -
                           clocks[static_cast<size_t>(r)].Local(start));
      }
    }
  }
  const capture::Capture capture = t.Build();
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_LT(std::fabs(PairErrorUs(model, clocks, 0, 2, 600'000)), 20);
  EXPECT_NE(model.bound(), Nanos::Max());
}

TEST(ClockModel, CollectivesTightenTheNetworksBound) {
  std::mt19937_64 random(41);
  for (int trial = 0; trial < 40; ++trial) {
    const auto clocks = DrawClocks(2, random);
    capture::Capture capture = SyncPoints(clocks, 100, 30'000, 15, random);
    for (size_t h = 0; h < 2; ++h) capture.hosts[h].exchanges = Exchanges(clocks[h], 60, 50'000, random);
    const ClockModel model = EstimateClocks(capture, Match(capture));
    for (const double at : {50'000.0, 1'500'000.0, 3'000'000.0}) {
      EXPECT_LE(std::fabs(PairErrorUs(model, clocks, 0, 1, at)), BoundUs(model));
      EXPECT_LT(std::fabs(PairErrorUs(model, clocks, 0, 1, at)), 40);
    }
  }
}

TEST(ClockModel, StepsThatAddUpToMoreThanFitsLeaveTheBoundUnknown) {
  std::mt19937_64 random(43);
  capture::Capture capture = SyncPoints(DrawClocks(2, random), 40, 30'000, 15, random);
  ASSERT_NE(EstimateClocks(capture, Match(capture)).hosts()[1].bound, Nanos::Max());
  for (int i = 0; i < 8; ++i)
    capture.ranks[1].clocks.push_back(
        {.realtime = HostTime((i % 2) * kFarthestStampNs), .monotonic = MonoTime(i)});
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_TRUE(model.hosts()[1].step_noticed);
  EXPECT_EQ(model.hosts()[1].bound, Nanos::Max());
}

TEST(ClockModel, AStepInARanksClockReadingsWidensTheBound) {
  std::mt19937_64 random(43);
  capture::Capture capture = SyncPoints(DrawClocks(2, random), 40, 30'000, 15, random);
  const HostTime at = TimelineBuilder::At(0);
  capture.ranks[1].clocks = {{.realtime = at, .monotonic = MonoTime(0)},
                             {.realtime = at + Nanos::Seconds(1), .monotonic = MonoTime(1'000'000'000)},
                             {.realtime = at + Nanos::Millis(2050), .monotonic = MonoTime(2'000'000'000)}};
  const ClockModel model = EstimateClocks(capture, Match(capture));
  EXPECT_TRUE(model.hosts()[1].step_noticed);
  EXPECT_GE(model.hosts()[1].bound, Nanos::Millis(49));
}

// Two ranks a host share one all-reduce of all ranks per step, as jobs do for a gradient's norm. Within a
// step, hosts only meet in long operations of two.
capture::Capture OneShortAllReducePerStep(const std::vector<TrueClock>& clocks, double exit_skew_us,
                                          std::mt19937_64& random) {
  std::exponential_distribution<double> one(1);
  TimelineBuilder t;
  std::vector<int32_t> members;
  for (size_t r = 0; r < 2 * clocks.size(); ++r) members.push_back(static_cast<int32_t>(r));
  const uint32_t all = t.Group("all", members);
  for (int step = 0; step < 6; ++step) {
    const double last = 40'000.0 * (step + 1);
    for (size_t r = 0; r < members.size(); ++r) {
      const TrueClock& clock = clocks[r / 2];
      const double start = clock.Local(last - (r == 1 ? 0 : 8'000 + 4'000 * one(random)));
      t.Rank(static_cast<int32_t>(r), "host" + std::to_string(r / 2))
          .AllReduce(all, start, clock.Local(last + 30 + exit_skew_us * one(random)) - start);
    }
  }
  return t.Build();
}

TEST(ClockModel, OneShortAllReducePerStepBoundsAllHostsWithin50Microseconds) {
  std::mt19937_64 random(31);
  for (const size_t hosts : {2u, 4u, 8u}) {
    for (int trial = 0; trial < 20; ++trial) {
      const auto clocks = DrawClocks(hosts, random);
      const capture::Capture capture = OneShortAllReducePerStep(clocks, 0.5, random);
      const ClockModel model = EstimateClocks(capture, Match(capture));
      EXPECT_LE(BoundUs(model), 50) << hosts << " hosts";
      for (uint32_t h = 1; h < hosts; ++h) {
        for (const double at : {32'000.0, 240'000.0})
          EXPECT_LE(std::fabs(PairErrorUs(model, clocks, 0, h, at)), BoundUs(model));
      }
    }
  }
}

TEST(ClockModel, TheBoundWidensWithTheExitSkew) {
  std::mt19937_64 random(32);
  for (int trial = 0; trial < 40; ++trial) {
    const auto clocks = DrawClocks(4, random);
    const capture::Capture capture = OneShortAllReducePerStep(clocks, 500, random);
    const ClockModel model = EstimateClocks(capture, Match(capture));
    EXPECT_GE(BoundUs(model), 500);
    for (uint32_t h = 1; h < 4; ++h) {
      for (const double at : {32'000.0, 240'000.0})
        EXPECT_LE(std::fabs(PairErrorUs(model, clocks, 0, h, at)), BoundUs(model)) << "trial " << trial;
    }
  }
}

}  // namespace
}  // namespace lockstep::capture
