// Rules of causes: each one on a job that has the fault, and on a job that nearly has it.
#include "analysis/explain/causes.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "analysis/explain/diagnosis.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/diagnosed_job.h"
#include "tests/support/small_job.h"

namespace lockstep::analysis {
namespace {

using testing::Contains;
using testing::HasSubstr;
using tests::CallAt;
using tests::Describe;
using tests::DiagnoseJob;
using tests::ExpectFirst;
using tests::JobKernel;
using tests::KernelAt;
using tests::SmallJob;
using tests::TransferAt;

bool Memory(JobKernel k) { return k == JobKernel::kElement || k == JobKernel::kOptimizer; }

TEST(Causes, ASlowClockSlowsMatrixProductsMostWithOrWithoutOverlap) {
  SmallJob job;
  job.kernel = [](const KernelAt& k) { return k.rank == 5 ? 1 + (Memory(k.kernel) ? 0.02 : 0.08) : 1.0; };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kRank, {5}, Cause::kGpuClock);
  EXPECT_EQ(d.findings[0].verdict, Verdict::kSure) << Describe(d);
}

// One replica has one microbatch more than the others.
SmallJob WithMoreToDo(std::function<bool(int rank)> busy) {
  SmallJob job;
  job.extra_runs = [busy = std::move(busy)](const KernelAt& k) {
    return busy(k.rank) && k.microbatch == 1 && k.kernel != JobKernel::kOptimizer ? 1 : 0;
  };
  return job;
}

TEST(Causes, MoreRunsOfTheSameKernelsAreExtraWorkAndNotADeviceFault) {
  const Diagnosis d = DiagnoseJob(WithMoreToDo([](int rank) { return rank == 5; }));
  ExpectFirst(d, CulpritKind::kRank, {5}, Cause::kUnknown);
  EXPECT_EQ(d.findings.size(), 1u) << Describe(d);
  EXPECT_EQ(d.findings[0].verdict, Verdict::kLikely) << Describe(d);
  EXPECT_THAT(d.findings[0].evidence, Contains(HasSubstr("kernels more per step than its peers")));
  // A fix would remove all waiting for it.
  EXPECT_GT(d.findings[0].gain_ns, 0.9 * d.lost_ns) << Describe(d);
}

TEST(Causes, MoreWorkOnAllRanksInAStepNamesNoRank) {
  SmallJob job;
  job.extra_runs = [](const KernelAt& k) {
    return k.step % 4 == 0 && k.kernel == JobKernel::kElement ? 1 : 0;
  };
  EXPECT_TRUE(DiagnoseJob(job).findings.empty());
}

TEST(Causes, SlowMemorySlowsMemoryBoundKernels) {
  SmallJob job;
  job.kernel = [](const KernelAt& k) { return k.rank == 2 && Memory(k.kernel) ? 1.6 : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {2}, Cause::kGpuMemory);
}

TEST(Causes, SlownessOnlyDuringCommunicationIsContention) {
  SmallJob job;
  job.layers = 4;
  job.kernel = [](const KernelAt& k) { return k.overlapped ? (k.rank == 3 ? 1.5 : 1.05) : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {3}, Cause::kContention);
}

TEST(Causes, ASlowdownOfAllKernelsIsNotContention) {
  SmallJob job;
  job.layers = 4;
  job.kernel = [](const KernelAt& k) { return (k.overlapped ? 1.05 : 1.0) * (k.rank == 3 ? 1.1 : 1.0); };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {3}, Cause::kGpuClock);
}

TEST(Causes, SilenceBeforeEachStepsFirstCopyIsAPauseWithItsCandidates) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) { return c.rank == 1 && c.head ? 900.0 : 0.0; };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kRank, {1}, Cause::kHostPause);
  ASSERT_GE(d.findings[0].evidence.size(), 2u);
  EXPECT_THAT(d.findings[0].evidence[0], testing::HasSubstr("its host is silent for"));
  EXPECT_THAT(d.findings[0].evidence[1], testing::HasSubstr("candidates: its input"));
}

TEST(Causes, TheSameSilenceInARangeOfTheDataLoaderIsDataLoading) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) { return c.rank == 1 && c.head ? 900.0 : 0.0; };
  job.loader_ranges = true;
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kRank, {1}, Cause::kDataLoader);
  EXPECT_THAT(d.findings[0].evidence[0], testing::HasSubstr("in the data loader for"));
}

