#include "analysis/prepare/launch_queue.h"

#include <random>

#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

// A host that launches as fast as it can into a queue of limited length. With two streams, work ends in
// another order than that of its launches. The truth has the work that each launch waited for.
struct QueueRun {
  std::vector<LaunchCall> calls;
  std::vector<QueuedWork> work;
  std::vector<BlockedLaunch> truth;
};

QueueRun SimulateQueue(uint32_t places, uint32_t launches, double host_ns, uint64_t seed) {
  QueueRun run;
  std::mt19937_64 random(seed);
  double host = 0, stream_end[2] = {0, 0};
  for (uint32_t i = 0; i < launches; ++i) {
    const double begin = host + host_ns * (0.7 + 0.06 * static_cast<double>(random() % 10));
    double go = begin;
    const auto queued = [&](double t) {
      uint32_t n = 0;
      for (const QueuedWork& w : run.work) n += w.end > t ? 1 : 0;
      return n;
    };
    uint32_t waited_for = 0;
    while (queued(go) >= places) {
      double next = 1e300;
      for (uint32_t k = 0; k < run.work.size(); ++k) {
        if (run.work[k].end > go && run.work[k].end < next) {
          next = run.work[k].end;
          waited_for = k;
        }
      }
      go = next;
    }
    if (go > begin) run.truth.push_back({i, waited_for});
    host = go + 3'000 + static_cast<double>(random() % 2'000);
    run.calls.push_back({begin, host});
    double& end = stream_end[random() % 8 == 0 ? 1 : 0];
    end = std::max(end, host) + 60'000 + static_cast<double>(random() % 200'000);
    run.work.push_back({begin, end});
  }
  return run;
}

TEST(LaunchQueue, LaunchesIntoAFullQueueWaitForTheWorkThatFreedASlot) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const QueueRun run = SimulateQueue(24 + static_cast<uint32_t>(seed), 600, 4'000, seed);
    const std::vector<BlockedLaunch> found = FindBlockedLaunches(run.calls, run.work);
    ASSERT_GT(run.truth.size(), 400u);
    size_t right = 0;
    for (const BlockedLaunch& f : found) {
      for (const BlockedLaunch& t : run.truth) right += t.launch == f.launch && t.work == f.work ? 1 : 0;
    }
    // Launches that blocked for only a few microseconds look like ordinary ones, and do not matter.
    EXPECT_GT(static_cast<double>(right), 0.9 * static_cast<double>(run.truth.size())) << "seed " << seed;
    EXPECT_LT(found.size() - right, found.size() / 50) << "seed " << seed;
  }
}

TEST(LaunchQueue, LongLaunchesOfASlowHostAreNotBlocked) {
  QueueRun run = SimulateQueue(24, 600, 400'000, 3);
  ASSERT_TRUE(run.truth.empty());
  // A launch that loads a module happens to return when a kernel ends.
  for (uint32_t i = 50; i < 600; i += 50) run.calls[i].end = run.work[i - 1].end + 2'000;
  EXPECT_TRUE(FindBlockedLaunches(run.calls, run.work).empty());
}

TEST(LaunchQueue, FindsNothingWithoutRecords) {
  EXPECT_TRUE(FindBlockedLaunches({}, {}).empty());
  const LaunchCall calls[] = {{0, 1e6}, {2e6, 2e6}};
  EXPECT_TRUE(FindBlockedLaunches(calls, {}).empty());
}

}  // namespace
}  // namespace lockstep::analysis
