#include "base/parallel.h"

#include <numeric>
#include <stdexcept>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(ParallelFor, DoesEveryPieceOnceWithAnyNumberOfThreads) {
  for (const unsigned threads : {0u, 1u, 2u, 5u, 64u}) {
    std::vector<int> done(1000, 0);
    std::vector<size_t> by_worker(ThreadCount(threads), 0);
    ParallelFor(ThreadCount(threads), done.size(), [&](unsigned worker, size_t piece) {
      ++done[piece];
      ++by_worker[worker];
    });
    for (int d : done) ASSERT_EQ(d, 1);
    EXPECT_EQ(std::accumulate(by_worker.begin(), by_worker.end(), size_t{0}), done.size());
  }
}

TEST(ParallelFor, ReturnsAtOnceWithoutWork) {
  ParallelFor(4, 0, [](unsigned, size_t) { FAIL(); });
}

TEST(ParallelFor, RethrowsAPiecesExceptionInTheCaller) {
  for (const unsigned threads : {1u, 3u}) {
    EXPECT_THROW(ParallelFor(threads, 100,
                             [](unsigned, size_t piece) {
                               if (piece == 40) throw std::runtime_error("piece 40");
                             }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace lockstep