TEST(Causes, LatenessBeforeAllCallsIsSlowLaunching) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) { return c.rank == 4 && !c.end ? 250.0 : 0.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {4}, Cause::kHostLaunch);
}

TEST(Causes, SlowLaunchingOnAllRanksOfAHostIsItsCpu) {
  SmallJob job;
  job.data_parallel = 8;
  job.ranks_per_host = 4;
  job.gap_us = [](const CallAt& c) { return c.host == 2 && !c.end ? 250.0 : 0.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kHost, {8, 9, 10, 11}, Cause::kCpuContention);
}

// All ranks of the stage are slow, so only other stages can show it.
TEST(Causes, ComparesAHostThatIsAWholeStageWithOtherStages) {
  for (const int slow : {0, 1}) {
    SmallJob job;
    job.data_parallel = 2, job.pipeline = 2;
    job.ranks_per_host = 4;
    job.gap_us = [slow](const CallAt& c) { return c.host == slow && !c.end ? 250.0 : 0.0; };
    const std::vector<uint32_t> ranks =
        slow == 0 ? std::vector<uint32_t>{0, 1, 2, 3} : std::vector<uint32_t>{4, 5, 6, 7};
    ExpectFirst(DiagnoseJob(job), CulpritKind::kHost, ranks, Cause::kCpuContention);
  }
}

TEST(Causes, PausesAtChangingPlacesOfOneRankAreThatRanks) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) {
    return c.rank == 6 && c.step % 4 == 1 && c.place == 3 + (c.step * 5) % 17 ? 20'000.0 : 0.0;
  };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {6}, Cause::kHostPause);
}

TEST(Causes, EvidenceCountsShortPauses) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) {
    return c.rank == 6 && c.step % 4 == 1 && c.place >= 3 + c.step % 5 && c.place < 8 + c.step % 5 ? 1'500.0
                                                                                                   : 0.0;
  };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kRank, {6}, Cause::kHostPause);
  ASSERT_FALSE(d.findings.empty());
  // 5 stops of 1.5 ms in each of 5 of 19 steps are 1.97 ms per step.
  EXPECT_THAT(
      d.findings[0].evidence[0],
      HasSubstr(
          "its host stops for 1.97 ms per step, up to 1.50 ms at a time, in 5 of 19 steps at 9 places"));
}

TEST(Causes, PausesOnChangingRanksAreOneJobFinding) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) {
    return (c.rank * 3 + c.step) % 8 == 0 && c.place == 3 + (c.rank * 7 + c.step * 5) % 20 ? 20'000.0 : 0.0;
  };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kJob, {0, 1, 2, 3, 4, 5, 6, 7}, Cause::kHostPause);
}

TEST(Causes, TimeInAllocatingCallsIsTheAllocator) {
  SmallJob job;
  const auto here = [](const CallAt& c) {
    return c.rank == 7 && c.step % 3 == 1 && c.place == 4 + (c.step * 5) % 17;
  };
  job.gap_us = [here](const CallAt& c) { return here(c) ? 20'000.0 : 0.0; };
  job.gap_call = [here](const CallAt& c) { return here(c) ? std::string("cudaFree") : std::string(); };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kRank, {7}, Cause::kHostAllocator);
  EXPECT_THAT(d.findings[0].evidence[0], HasSubstr("cudaFree"));
}

TEST(Causes, PeriodicStopsAreCheckpointsOfAllRanksOrRankZero) {
  for (const bool alone : {false, true}) {
    SmallJob job;
    job.gap_us = [alone](const CallAt& c) {
      return c.end && c.step % 5 == 4 && (!alone || c.rank == 0) ? 30'000.0 : 0.0;
    };
    const Diagnosis d = DiagnoseJob(job);
    if (alone) {
      ExpectFirst(d, CulpritKind::kRank, {0}, Cause::kCheckpoint);
    } else {
      ExpectFirst(d, CulpritKind::kJob, {0, 1, 2, 3, 4, 5, 6, 7}, Cause::kCheckpoint);
    }
  }
}

