// Tests devices, contexts, streams and memory operations in a capture: when the client requests them from
// CUPTI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/agent_fixture.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using ring::ClientState;
using ring::RecordKind;

class AgentObjectsTest : public AgentTest {
 protected:
  AgentObjectsTest() {
    cupti_.AddObject(MakeDevice(0));
    cupti_.AddObject(MakeDevice(1));
    cupti_.AddObject(MakeContext(1, 0));
    cupti_.AddObject(MakeStream(1, 7));
    cupti_.AddObject(MakeStream(1, 13, -5));
  }

  // Returns the kinds that one short capture records, in order, without clock records.
  std::vector<RecordKind> Capture(uint64_t capture, uint32_t activities = ring::kDefaultActivities) {
    ArmAndExpectArmed(capture, activities);
    StartWindow(capture, Nanos::Millis(60));
    EXPECT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
    std::vector<RecordKind> kinds;
    for (const auto& record : daemon_.end->Drain()) {
      if (record.header.kind != RecordKind::kClock) kinds.push_back(record.header.kind);
    }
    return kinds;
  }

  const std::vector<RecordKind> kAll = {RecordKind::kDevice, RecordKind::kDevice, RecordKind::kContext,
                                        RecordKind::kStream, RecordKind::kStream};
};

TEST_F(AgentObjectsTest, EveryCaptureRecordsExistingObjects) {
  ConnectAndWelcome();
  EXPECT_EQ(Capture(1), kAll);
  EXPECT_TRUE(cupti_.NothingEnabled());
  EXPECT_EQ(Capture(2), kAll);
  EXPECT_EQ(daemon_.end->LostInAll(), 0u);
}

TEST_F(AgentObjectsTest, RecordsAStreamCreatedInTheWindow) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  StartWindow(1, Nanos::Millis(100));
  while (!cupti_.Enabled(ActivityKind::kStream)) kSystemTiming.pause(Nanos::Millis(1));
  cupti_.Emit(MakeStream(1, 99));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  const auto streams = daemon_.end->DrainOnly<ring::StreamRecord>(RecordKind::kStream);
  ASSERT_EQ(streams.size(), 3u);
  EXPECT_EQ(streams.back().stream, 99u);
}

TEST_F(AgentObjectsTest, RecordsObjectsBeforeTheTrigger) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  ring::Start start{};
  start.capture = 1;
  start.begin = ring::Begin::kAtRange;
  start.end = ring::End::kAfterDuration;
  start.duration_ns = Nanos::Millis(50).ns();
  start.t1_realtime_ns = kSystemTiming.realtime().ns() + Nanos::Millis(300).ns();
  ASSERT_TRUE(daemon_.Send(ring::MessageType::kStart, start));
  for (int i = 0;
       i < 3000 && cupti_.Locked([](FakeCupti& f) { return f.enabled.count(ActivityKind::kStream); }) == 0;
       ++i) {
    kSystemTiming.pause(Nanos::Millis(1));
  }
  EXPECT_TRUE(cupti_.Enabled(ActivityKind::kDevice));
  EXPECT_TRUE(cupti_.Enabled(ActivityKind::kContext));
}

TEST_F(AgentObjectsTest, RecordsOnlyNewObjectsWithoutCuptisDump) {
  cupti_.can_dump = false;
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  StartWindow(1, Nanos::Millis(100));
  while (!cupti_.Enabled(ActivityKind::kStream)) kSystemTiming.pause(Nanos::Millis(1));
  cupti_.Emit(MakeStream(1, 99));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::StreamRecord>(RecordKind::kStream).size(), 1u);
}

TEST_F(AgentObjectsTest, ACaptureSucceedsIfCuptiRefusesObjects) {
  cupti_.fail["cuptiActivityEnableAndDump"] = cupti::Result::kNotCompatible;
  ConnectAndWelcome();
  EXPECT_TRUE(Capture(1).empty());
  EXPECT_TRUE(cupti_.NothingEnabled());
}

TEST_F(AgentObjectsTest, SendsNoObjectsToAnOlderDaemon) {
  ConnectAndWelcome();
  daemon_.end->segment.header()->layout_minor = ring::kMinorWithObjects - 1;
  EXPECT_TRUE(Capture(1).empty());
}

TEST_F(AgentObjectsTest, DoesNotRequestRecordsOfAnUnknownLayout) {
  cupti_.sizes[ActivityKind::kDevice] = cupti::kDeviceBytesOldest - 16;
  ConnectAndWelcome();
  EXPECT_EQ(Capture(1),
            (std::vector<RecordKind>{RecordKind::kContext, RecordKind::kStream, RecordKind::kStream}));
  EXPECT_EQ(daemon_.end->LostInAll(), 0u);
}

TEST_F(AgentObjectsTest, CallsAloneRecordNoObjects) {
  ConnectAndWelcome();
  EXPECT_TRUE(Capture(1, ring::kActivityRuntime).empty());
}

TEST_F(AgentObjectsTest, RecordsMemoryOperationsOnlyOnRequest) {
  ConnectAndWelcome();
  ArmAndExpectArmed(1);
  EXPECT_FALSE(cupti_.Enabled(ActivityKind::kMemory));
  ASSERT_TRUE(daemon_.Stop(1, 1));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kIdle);
  ArmAndExpectArmed(2, ring::kActivityMemory);
  EXPECT_TRUE(cupti_.Enabled(ActivityKind::kMemory));
  const int64_t t0 = StartWindow(2, Nanos::Millis(60));
  cupti_.Emit(MakeMemory(t0 + 10, cupti::MemoryOperation::kAllocation, 4096, 1 << 20));
  cupti_.Emit(MakeMemory(t0 + 20, cupti::MemoryOperation::kRelease, 4096, 1 << 20));
  ASSERT_EQ(daemon_.WaitForState()->state, ClientState::kDone);
  EXPECT_EQ(daemon_.end->DrainOnly<ring::MemoryOpRecord>(RecordKind::kMemoryOp).size(), 2u);
  EXPECT_TRUE(cupti_.NothingEnabled());
}

TEST_F(AgentObjectsTest, ACuptiWithoutMemoryOperationsFailsOnlyThatCapture) {
  cupti_.sizes.erase(ActivityKind::kMemory);
  ConnectAndWelcome();
  ASSERT_TRUE(daemon_.Arm(1, ring::kDefaultActivities | ring::kActivityMemory));
  const auto state = daemon_.WaitForState();
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->state, ClientState::kFailed);
  EXPECT_THAT(state->text, testing::HasSubstr("does not record memory operations"));
  EXPECT_TRUE(cupti_.NothingEnabled());
  ArmAndExpectArmed(2);
}

}  // namespace
}  // namespace lockstep::client
