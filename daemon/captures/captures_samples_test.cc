// Tests samples, which give way to captures.
#include "daemon/captures/captures_fixture.h"
#include "gmock/gmock.h"

namespace lockstep::daemon {
namespace {

using ::testing::HasSubstr;

class CapturesSamplesTest : public CapturesTest {
 protected:
  void ArmSample(const std::string& capture, const std::vector<ProcessId>& processes) {
    v1::Arm arm;
    arm.set_capture(capture);
    arm.set_sample(true);
    for (const ProcessId& p : processes) ToProto(p, arm.add_processes());
    captures_.OnArm(kUplink, arm);
  }
};

TEST_F(CapturesSamplesTest, ACaptureTakesTheRanksOfASample) {
  ArmSample("s", {kA, kB});
  Client(kA, ring::ClientState::kArmed);
  Client(kB, ring::ClientState::kArmed);
  Start("s");
  Client(kA, ring::ClientState::kCapturing);
  Arm("c", {kA});
  // Both ranks leave, because half of a job gives no result.
  for (const ProcessId& p : {kA, kB}) {
    ASSERT_EQ(ports_.stops[p].size(), 1u);
    EXPECT_EQ(ports_.stops[p][0].abort, 1u);
    EXPECT_TRUE(ports_.abandoned.count(p));
    EXPECT_EQ(ports_.sent_ends.count(p), 1u) << "the sample's aggregator waits for no rank";
  }
  const v1::RankState left = Last(kB);
  EXPECT_EQ(left.state(), v1::RankState::FAILED);
  EXPECT_EQ(left.refusal(), v1::RankState::CAPTURED);
  EXPECT_THAT(left.text(), HasSubstr("gave way to capture c"));
  // The client ends the sample before it arms for the capture. Its records until then are discarded.
  Client(kA, ring::ClientState::kArmed);
  EXPECT_TRUE(ports_.restarted.count(kA));
  EXPECT_EQ(Last(kA).state(), v1::RankState::ARMED);
  EXPECT_EQ(Last(kA).refusal(), v1::RankState::REFUSAL_NONE);
  Start("c");
  Client(kA, ring::ClientState::kCapturing);
  Client(kA, ring::ClientState::kDone);
  Drained();
  EXPECT_EQ(captures_.counts().complete, 1u);
  EXPECT_EQ(captures_.sample_counts().failed, 1u) << "counted by itself";
  EXPECT_FALSE(captures_.Busy());
}

TEST_F(CapturesSamplesTest, ADrainingSampleYieldsToo) {
  ArmSample("s", {kA});
  Client(kA, ring::ClientState::kArmed);
  Start("s");
  Client(kA, ring::ClientState::kCapturing);
  Client(kA, ring::ClientState::kDone);
  Arm("c", {kA});
  EXPECT_TRUE(ports_.stops[kA].empty()) << "it has ended by itself";
  EXPECT_TRUE(ports_.abandoned.count(kA));
  EXPECT_EQ(ports_.arms[kA].size(), 2u);
}

TEST_F(CapturesSamplesTest, ASampleTakesNoRankOfACaptureOrSample) {
  Arm("c", {kA});
  ArmSample("s", {kA});
  EXPECT_EQ(Last(kA).refusal(), v1::RankState::CAPTURED);
  EXPECT_THAT(Last(kA).text(), HasSubstr("it is already in capture c:"));
  EXPECT_TRUE(ports_.stops[kA].empty());
  ArmSample("t", {kB});
  ArmSample("u", {kB});
  EXPECT_THAT(Last(kB).text(), HasSubstr("it is already in capture t:"));
}

TEST_F(CapturesSamplesTest, ADeniedRankStaysInItsSample) {
  ArmSample("s", {kA});
  ports_.here = {kB};
  Arm("c", {kA});
  EXPECT_TRUE(ports_.stops[kA].empty());
  EXPECT_TRUE(ports_.abandoned.empty());
}

}  // namespace
}  // namespace lockstep::daemon