TEST(Causes, NamesSlowCopies) {
  SmallJob job;
  job.copy = [](int rank, int) { return rank == 2 ? 8.0 : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {2}, Cause::kCopy);
}

bool Has(const std::vector<int>& members, int rank) {
  return std::find(members.begin(), members.end(), rank) != members.end();
}

TEST(Causes, SlowTransfersInAllGroupsOfARankAreItsLink) {
  SmallJob job;
  job.transfer = [](const TransferAt& t) { return Has(t.members, 5) && t.members.size() < 8 ? 2.0 : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {5}, Cause::kSlowLink);
}

TEST(Causes, SlowLinksOfAllGroupsOfAHostAreItsNetworkCard) {
  SmallJob job;
  job.data_parallel = 2;
  job.tensor_parallel = 4;
  job.pipeline = 3;
  job.ranks_per_host = 4;
  job.transfer = [](const TransferAt& t) {
    const bool touches =
        std::any_of(t.members.begin(), t.members.end(), [](int m) { return m >= 8 && m < 12; });
    return touches && t.between_hosts && t.members.size() < 24 ? 3.0 : 1.0;
  };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kHost, {8, 9, 10, 11}, Cause::kSlowLink);
}

TEST(Causes, ASlowGroupWithOtherwiseFineMembersIsOneGroupFinding) {
  SmallJob job;
  job.transfer = [](const TransferAt& t) { return t.members == std::vector<int>{2, 3} ? 4.0 : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kGroup, {2, 3}, Cause::kSlowLink);
}

TEST(Causes, SlowTransfersOfChangingGroupsAreCongestion) {
  SmallJob job;
  job.data_parallel = 4;
  job.tensor_parallel = 4;
  job.ranks_per_host = 4;
  job.transfer = [](const TransferAt& t) {
    return t.between_hosts && t.members.size() == 4 && (t.members[0] * 7 + t.step * 3) % 5 < 2 ? 4.0 : 1.0;
  };
  const Diagnosis d = DiagnoseJob(job);
  ASSERT_FALSE(d.findings.empty());
  EXPECT_EQ(CauseName(d.findings[0].cause), "congestion") << Describe(d);
  EXPECT_EQ(CulpritKindName(d.findings[0].kind), "job");
}

// Four stages of two replicas.
SmallJob Pipeline() {
  SmallJob job;
  job.data_parallel = 2;
  job.pipeline = 4;
  job.microbatches = 4;
  job.layers = 1;
  return job;
}

TEST(Causes, AStageWithMoreWorkIsStageImbalance) {
  SmallJob job = Pipeline();
  job.kernel = [](const KernelAt& k) { return k.stage == 3 ? 1.15 : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kStage, {12, 13, 14, 15}, Cause::kStageImbalance);
}

TEST(Causes, AStageWithTemporarilyMoreWorkIsNotARanksFault) {
  SmallJob job = Pipeline();
  job.kernel = [](const KernelAt& k) { return k.stage == 1 && k.step >= 6 && k.step < 13 ? 1.15 : 1.0; };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kStage, {4, 5, 6, 7}, Cause::kStageImbalance);
  EXPECT_EQ(d.findings.size(), 1u) << Describe(d);
  EXPECT_THAT(d.findings[0].evidence[0], HasSubstr("all its ranks alike"));
}

// Relative to the slow stage, the other one is slower in the rest of the steps.
TEST(Causes, OfTwoStagesNamesTheOneThatSometimesTakesLonger) {
  for (const int slow : {0, 1}) {
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
      SmallJob job;
      job.data_parallel = 8, job.tensor_parallel = 1, job.pipeline = 2, job.steps = 12, job.seed = seed;
      job.kernel = [slow](const KernelAt& k) {
        return k.stage == slow && (k.step == 3 || k.step == 4 || k.step == 8 || k.step == 10) ? 1.2 : 1.0;
      };
      std::vector<uint32_t> ranks(8);
      std::iota(ranks.begin(), ranks.end(), slow == 0 ? 0u : 8u);
      ExpectFirst(DiagnoseJob(job), CulpritKind::kStage, ranks, Cause::kStageImbalance);
    }
  }
}

