#include "views/device/host_waits.h"

#include <gtest/gtest.h>

#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using store::TimelineBuilder;

constexpr char kSync[] = "cudaStreamSynchronize";

analysis::CollectiveTimes TimesOf(const store::Capture& capture) {
  return analysis::TimeCollectives(capture, align::Match(capture), align::ClockModel());
}

void ExpectWhole(const HostWaitRow& row) {
  EXPECT_EQ(row.compute + row.copy + row.transfer + row.other_ranks.value_or(Nanos()) + row.queued +
                row.latency + row.after,
            row.blocked);
}

TEST(HostWaits, ACallIsBlamedOnTheWorkOfItsStream) {
  TimelineBuilder t;
  // On the stream: before the call's start, a gap of 5, and 10 more; it returns 3 after the end.
  t.Rank(0)
      .Kernel("gemm", 10, 30, 7, 1)
      .Kernel("relu", 45, 10, 7, 2)
      .Kernel("elsewhere", 62, 10, 8, 3)
      .StreamSynchronize(7, 20, 38);
  t.Rank(0).Kernel("later", 57, 5, 7, 56);
  store::Capture capture = t.Build();
  FramesBuilder(capture)
      .Frame("aten::mm", 0.5, 1.5)
      .Frame("aten::item", 18, 60)
      .Frame("aten::_local_scalar_dense", 19, 59)
      .To(0);
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  const HostWaitRow& row = waits.rows[0];
  EXPECT_EQ(row.call, kSync);
  EXPECT_EQ(row.called_by, "aten::item");
  EXPECT_EQ(row.calls, 1u);
  EXPECT_EQ(row.blocked, Nanos::Micros(38));
  EXPECT_EQ(row.compute, Nanos::Micros(30));
  EXPECT_EQ(row.latency, Nanos::Micros(5));
  EXPECT_EQ(row.after, Nanos::Micros(3)) << "what was launched during the call is not waited for";
  ExpectWhole(row);
  ASSERT_EQ(row.awaited.size(), 2u);
  EXPECT_EQ(row.awaited[0].name, "gemm");
  EXPECT_EQ(row.awaited[0].launched_by, "aten::mm");
  EXPECT_EQ(row.awaited[0].time, Nanos::Micros(20));
  EXPECT_EQ(row.awaited[1].launched_by, "");
  EXPECT_EQ(waits.unnamed, 0u);
}

TEST(HostWaits, WhoWaitsForCommunicationWaitsForTheLastRank) {
  TimelineBuilder t;
  const uint32_t group = t.Group("dp", {0, 1});
  t.Rank(0).AllReduce(group, 10, 50).StreamSynchronize(15, 20, 40);
  t.Rank(1).AllReduce(group, 50, 10);
  store::Capture capture = t.Build();
  store::Finish(capture);
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {RankId(0)});
  ASSERT_EQ(waits.rows.size(), 1u);
  // Its kernel waited 40 from 10 on, of which 30 lie in the call.
  EXPECT_EQ(waits.rows[0].other_ranks, Nanos::Micros(30));
  EXPECT_EQ(waits.rows[0].transfer, Nanos::Micros(10));
  ExpectWhole(waits.rows[0]);
}

TEST(HostWaits, CommunicationThatCannotBeSplitSaysSo) {
  TimelineBuilder t;
  const uint32_t group = t.Group("dp", {0, 1});
  t.Rank(0).AllReduce(group, 10, 50).StreamSynchronize(15, 20, 40);
  store::Capture capture = t.Build();
  store::Finish(capture);
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  EXPECT_FALSE(waits.rows[0].other_ranks);
  EXPECT_EQ(waits.rows[0].transfer, Nanos::Micros(40));
  ExpectWhole(waits.rows[0]);
}

TEST(HostWaits, OfSeveralStreamsTheOneThatEndsLast) {
  TimelineBuilder t;
  t.Rank(0).Kernel("short", 10, 20, 7, 1).Kernel("long", 12, 40, 8, 2).Api("cudaDeviceSynchronize", 15, 40);
  const store::Capture capture = t.Build();
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  ASSERT_EQ(waits.rows[0].awaited.size(), 1u);
  EXPECT_EQ(waits.rows[0].awaited[0].name, "long");
  EXPECT_EQ(waits.rows[0].compute, Nanos::Micros(37));
  EXPECT_EQ(waits.rows[0].after, Nanos::Micros(3));
  EXPECT_EQ(waits.unnamed, 1u);
}

TEST(HostWaits, WorkThatStandsBehindOtherStreamsIsQueued) {
  TimelineBuilder t;
  t.Rank(0).Kernel("other", 5, 45, 8, 1).Kernel("reduce", 52, 3, 7, 2).StreamSynchronize(7, 20, 35);
  t.Rank(0).Kernel("later", 50, 1, 9, 40);
  const store::Capture capture = t.Build();
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  EXPECT_EQ(waits.rows[0].queued, Nanos::Micros(30));
  EXPECT_EQ(waits.rows[0].latency, Nanos::Micros(2))
      << "what was launched during the call is in nobody's way";
  EXPECT_EQ(waits.rows[0].compute, Nanos::Micros(3));
  EXPECT_EQ(waits.rows[0].awaited.at(0).name, "other");
  EXPECT_EQ(waits.rows[0].awaited[0].time, Nanos::Micros(30));
  ExpectWhole(waits.rows[0]);
}

TEST(HostWaits, ACopyBlocksWhereItsCallStaysForItsEnd) {
  TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 10, 30, 9, 1).Copy(4096, 40, 5, 9, 20).Copy(4096, 60, 5, 9, 50);
  store::Capture capture = t.Build();
  for (store::ApiCall& call : capture.ranks[0].api_calls) {
    // The first copy's call returns after its end, the other's does not.
    if (call.start == TimelineBuilder::At(20)) call.end = TimelineBuilder::At(46);
  }
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  EXPECT_EQ(waits.rows[0].calls, 1u);
  EXPECT_EQ(waits.rows[0].compute, Nanos::Micros(20));
  EXPECT_EQ(waits.rows[0].copy, Nanos::Micros(5));
  EXPECT_EQ(waits.rows[0].after, Nanos::Micros(1));
}

}  // namespace
}  // namespace lockstep::views
