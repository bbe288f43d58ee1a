#include "daemon/clients/connection_attempts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/node/clock_fake.h"

namespace lockstep::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class ConnectionAttemptsTest : public testing::Test {
 protected:
  FakeClock clock_;
  ConnectionAttempts attempts_{clock_};
};

TEST_F(ConnectionAttemptsTest, RemembersProbesByPidAndStartAndForgetsTheOldest) {
  attempts_.NoteProbe({70, 1});
  EXPECT_TRUE(attempts_.HasProbed({70, 1}));
  EXPECT_FALSE(attempts_.HasProbed({70, 2})) << "the pid was reused";
  for (int32_t pid = 100; pid < 100 + 4096; ++pid) attempts_.NoteProbe({pid, 1});
  EXPECT_FALSE(attempts_.HasProbed({70, 1}));
  EXPECT_TRUE(attempts_.HasProbed({100, 1}));
}

TEST_F(ConnectionAttemptsTest, ReportsARefusalToItsUserAndRootWhileTheClientRetries) {
  attempts_.NoteRefused({.uid = 1000, .pid = 70, .who = "rank 3 (python)", .reason = "hostPID"});
  clock_.Advance(Nanos::Seconds(10));
  attempts_.NoteRefused({.uid = 1000, .pid = 70, .who = "rank 3 (python)", .reason = "hostPID"});
  clock_.Advance(Nanos::Seconds(29));
  EXPECT_THAT(attempts_.Refusals(1000), ElementsAre("rank 3 (python) was refused: hostPID"));
  EXPECT_THAT(attempts_.Refusals(0), SizeIs(1));
  EXPECT_THAT(attempts_.Refusals(1001), IsEmpty());
  EXPECT_TRUE(attempts_.IsRefused(70));
  EXPECT_FALSE(attempts_.IsRefused(71));
  clock_.Advance(Nanos::Seconds(2));
  EXPECT_THAT(attempts_.Refusals(0), IsEmpty());
  EXPECT_FALSE(attempts_.IsRefused(70));
}

TEST_F(ConnectionAttemptsTest, AnAdmittedClientIsNoLongerRefused) {
  attempts_.NoteRefused({.uid = 1000, .pid = 70, .who = "a", .reason = "full"});
  attempts_.NoteRefused({.uid = 1000, .pid = 71, .who = "b", .reason = "full"});
  attempts_.NoteAdmitted(70);
  EXPECT_THAT(attempts_.Refusals(0), ElementsAre("b was refused: full"));
}

TEST_F(ConnectionAttemptsTest, NamesProcessesWithoutAContextToTheirUserAndRoot) {
  attempts_.NotePresent({.uid = 1000, .process = {71, 5}, .program = "python"});
  attempts_.NotePresent({.uid = 1000, .process = {70, 4}, .program = "torchrun"});
  attempts_.NotePresent({.uid = 1001, .process = {90, 6}, .program = "python"});
  EXPECT_THAT(attempts_.Presences(1000), ElementsAre("pid 70 (torchrun)", "pid 71 (python)"));
  EXPECT_THAT(attempts_.Presences(0), SizeIs(3));
  EXPECT_TRUE(attempts_.IsPresent(70));
  attempts_.NoteAbsent({70, 9});
  EXPECT_TRUE(attempts_.IsPresent(70)) << "another process had this pid";
  attempts_.NoteAbsent({70, 4});
  EXPECT_FALSE(attempts_.IsPresent(70));
  for (int32_t pid = 100; pid < 120; ++pid) attempts_.NotePresent({.uid = 1000, .process = {pid, 1}});
  ASSERT_THAT(attempts_.Presences(1000), SizeIs(17));
  EXPECT_EQ(attempts_.Presences(1000).back(), "5 more");
}

TEST_F(ConnectionAttemptsTest, CountsRefusalsBeyondTheLimit) {
  for (int i = 0; i < 70; ++i) attempts_.NoteRefused({.uid = 1000, .who = std::to_string(i), .reason = "r"});
  const auto found = attempts_.Refusals(0);
  ASSERT_THAT(found, SizeIs(65));
  EXPECT_EQ(found.back(), "6 more clients were refused");
}

}  // namespace
}  // namespace lockstep::daemon
