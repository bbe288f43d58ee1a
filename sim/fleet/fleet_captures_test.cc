#include "sim/fleet/fleet_captures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::sim {
namespace {

using ::testing::HasSubstr;

class FleetCapturesTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines_;
  uint64_t ended_ = 0;
  FleetCaptures captures_{[this](const std::string& line) { lines_.push_back(line); },
                          [this](uint64_t ended) { ended_ = ended; }};
};

TEST_F(FleetCapturesTest, PrintsOneLineWhenTheLastDaemonHasFinished) {
  captures_.Begin("c", HostTime(20));
  captures_.Begin("c", HostTime(10));
  captures_.Note("c", FleetMoment::kAcked, HostTime(70));
  captures_.Finish("c", {.ranks = 1, .rows = 5, .batches = 1, .bytes = 9, .decode = Nanos(3)},
                   FleetCaptures::End::kSent);
  EXPECT_TRUE(lines_.empty());
  captures_.Note("c", FleetMoment::kAcked, HostTime(50));
  captures_.Finish("c", {.ranks = 1, .rows = 6, .batches = 2, .bytes = 9, .decode = Nanos(4)},
                   FleetCaptures::End::kLeft);
  ASSERT_EQ(lines_.size(), 1u);
  for (const char* part : {"\"daemons\": 2", "\"left\": 1", "\"rows\": 11", "\"batches\": 3", "\"bytes\": 18",
                           "\"arm_first_ns\": 10", "\"arm_last_ns\": 20", "\"acked_first_ns\": 50",
                           "\"acked_last_ns\": 70", "\"decode_cpu_ns\": 7"})
    EXPECT_THAT(lines_[0], HasSubstr(part));
  EXPECT_EQ(ended_, 1u);
}

TEST_F(FleetCapturesTest, MomentsOfAnEndedCaptureAreIgnored) {
  captures_.Begin("c", HostTime(1));
  captures_.Finish("c", {}, FleetCaptures::End::kAborted);
  captures_.Note("c", FleetMoment::kArmed, HostTime(2));
  captures_.Finish("c", {}, FleetCaptures::End::kSent);
  EXPECT_EQ(lines_.size(), 1u);
  EXPECT_THAT(lines_[0], HasSubstr("\"aborted\": 1"));
}

TEST_F(FleetCapturesTest, AllDaemonsOfACaptureShareOneJob) {
  const FleetJobShape shape = {
      .ranks = 2, .rows = 300, .slow_rank = {}, .slow_by_percent = 0, .window = Nanos::Seconds(1)};
  const Interval<HostTime> window = {HostTime(1), HostTime(2)};
  captures_.Begin("c", HostTime(1));
  EXPECT_EQ(captures_.Job("c", shape, window), captures_.Job("c", shape, window));
}

}  // namespace
}  // namespace lockstep::sim
