// Findings over steps and ranks: when they began, which of several culprits are named, and that chance is
// not.
#include "analysis/explain/diagnosis.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"
#include "tests/support/diagnosed_job.h"
#include "tests/support/small_job.h"

namespace lockstep::analysis {
namespace {

using tests::CallAt;
using tests::Describe;
using tests::DiagnoseJob;
using tests::ExpectFirst;
using tests::KernelAt;
using tests::SmallJob;

TEST(Diagnosis, NamesTheFirstAndLastStepOfAnEpisode) {
  SmallJob job;
  job.steps = 30;
  job.kernel = [](const KernelAt& k) { return k.rank == 4 && k.step >= 12 && k.step < 20 ? 1.15 : 1.0; };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kRank, {4}, Cause::kGpuClock);
  EXPECT_EQ(d.findings[0].since_step, 112);
  EXPECT_EQ(d.findings[0].until_step, 119);
}

TEST(Diagnosis, NamesARankThatIsSlowInSomeSteps) {
  SmallJob job;
  job.steps = 30;
  job.kernel = [](const KernelAt& k) {
    return k.rank == 4 && (k.step == 4 || k.step == 13 || k.step == 14 || k.step == 25) ? 1.4 : 1.0;
  };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {4}, Cause::kGpuClock);
}

TEST(Diagnosis, NamesNeitherOfTwoEqualPeersAlone) {
  SmallJob job;
  job.data_parallel = 2;
  job.tensor_parallel = 1;
  job.kernel = [](const KernelAt& k) { return k.rank == 1 ? 1.2 : 1.0; };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kGroup, {0, 1}, Cause::kGpuClock);
  EXPECT_EQ(d.findings[0].verdict, Verdict::kUndecided);
  EXPECT_FALSE(d.findings[0].identified);
}

TEST(Diagnosis, OfTwoPeersNamesTheOneThatWasFasterBefore) {
  SmallJob job;
  job.data_parallel = 2;
  job.tensor_parallel = 1;
  job.steps = 30;
  job.kernel = [](const KernelAt& k) { return k.rank == 1 && k.step >= 14 ? 1.2 : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {1}, Cause::kGpuClock);
}

TEST(Diagnosis, TwoEquallySlowRanksAreBothNamed) {
  SmallJob job;
  job.kernel = [](const KernelAt& k) { return k.rank == 1 || k.rank == 6 ? 1.1 : 1.0; };
  const Diagnosis d = DiagnoseJob(job);
  ASSERT_EQ(d.findings.size(), 2u) << Describe(d);
  std::vector<uint32_t> named = {d.findings[0].rank_indices[0], d.findings[1].rank_indices[0]};
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named, (std::vector<uint32_t>{1, 6}));
}

// Its delay costs nothing as long as the copies of another rank take longer, and then as much as it lasts.
TEST(Diagnosis, ALateHostBehindSlowerCopiesIsNamedToo) {
  SmallJob job;
  job.copy = [](int rank, int) { return rank == 2 ? 10.0 : 1.0; };
  job.gap_us = [](const CallAt& c) { return c.rank == 5 && c.head ? 900.0 : 0.0; };
  const Diagnosis d = DiagnoseJob(job);
  ASSERT_EQ(d.findings.size(), 2u) << Describe(d);
  ExpectFirst(d, CulpritKind::kRank, {2}, Cause::kCopy);
  EXPECT_EQ(d.findings[1].rank_indices, (std::vector<uint32_t>{5}));
  EXPECT_EQ(CauseName(d.findings[1].cause), CauseName(Cause::kHostPause));
  EXPECT_LT(d.findings[1].gain_ns, *d.noise_floor_ns) << Describe(d);
  ASSERT_FALSE(d.fixes.empty());
  EXPECT_EQ(d.fixes[0].entries.size(), 2u);
}

TEST(Diagnosis, ASlowHostIsOneFindingInsteadOfOnePerRank) {
  SmallJob job;
  job.data_parallel = 8;
  job.ranks_per_host = 4;
  job.kernel = [](const KernelAt& k) { return k.rank / 4 == 1 ? 1 + (Memory(k.kernel) ? 0.03 : 0.1) : 1.0; };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kHost, {4, 5, 6, 7}, Cause::kGpuClock);
  EXPECT_EQ(d.findings.size(), 1u) << Describe(d);
}

TEST(Diagnosis, TwentyStepsShowOneOfManyGpusThreePercentSlow) {
  for (const int replicas : {4, 16}) {
    SmallJob job;
    job.data_parallel = replicas;
    job.kernel = [](const KernelAt& k) { return k.rank == 3 ? 1.03 : 1.0; };
    ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {3}, Cause::kGpuClock);
  }
}

TEST(Diagnosis, HealthyJobsHaveNoFindingsAtAnyNoise) {
  int called = 0, jobs = 0;
  std::string reports;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int kSeeds = 2;
#else
  constexpr int kSeeds = 12;
#endif
  for (const double noise : {0.005, 0.01, 0.03}) {
    for (const bool drifts : {false, true}) {
      for (int seed = 0; seed < kSeeds; ++seed) {
        SmallJob job;
        job.seed = static_cast<uint64_t>(seed) * 31 + 7;
        job.noise = noise;
        job.ranks_per_host = 4;
        std::map<std::pair<int, int>, double> factors;
        std::mt19937_64 random(job.seed);
        std::normal_distribution<double> normal(0, noise / 2);
        for (int who = 0; who < 10; ++who) {
          double value = normal(random);
          for (int step = 0; step < job.steps; ++step) {
            value = 0.6 * value + 0.8 * normal(random);
            factors[{who, step}] = 1 + value;
          }
        }
        if (drifts)
          job.drift = [&](int rank, int step) {
            return factors[{rank, step}] * factors[{8 + rank / 4, step}];
          };
        const Diagnosis d = DiagnoseJob(job);
        ++jobs;
        if (d.findings.empty()) continue;
        ++called;
        reports += Describe(d);
      }
    }
  }
  EXPECT_LE(called, jobs / 100) << called << " of " << jobs << "\n" << reports;
}

TEST(Diagnosis, TwoStepsDecideNothing) {
  SmallJob job;
  job.steps = 2;
  job.kernel = [](const KernelAt& k) { return k.rank == 5 ? 1.3 : 1.0; };
  const Diagnosis d = DiagnoseJob(job);
  EXPECT_FALSE(d.noise_floor_ns.has_value());
  for (const Finding& f : d.findings) EXPECT_EQ(f.verdict, Verdict::kUndecided);
}

}  // namespace
}  // namespace lockstep::analysis
