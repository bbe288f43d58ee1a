#include "cli/commands/trigger_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wire/ring/handshake.h"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

v1::Trigger Parsed(const WindowFlags& flags) {
  const auto trigger = ParseTrigger(flags);
  EXPECT_TRUE(trigger.ok()) << trigger.status();
  EXPECT_TRUE(trigger.ok() && trigger->has_value());
  return trigger.ok() ? trigger->value_or(v1::Trigger()) : v1::Trigger();
}

TEST(TriggerFlags, WithoutTriggerFlagsTheClockDecides) {
  const auto trigger = ParseTrigger({.duration = "500ms"});
  ASSERT_TRUE(trigger.ok());
  EXPECT_FALSE(trigger->has_value());
  EXPECT_EQ(*ParseWindowLength(""), Nanos::Seconds(2));
}

TEST(TriggerFlags, StepsAloneBeginAtACommonStep) {
  const v1::Trigger trigger = Parsed({.steps = "5"});
  EXPECT_EQ(trigger.begin(), v1::Trigger::AT_COMMON_STEP);
  EXPECT_EQ(trigger.end(), v1::Trigger::AFTER_STEPS);
  EXPECT_EQ(trigger.steps(), 5u);
  EXPECT_EQ(trigger.timeout_ns(), Nanos::Seconds(60).ns());
  EXPECT_EQ(WithTrigger(ring::kActivityKernel, trigger), ring::kActivityKernel | ring::kActivityNvtx);
}

TEST(TriggerFlags, EachBeginHasItsOwnEndUnlessOneIsGiven) {
  EXPECT_EQ(Parsed({.start_on_step = "7"}).end(), v1::Trigger::AFTER_DURATION);
  EXPECT_EQ(Parsed({.start_on_range = "epoch"}).end(), v1::Trigger::AT_RANGE_END);
  EXPECT_EQ(Parsed({.start_on_profiler_api = true}).end(), v1::Trigger::AT_PROFILER_STOP);
  EXPECT_EQ(Parsed({.steps = "2", .start_on_range = "epoch"}).end(), v1::Trigger::AFTER_STEPS);
  const v1::Trigger timed = Parsed({.duration = "3s", .start_on_profiler_api = true});
  EXPECT_EQ(timed.end(), v1::Trigger::AFTER_DURATION);
  EXPECT_EQ(timed.duration_ns(), Nanos::Seconds(3).ns());
  EXPECT_EQ(WithTrigger(ring::kActivityKernel, timed),
            ring::kActivityKernel | ring::kActivityRuntime | ring::kActivityDriver);
  EXPECT_EQ(WithTrigger(ring::kActivityNvtx, timed), ring::kActivityNvtx) << "CUPTI stays closed";
}

TEST(TriggerFlags, InvalidCombinationsAreRefusedWithTheirFlag) {
  EXPECT_THAT(ParseTrigger({.steps = "0"}).status().message(), HasSubstr("--steps 0"));
  EXPECT_THAT(ParseTrigger({.steps = "many"}).status().message(), HasSubstr("--steps many"));
  EXPECT_THAT(ParseTrigger({.start_on_step = "-1"}).status().message(), HasSubstr("--start-on-step -1"));
  EXPECT_THAT(ParseTrigger({.start_on_range = std::string(200, 'x')}).status().message(),
              HasSubstr("128 bytes"));
  EXPECT_THAT(ParseTrigger({.steps = "1", .timeout = "0s"}).status().message(),
              HasSubstr("--trigger-timeout"));
}

TEST(TriggerFlags, DescribesTheAwaitedTrigger) {
  EXPECT_EQ(BeginWords(Parsed({.start_on_step = "500"})), "step 500");
  EXPECT_EQ(BeginWords(Parsed({.start_on_range = "epoch@train"})), "a range \"epoch@train\"");
}

}  // namespace
}  // namespace lockstep::cli
