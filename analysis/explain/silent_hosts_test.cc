// Captures with less information than usual: no records of hosts, no group for a comparison, or a host clock
// that was set.
#include <algorithm>

#include "analysis/explain/causes.h"
#include "analysis/explain/diagnosis.h"
#include "analysis/gains/gains.h"
#include "analysis/replay/prepared.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_job.h"

namespace lockstep::analysis {
namespace {

using testing::HasSubstr;
using tests::CallAt;
using tests::KernelAt;
using tests::SmallJob;
using tests::TransferAt;

// A capture as of a job that times its own operations: device work and steps, but no calls.
capture::Capture WithoutCalls(const SmallJob& job) {
  capture::Capture capture = tests::CaptureOf(job);
  for (capture::RankData& rank : capture.ranks) {
    rank.api_calls.clear();
    rank.syncs.clear();
    rank.event_records.clear();
  }
  return capture;
}

Diagnosis DiagnoseCapture(const capture::Capture& capture) { return Diagnose(Prepared(capture, 1).input()); }

std::string First(const Diagnosis& d) {
  if (d.findings.empty()) return "none";
  std::string out =
      std::string(CulpritKindName(d.findings[0].kind)) + " " + std::string(CauseName(d.findings[0].cause));
  for (uint32_t r : d.findings[0].rank_indices) out += " " + std::to_string(r);
  return out;
}

TEST(SilentHosts, IdleTimeAtTheHeadOfEachStepIsTheHosts) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) { return c.rank == 1 && c.head ? 900.0 : 0.0; };
  const Diagnosis d = DiagnoseCapture(WithoutCalls(job));
  EXPECT_EQ(First(d), "rank host_pause 1");
  ASSERT_FALSE(d.findings.empty());
  EXPECT_THAT(d.findings[0].evidence[0], HasSubstr("its device idles"));
}

TEST(SilentHosts, StopsAtChangingPlacesNameTheirRank) {
  SmallJob job;
  job.gap_us = [](const CallAt& c) {
    return c.rank == 6 && c.step % 4 == 1 && c.place == 3 + (c.step * 5) % 17 ? 20'000.0 : 0.0;
  };
  EXPECT_EQ(First(DiagnoseCapture(WithoutCalls(job))), "rank host_pause 6");
}

TEST(SilentHosts, AHealthyJobStaysHealthy) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SmallJob job;
    job.seed = seed;
    EXPECT_EQ(First(DiagnoseCapture(WithoutCalls(job))), "none") << "seed " << seed;
  }
}

TEST(SilentHosts, TheSplitAddsUpWithTheIdleTimeInIt) {
  SmallJob job;
  job.steps = 6;
  job.gap_us = [](const CallAt& c) { return c.rank == 3 ? 100.0 * (c.step % 3) : 0.0; };
  const capture::Capture capture = WithoutCalls(job);
  const Prepared prepared(capture, 1);
  const GraphInput input = prepared.input();
  Gains gains(input);
  gains.Measure();
  double sum = 0, host = 0;
  for (const RankCost& c : gains.rank_costs()) {
    sum += c.total();
    host += c.host;
  }
  for (double c : gains.owner_costs()) sum += c;
  EXPECT_GT(host, 0);
  EXPECT_NEAR(sum, gains.lost_ns(), 1e-6 * gains.lost_ns() + 1);
}

TEST(LoneGroups, SlowTransfersOfTheOnlyGroupInScatteredStepsAreCongestion) {
  SmallJob job;
  job.data_parallel = 8;
  job.tensor_parallel = 1;
  job.ranks_per_host = 4;
  job.transfer = [](const TransferAt& t) { return t.step % 5 == 2 || t.step == 10 ? 6.0 : 1.0; };
  const Diagnosis d = DiagnoseCapture(tests::CaptureOf(job));
  EXPECT_EQ(First(d), "job congestion 0 1 2 3 4 5 6 7");
  ASSERT_FALSE(d.findings.empty());
  EXPECT_NE(d.findings[0].verdict, Verdict::kSure) << "nothing says where";
}

TEST(LoneGroups, SlowTransfersOfTheOnlyGroupInOneRunOfStepsAreASlowLink) {
  SmallJob job;
  job.data_parallel = 8;
  job.tensor_parallel = 1;
  job.transfer = [](const TransferAt& t) { return t.step >= 12 && t.step < 18 ? 6.0 : 1.0; };
  EXPECT_EQ(First(DiagnoseCapture(tests::CaptureOf(job))), "group slow_link 0 1 2 3 4 5 6 7");
}

TEST(Traffic, ManySometimesSlowLinksAreCongestion) {
  SmallJob job;
  job.data_parallel = 4;
  job.tensor_parallel = 4;
  job.ranks_per_host = 4;
  // Whole ranks are slow at a time, so that each of them looks like a culprit.
  job.transfer = [](const TransferAt& t) {
    return t.members.size() == 4 && t.between_hosts && (t.step + t.members[0]) % 4 == 0 ? 4.0 : 1.0;
  };
  EXPECT_EQ(First(DiagnoseCapture(tests::CaptureOf(job))).substr(0, 14), "job congestion");
}

TEST(Traffic, TransfersSlowInOneStepBlameNoLink) {
  SmallJob job;
  job.data_parallel = 4;
  job.tensor_parallel = 4;
  job.ranks_per_host = 4;
  job.transfer = [](const TransferAt& t) {
    return t.step == 7 && t.members.size() == 4 && t.members[0] >= 8 ? 20.0 : 1.0;
  };
  EXPECT_EQ(First(DiagnoseCapture(tests::CaptureOf(job))), "none");
}

TEST(SetClocks, AClockStepBlamesNoRank) {
  SmallJob job;
  job.data_parallel = 8;
  job.ranks_per_host = 4;
  job.kernel = [](const KernelAt& k) {
    return k.rank >= 4 && k.rank < 8 && k.step == 9 && !k.backward && k.microbatch == 0 &&
                   k.kernel == tests::JobKernel::kMatrix
               ? 40.0
               : 1.0;
  };
  const capture::Capture capture = tests::CaptureOf(job);
  EXPECT_EQ(First(DiagnoseCapture(capture)).substr(0, 4), "host");
  Prepared prepared(capture, 1);
  std::vector<capture::HostClock> clocks = prepared.clock.hosts();
  clocks.at(1).step_noticed = true;
  prepared.clock = capture::ClockModel(clocks);
  EXPECT_EQ(First(Diagnose(prepared.input())), "none");
}

}  // namespace
}  // namespace lockstep::analysis
