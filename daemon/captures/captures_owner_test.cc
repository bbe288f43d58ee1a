// Tests captures whose aggregator is away or has forgotten them.
#include "daemon/captures/captures_fixture.h"
#include "gmock/gmock.h"

namespace lockstep::daemon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Property;

constexpr UplinkId kOther = kUplink + 1;

class CapturesOwnerTest : public CapturesTest {
 protected:
  void Run(const std::string& capture, const ProcessId& process) {
    Arm(capture, {process});
    Client(process, ring::ClientState::kArmed);
    Start(capture);
    Client(process, ring::ClientState::kCapturing);
  }
  void ArmByOther(const std::string& capture, const ProcessId& process) {
    v1::Arm arm;
    arm.set_capture(capture);
    ToProto(process, arm.add_processes());
    captures_.OnArm(kOther, arm);
  }
};

TEST_F(CapturesOwnerTest, ARestartedAggregatorFreesTheRanksOfCapturesThatItDoesNotResume) {
  Run("kept", kA);
  Run("forgotten", kB);
  EXPECT_THAT(captures_.EndOthers(kUplink, {"kept"}), ElementsAre("forgotten"));
  EXPECT_TRUE(ports_.stops[kA].empty());
  ASSERT_EQ(ports_.stops[kB].size(), 1u);
  EXPECT_EQ(ports_.stops[kB][0].abort, 1u);
  EXPECT_THAT(ports_.discarded, ElementsAre("forgotten"));
  EXPECT_EQ(captures_.running(), 1u);
  Arm("next", {kB});
  Client(kB, ring::ClientState::kArmed);
  EXPECT_EQ(Last(kB).state(), v1::RankState::ARMED);
}

TEST_F(CapturesOwnerTest, DataOfAForgottenCaptureThatHasEndedIsDropped) {
  Run("c", kA);
  Client(kA, ring::ClientState::kDone);
  Drained();
  EXPECT_THAT(captures_.EndOthers(kUplink, {}), IsEmpty()) << "it did not run";
  EXPECT_THAT(ports_.discarded, ElementsAre("c"));
}

TEST_F(CapturesOwnerTest, AnAggregatorEndsNoCaptureOfAnother) {
  Run("c", kA);
  EXPECT_THAT(captures_.EndOthers(kOther, {}), IsEmpty());
  EXPECT_EQ(captures_.running(), 1u);
}

TEST_F(CapturesOwnerTest, ACaptureWhoseAggregatorIsAwayGivesItsRanksToAnother) {
  Run("c", kA);
  ports_.away[kUplink] = Nanos::Seconds(3);
  ArmByOther("next", kA);
  ASSERT_EQ(ports_.stops[kA].size(), 1u);
  EXPECT_EQ(ports_.stops[kA][0].abort, 1u);
  EXPECT_EQ(ports_.sent_ends.count(kA), 1u) << "its aggregator may return";
  Client(kA, ring::ClientState::kArmed);
  EXPECT_EQ(Last(kA).state(), v1::RankState::ARMED);
  EXPECT_THAT(ports_.states.at(kA),
              Contains(Property(&v1::RankState::text, HasSubstr("its aggregator was away"))));
}

TEST_F(CapturesOwnerTest, AShortAbsenceCostsNothing) {
  Run("c", kA);
  ports_.away[kUplink] = Nanos::Seconds(1);
  ArmByOther("next", kA);
  EXPECT_TRUE(ports_.stops[kA].empty());
  EXPECT_THAT(Last(kA).text(), HasSubstr("it is already in capture c"));
}

}  // namespace
}  // namespace lockstep::daemon
