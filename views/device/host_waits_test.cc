#include "views/device/host_waits.h"

#include <gtest/gtest.h>

#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::TimelineBuilder;

constexpr char kSync[] = "cudaStreamSynchronize";

analysis::CollectiveTimes TimesOf(const capture::Capture& capture) {
  return analysis::TimeCollectives(capture, capture::Match(capture), capture::ClockModel());
}

void ExpectWhole(const HostWaitRow& row) {
  EXPECT_EQ(row.compute + row.copy + row.transfer + row.other_ranks.value_or(Nanos()) + row.queued +
                row.latency + row.after,
            row.blocked);
}

TEST(HostWaits, AttributesACallToTheWorkOfItsStream) {
  TimelineBuilder t;
  // On the stream, work runs since before the call, then a gap of 5 us and 10 us more. The call returns 3 us
  // after their end.
  t.Rank(0)
      .Kernel("gemm", 10, 30, 7, 1)
      .Kernel("relu", 45, 10, 7, 2)
      .Kernel("elsewhere", 62, 10, 8, 3)
      .StreamSynchronize(7, 20, 38);
  t.Rank(0).Kernel("later", 57, 5, 7, 56);
  capture::Capture capture = t.Build();
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
  EXPECT_EQ(row.after, Nanos::Micros(3)) << "the call does not wait for work launched during it";
  ExpectWhole(row);
  ASSERT_EQ(row.awaited.size(), 2u);
  EXPECT_EQ(row.awaited[0].name, "gemm");
  EXPECT_EQ(row.awaited[0].launched_by, "aten::mm");
  EXPECT_EQ(row.awaited[0].time, Nanos::Micros(20));
  EXPECT_EQ(row.awaited[1].launched_by, "");
  EXPECT_EQ(waits.unnamed, 0u);
}

TEST(HostWaits, AttributesWaitingInCommunicationToTheLastRank) {
  TimelineBuilder t;
  const uint32_t group = t.Group("dp", {0, 1});
  t.Rank(0).AllReduce(group, 10, 50).StreamSynchronize(15, 20, 40);
  t.Rank(1).AllReduce(group, 50, 10);
  capture::Capture capture = t.Build();
  capture::Finish(capture);
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {RankId(0)});
  ASSERT_EQ(waits.rows.size(), 1u);
  // The kernel waited for 40 us from 10 us on. Of these, 30 us are inside the call.
  EXPECT_EQ(waits.rows[0].other_ranks, Nanos::Micros(30));
  EXPECT_EQ(waits.rows[0].transfer, Nanos::Micros(10));
  ExpectWhole(waits.rows[0]);
}

TEST(HostWaits, UnsplitCommunicationHasUnknownWaiting) {
  TimelineBuilder t;
  const uint32_t group = t.Group("dp", {0, 1});
  t.Rank(0).AllReduce(group, 10, 50).StreamSynchronize(15, 20, 40);
  capture::Capture capture = t.Build();
  capture::Finish(capture);
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  EXPECT_FALSE(waits.rows[0].other_ranks);
  EXPECT_EQ(waits.rows[0].transfer, Nanos::Micros(40));
  ExpectWhole(waits.rows[0]);
}

TEST(HostWaits, AttributesADeviceWideCallToTheStreamThatEndsLast) {
  TimelineBuilder t;
  t.Rank(0).Kernel("short", 10, 20, 7, 1).Kernel("long", 12, 40, 8, 2).Api("cudaDeviceSynchronize", 15, 40);
  const capture::Capture capture = t.Build();
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  ASSERT_EQ(waits.rows[0].awaited.size(), 1u);
  EXPECT_EQ(waits.rows[0].awaited[0].name, "long");
  EXPECT_EQ(waits.rows[0].compute, Nanos::Micros(37));
  EXPECT_EQ(waits.rows[0].after, Nanos::Micros(3));
  EXPECT_EQ(waits.unnamed, 1u);
}

TEST(HostWaits, CountsTimeBehindOtherStreamsAsQueued) {
  TimelineBuilder t;
  t.Rank(0).Kernel("other", 5, 45, 8, 1).Kernel("reduce", 52, 3, 7, 2).StreamSynchronize(7, 20, 35);
  t.Rank(0).Kernel("later", 50, 1, 9, 40);
  const capture::Capture capture = t.Build();
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  EXPECT_EQ(waits.rows[0].queued, Nanos::Micros(30));
  EXPECT_EQ(waits.rows[0].latency, Nanos::Micros(2)) << "work launched during the call delays no other work";
  EXPECT_EQ(waits.rows[0].compute, Nanos::Micros(3));
  EXPECT_EQ(waits.rows[0].awaited.at(0).name, "other");
  EXPECT_EQ(waits.rows[0].awaited[0].time, Nanos::Micros(30));
  ExpectWhole(waits.rows[0]);
}

TEST(HostWaits, ChargesTimeBehindCommunicationToTransferAndLateRanks) {
  TimelineBuilder t;
  const uint32_t group = t.Group("dp", {0, 1});
  // A copy on another stream begins when the collective has ended, for which rank 1 is 30 us late.
  t.Rank(0).AllReduce(group, 10, 40).Copy(8, 52, 3, 9, 1).StreamSynchronize(9, 20, 35);
  t.Rank(1).AllReduce(group, 40, 10);
  capture::Capture capture = t.Build();
  capture::Finish(capture);
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {RankId(0)});
  ASSERT_EQ(waits.rows.size(), 1u);
  EXPECT_EQ(waits.rows[0].other_ranks, Nanos::Micros(20)) << "the part of the waiting inside the call";
  EXPECT_EQ(waits.rows[0].transfer, Nanos::Micros(10));
  EXPECT_EQ(waits.rows[0].queued, Nanos()) << "queued behind compute only";
  EXPECT_EQ(waits.rows[0].latency, Nanos::Micros(2));
  EXPECT_EQ(waits.rows[0].copy, Nanos::Micros(3));
  EXPECT_NE(waits.rows[0].awaited.at(0).name, "") << "the collective";
  EXPECT_EQ(waits.rows[0].awaited[0].time, Nanos::Micros(30));
  ExpectWhole(waits.rows[0]);
}

TEST(HostWaits, UnsplitCommunicationBeforeQueuedWorkHasUnknownWaiting) {
  TimelineBuilder t;
  const uint32_t group = t.Group("dp", {0, 1});
  t.Rank(0).AllReduce(group, 10, 40).Copy(8, 52, 3, 9, 1).StreamSynchronize(9, 20, 35);
  capture::Capture capture = t.Build();
  capture::Finish(capture);
  const HostWaits waits = HostWaitsOf(capture, TimesOf(capture), {});
  ASSERT_EQ(waits.rows.size(), 1u);
  EXPECT_FALSE(waits.rows[0].other_ranks);
  EXPECT_EQ(waits.rows[0].transfer, Nanos::Micros(30));
  EXPECT_EQ(waits.rows[0].queued, Nanos());
}

TEST(HostWaits, ACopyBlocksIfItsCallReturnsAfterItsEnd) {
  TimelineBuilder t;
  t.Rank(0).Kernel("gemm", 10, 30, 9, 1).Copy(4096, 40, 5, 9, 20).Copy(4096, 60, 5, 9, 50);
  capture::Capture capture = t.Build();
  for (capture::ApiCall& call : capture.ranks[0].api_calls) {
    // The call of the first copy returns after the copy's end, the call of the other does not.
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
