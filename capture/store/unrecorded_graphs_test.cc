#include "capture/store/unrecorded_graphs.h"

#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

constexpr HostTime At(int64_t ms) { return HostTime(1'000'000'000 + ms * 1'000'000); }

class UnrecordedGraphs : public testing::Test {
 protected:
  UnrecordedGraphs() { rank_.window = {At(0), At(1000)}; }
  void Launch(uint32_t correlation, int64_t ms, uint32_t cbid = 311, bool driver = false) {
    ApiCall call;
    call.start = At(ms);
    call.end = At(ms) + Nanos::Micros(10);
    call.correlation = CorrelationId(correlation);
    call.cbid = cbid;
    call.driver = driver;
    rank_.api_calls.push_back(call);
  }
  void Kernel(uint32_t correlation, int64_t ms, uint32_t graph) {
    DeviceActivity a;
    a.start = At(ms);
    a.end = At(ms) + Nanos::Micros(10);
    a.correlation = CorrelationId(correlation);
    a.detail = static_cast<uint32_t>(rank_.kernel_details.size());
    rank_.kernel_details.emplace_back();
    rank_.kernel_details.back().graph = graph;
    rank_.activities.push_back(a);
  }
  RankData rank_;
};

TEST_F(UnrecordedGraphs, IgnoresLaunchesWithKernels) {
  Launch(1, 10);
  Launch(1, 10, 514, true);
  Kernel(1, 11, 7);
  EXPECT_EQ(UnrecordedGraphLaunches(rank_), 0u);
}

TEST_F(UnrecordedGraphs, CountsLaunchesWithoutKernelsOnce) {
  for (uint32_t i = 1; i <= 3; ++i) {
    Launch(i, 10 * i);
    Launch(i, 10 * i, 514, true);
  }
  EXPECT_EQ(UnrecordedGraphLaunches(rank_), 3u);
}

TEST_F(UnrecordedGraphs, CountsOnlyTheGraphWithoutKernels) {
  Launch(1, 10);
  Launch(2, 20);
  Launch(3, 990);
  Kernel(2, 21, 7);
  EXPECT_EQ(UnrecordedGraphLaunches(rank_), 1u) << "the last one's kernels may lie behind the window";
  Launch(4, 991, 211);
  Kernel(4, 995, 0);
  EXPECT_EQ(UnrecordedGraphLaunches(rank_), 2u) << "later launches have run";
}

TEST_F(UnrecordedGraphs, ReportsNothingWithUnreliableCorrelations) {
  Launch(1, 10);
  Launch(2, 20);
  Kernel(0, 21, 7);
  EXPECT_EQ(UnrecordedGraphLaunches(rank_), 0u);
}

TEST_F(UnrecordedGraphs, IgnoresOtherWorkWithALaunchsNumber) {
  Launch(1, 10);
  Launch(2, 20);
  Kernel(1, 12, 0);
  Kernel(2, 22, 0);
  EXPECT_EQ(UnrecordedGraphLaunches(rank_), 2u);
}

TEST_F(UnrecordedGraphs, IgnoresOtherCalls) {
  Launch(1, 10, 211);
  Launch(2, 10, 311, true);
  EXPECT_EQ(UnrecordedGraphLaunches(rank_), 0u);
}

}  // namespace
}  // namespace lockstep::capture
