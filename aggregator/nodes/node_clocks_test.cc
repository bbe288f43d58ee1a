#include "aggregator/nodes/node_clocks.h"

#include <gtest/gtest.h>

namespace lockstep::aggregator {
namespace {

v1::ClockSample* AddSample(v1::ClockSamples& samples, int64_t t1, int64_t t2, int64_t t3, int64_t t4) {
  v1::ClockSample* sample = samples.add_samples();
  sample->set_t1_ns(t1);
  sample->set_t2_ns(t2);
  sample->set_t3_ns(t3);
  sample->set_t4_ns(t4);
  return sample;
}

TEST(NodeClocksTest, DescribesTheShortestRoundTrip) {
  NodeClocks clocks;
  v1::ClockSamples samples;
  AddSample(samples, 1000, 1600, 1610, 1210);
  AddSample(samples, 2000, 2550, 2560, 2110);
  clocks.Add("n", samples);
  v1::DaemonStatus status;
  clocks.Describe("n", status);
  EXPECT_EQ(status.clock_offset_ns(), -500);
  EXPECT_EQ(status.clock_bound_ns(), 50);
  EXPECT_EQ(clocks.RoundTripP99("n"), Nanos(200));
}

TEST(NodeClocksTest, IgnoresImpossibleStamps) {
  NodeClocks clocks;
  v1::ClockSamples samples;
  AddSample(samples, -7'423'055'708'680'598'452, 7'238'874'426'221'171'354, 5, 6);
  AddSample(samples, 1, 2, 6'883'336'941'283'477'126, -8'753'160'913'408'063'866);
  AddSample(samples, 1, 2, 3, 4)->set_monotonic_ns(INT64_MIN);
  clocks.Add("n", samples);
  EXPECT_TRUE(clocks.Since("n", JobTime::Min()).empty());
  EXPECT_EQ(clocks.RoundTripP99("n"), Nanos());
  v1::DaemonStatus status;
  clocks.Describe("n", status);
  EXPECT_EQ(status.clock_bound_ns(), 0);
}

}  // namespace
}  // namespace lockstep::aggregator