TEST(Causes, OneSlowRankIsNotStageImbalance) {
  SmallJob job = Pipeline();
  job.kernel = [](const KernelAt& k) { return k.rank == 13 ? 1.15 : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {13}, Cause::kGpuClock);
}

double Sequence(uint64_t seed, int replica, int step, int microbatch) {
  std::mt19937_64 random(seed + static_cast<uint64_t>(((step * 64) + replica) * 64 + microbatch) *
                                    0x9E3779B97F4A7C15ull);
  random.discard(3);
  return std::max(0.3, 1 + 0.25 * std::normal_distribution<double>(0, 1)(random));
}

TEST(Causes, AttentionThatVariesPerMicrobatchIsSequenceImbalance) {
  SmallJob job;
  job.microbatches = 4;
  job.kernel = [](const KernelAt& k) {
    return k.kernel == JobKernel::kAttention ? Sequence(5, k.replica, k.step, k.microbatch) : 1.0;
  };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kData, {}, Cause::kSequenceImbalance);
  EXPECT_GT(d.findings[0].gain_ns, 0.01 * d.step_ns) << Describe(d);
}

TEST(Causes, DriftOfWholeRanksIsNotSequenceImbalance) {
  SmallJob job;
  job.drift = [](int rank, int step) { return Sequence(9, rank, step, 0) > 1 ? 1.02 : 0.98; };
  for (const Finding& f : DiagnoseJob(job).findings) EXPECT_NE(CauseName(f.cause), "sequence_imbalance");
}

TEST(Causes, ExpertsWithMoreTokensAreExpertImbalanceUnlikeASlowGpu) {
  SmallJob job;
  job.experts = true;
  job.tensor_parallel = 1;
  job.data_parallel = 8;
  job.kernel = [](const KernelAt& k) {
    return k.kernel == JobKernel::kExperts ? (k.rank == 3 ? 1.5 : 0.93) : 1.0;
  };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kData, {3}, Cause::kExpertImbalance);
  job.kernel = [](const KernelAt& k) { return k.rank == 3 ? 1.15 : 1.0; };
  ExpectFirst(DiagnoseJob(job), CulpritKind::kRank, {3}, Cause::kGpuClock);
}

// A rank with more tokens computes longer and receives longer. Equal tokens remove both.
TEST(Causes, TheGainOfEvenExpertsIncludesTheirUnevenExchanges) {
  SmallJob even;
  even.experts = true;
  even.tensor_parallel = 1;
  even.data_parallel = 8;
  even.tokens = [](int) { return 1.0; };
  SmallJob job = even;
  job.tokens = [](int rank) { return rank == 3 ? 1.7 : 0.9; };
  job.kernel = [](const KernelAt& k) {
    return k.kernel == JobKernel::kExperts ? (k.rank == 3 ? 1.7 : 0.9) : 1.0;
  };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kData, {3}, Cause::kExpertImbalance);
  const double truth = d.step_ns - DiagnoseJob(even).step_ns;
  EXPECT_NEAR(d.findings[0].gain_ns, truth, 0.05 * truth);
}

TEST(Causes, ASlowdownOfAllRanksAtOnceIsCommon) {
  SmallJob job;
  job.kernel = [](const KernelAt& k) { return k.step >= 11 ? 1.12 : 1.0; };
  const Diagnosis d = DiagnoseJob(job);
  ExpectFirst(d, CulpritKind::kJob, {0, 1, 2, 3, 4, 5, 6, 7}, Cause::kCommon);
  ASSERT_TRUE(d.findings[0].since_step.has_value());
  EXPECT_EQ(*d.findings[0].since_step, 111);
}

TEST(Causes, EveryCauseHasItsContractName) {
  const std::vector<std::string> names = {"unknown",
                                          "gpu_clock",
                                          "gpu_memory",
                                          "contention",
                                          "host_launch",
                                          "data_loader",
                                          "host_pause",
                                          "host_allocator",
                                          "cpu_contention",
                                          "slow_link",
                                          "congestion",
                                          "stage_imbalance",
                                          "sequence_imbalance",
                                          "expert_imbalance",
                                          "copy",
                                          "checkpoint",
                                          "common",
                                          "victim"};
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(CauseName(static_cast<Cause>(i)), names[i]);
}

}  // namespace
}  // namespace lockstep::analysis
