#include "daemon/kineto/dyno_server.h"

#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct FakeHandler final : DynoHandler {
  DynoTriggered Trigger(uid_t c, const DynoTrigger& t) override {
    caller = c;
    trigger = t;
    return {{11, 12}, {12}, 1};
  }
  uid_t caller = 0;
  DynoTrigger trigger;
};

TEST(DynoTest, ATriggerReturnsTheMatchedProcesses) {
  FakeHandler handler;
  const std::string answer = AnswerDyno(
      R"({"fn": "setKinetOnDemandRequest", "config": "A=1\n", "job_id": 77, "pids": [5, 6], "process_limit": 3})",
      1000, handler);
  EXPECT_EQ(handler.caller, 1000u);
  EXPECT_EQ(handler.trigger.config, "A=1\n");
  EXPECT_EQ(handler.trigger.job, 77);
  EXPECT_THAT(handler.trigger.pids, ElementsAre(5, 6));
  EXPECT_EQ(handler.trigger.most, 3);
  EXPECT_THAT(answer, HasSubstr("\"processesMatched\":[11,12]"));
  EXPECT_THAT(answer, HasSubstr("\"activityProfilersTriggered\":[12]"));
  EXPECT_THAT(answer, HasSubstr("\"activityProfilersBusy\":1"));
}

TEST(DynoTest, AnswersInvalidCallsWithAnError) {
  FakeHandler handler;
  for (const char* call : {"", "{", "[]", "{}", "{\"fn\": 7}", "{\"fn\": \"dcgmProfPause\"}",
                           "{\"fn\": \"setKinetOnDemandRequest\"}"}) {
    EXPECT_THAT(AnswerDyno(call, 0, handler), HasSubstr("error")) << call;
  }
  const std::string deep(20000, '[');
  EXPECT_THAT(AnswerDyno(deep, 0, handler), HasSubstr("error"));
  EXPECT_EQ(handler.trigger.config, "") << "nothing got through";
  AnswerDyno(
      R"({"fn": "setKinetOnDemandRequest", "config": "A=1", "pids": [1e300, -4, "x", null], "process_limit": -5})",
      0, handler);
  EXPECT_THAT(handler.trigger.pids, ElementsAre(-1, -1, -1, -1)) << "and match no process";
  EXPECT_EQ(handler.trigger.most, 0);
}

}  // namespace
}  // namespace lockstep::daemon
