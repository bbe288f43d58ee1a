#include "analysis/replay/hidden_barriers.h"

#include <algorithm>
#include <functional>

#include "analysis/gains/gains.h"
#include "analysis/replay/prepared.h"
#include "capture/model/timeline_builder_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

constexpr int kBarrierRanks = 4, kBarrierSteps = 6;
constexpr double kBarrierStepUs = 100'000;

// Four ranks without host records work, begin an operation, and reduce together. `work_us`: how long a rank
// works. `begin_us`: when it begins the operation, after the begin of the step; `last` is when the last rank
// has finished its work.
struct BarrierJob {
  std::function<double(int rank)> work_us;
  std::function<double(int rank, double last)> begin_us;

  capture::Capture Build() const {
    capture::TimelineBuilder t;
    const uint32_t all = t.Group("all", {0, 1, 2, 3});
    double last = 0;
    for (int r = 0; r < kBarrierRanks; ++r) last = std::max(last, work_us(r));
    for (int s = 0; s < kBarrierSteps; ++s) {
      const double at = kBarrierStepUs * s;
      for (int r = 0; r < kBarrierRanks; ++r) {
        const double begin = begin_us(r, last);
        t.Rank(r).Step(s, at, kBarrierStepUs).Kernel("work", at, work_us(r)).Kernel("norm", at + begin, 500);
        t.Rank(r).AllReduce(all, at + begin + 501, kBarrierStepUs - begin - 502);
      }
    }
    return t.Build();
  }
};

// Gain per step, in microseconds, of rank 0 being like the others. The first step begins at its observed
// time.
double BarrierGain(const BarrierJob& job) {
  const capture::Capture capture = job.Build();
  const Prepared prepared(capture, 1);
  const GraphInput input = prepared.input();
  Gains gains(input);
  const std::vector<double> gain = gains.Of({.rank_indices = {0}, .owners = {}});
  return gain[gain.size() / 2] / 1e3;
}

// Rank 0 works 30 ms longer. The others are idle until it has finished, although no record shows why.
TEST(HiddenBarriers, RanksThatBeginTogetherWaitForTheLastOne) {
  const BarrierJob job{.work_us = [](int r) { return r == 0 ? 40'000.0 : 10'000.0; },
                       .begin_us = [](int r, double last) { return last + 90 + 5 * r; }};
  EXPECT_NEAR(BarrierGain(job), 30'000, 300);
}

// All ranks are idle for the same time. None of them waits for another one's work.
TEST(HiddenBarriers, IdleTimeThatAllRanksShareIsNotABarrier) {
  const BarrierJob job{.work_us = [](int) { return 10'000.0; },
                       .begin_us = [](int, double last) { return last + 30'000; }};
  EXPECT_NEAR(BarrierGain(job), 0, 100);
}

// Two ranks begin late together, long after the others.
TEST(HiddenBarriers, LateRanksOfAHostWaitForNobody) {
  const BarrierJob job{.work_us = [](int r) { return r < 2 ? 10'000.0 : 10'500.0; },
                       .begin_us = [](int r, double) { return r < 2 ? 40'000.0 + r : 10'600.0; }};
  const BarrierJob alone{.work_us = job.work_us,
                         .begin_us = [](int r, double) { return r < 1 ? 40'000.0 : 10'600.0; }};
  EXPECT_NEAR(BarrierGain(alone), 29'000, 1'500) << "its own delay";
  EXPECT_NEAR(BarrierGain(job), 0, 1'000) << "the other late rank still delays the step";
}

}  // namespace
}  // namespace lockstep::analysis
