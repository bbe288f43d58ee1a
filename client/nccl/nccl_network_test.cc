// Calls the profiler plugin like NCCL's proxy thread, without a capture and in one, and reads the network
// table as the daemon does.
#include "client/nccl/nccl_network.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "client/nccl/nccl_fixture.h"
#include "wire/ring/network_reader.h"

namespace lockstep::client {
namespace {

using ring::NetworkDirection;
using ring::NetworkProgress;
using ring::NetworkWait;
using ring::RecordKind;
using EventState = nccl::EventState;

class NetworkOfNcclTest : public NcclTest {
 protected:
  NetworkOfNcclTest() {
    source_->progress().TurnOn(kSystemTiming);
    source_->progress().Attach(client_.progress(), client_.progress_slots());
    source_->network().TurnOn(kSystemTiming);
    source_->network().Attach(client_.network());
    log_.Attach(&client_);
  }

  void* StartOp(void* context, void* parent, int32_t send, int32_t pid = ::getpid()) {
    nccl::EventDetail detail{};
    detail.proxy_op = {pid, 5, 2, 40, 131072, send};
    return Start(context, nccl::kEventProxyOp, detail, parent);
  }
  void* StartStep(void* context, void* op, int32_t step) {
    nccl::EventDetail detail{};
    detail.proxy_step = {step};
    return Start(context, nccl::kEventProxyStep, detail, op);
  }
  void State(void* handle, EventState state) {
    nccl::EventStateArgs args{};
    EXPECT_EQ(ncclProfiler_v5.record_event_state(handle, state, &args), nccl::Result::kSuccess);
  }
  NetworkProgress Only() {
    const std::vector<NetworkProgress> read = ring::ReadNetwork(daemon_.segment);
    EXPECT_EQ(read.size(), 1u);
    return read.empty() ? NetworkProgress() : read.front();
  }
  size_t OpenOnes() { return ring::ReadNetwork(daemon_.segment).size(); }
};

TEST_F(NetworkOfNcclTest, NcclReportsNetworkOperationsWithoutACapture) {
  Init(1);
  EXPECT_EQ(mask_ & (nccl::kEventProxyOp | nccl::kEventProxyStep), 8 | 16);
}

TEST_F(NetworkOfNcclTest, FollowsAnOperationUntilItsEnd) {
  void* context = Init(0xABC);
  Stop(Start(context, nccl::kEventColl, AllReduce(1, 10)));
  void* coll = Start(context, nccl::kEventColl, AllReduce(2, 10));
  void* op = StartOp(context, coll, 1);
  State(op, EventState::kProxyOpInProgress);
  NetworkProgress read = Only();
  EXPECT_EQ(read.communicator, 0xABCu);
  EXPECT_EQ(read.position, 2u);
  EXPECT_EQ(read.direction, NetworkDirection::kSend);
  EXPECT_EQ(read.peer, 2);
  EXPECT_EQ(read.channel, 5u);
  EXPECT_EQ(read.steps, 40u);
  EXPECT_EQ(read.wait, NetworkWait::kNone);

  void* first = StartStep(context, op, 0);
  State(first, EventState::kProxyStepSendGpuWait);
  void* second = StartStep(context, op, 1);
  State(second, EventState::kProxyStepSendGpuWait);
  EXPECT_EQ(Only().wait, NetworkWait::kGpu);
  State(first, EventState::kProxyStepSendPeerWait);
  EXPECT_EQ(Only().wait, NetworkWait::kPeer);
  State(first, EventState::kProxyStepSendWait);
  EXPECT_EQ(Only().wait, NetworkWait::kNetwork);
  Stop(first);
  read = Only();
  EXPECT_EQ(read.wait, NetworkWait::kGpu);
  EXPECT_EQ(read.steps_done, 1u);
  EXPECT_GE(read.moved, read.started);
  Stop(second);
  Stop(op);
  EXPECT_EQ(OpenOnes(), 0u);
}

TEST_F(NetworkOfNcclTest, ARepeatedWaitDoesNotCountAsMovement) {
  void* context = Init(1);
  void* op = StartOp(context, Start(context, nccl::kEventColl, AllReduce(1, 10)), 1);
  void* step = StartStep(context, op, 9);
  State(step, EventState::kProxyStepSendGpuWait);
  State(step, EventState::kProxyStepSendPeerWait);
  const NetworkProgress before = Only();
  // NCCL reports the wait at each try to send.
  for (int i = 0; i < 1000; ++i) State(step, EventState::kProxyStepSendPeerWait);
  EXPECT_EQ(Only().moved, before.moved);
}

TEST_F(NetworkOfNcclTest, StepsShareEightPlaces) {
  void* context = Init(1);
  void* op = StartOp(context, Start(context, nccl::kEventColl, AllReduce(1, 10)), 0);
  std::vector<void*> open;
  for (int32_t i = 0; i < 100; ++i) {
    open.push_back(StartStep(context, op, i));
    State(open.back(), EventState::kProxyStepRecvWait);
    if (open.size() < 8) continue;
    State(open.front(), EventState::kProxyStepRecvFlushWait);
    State(open.front(), EventState::kProxyStepRecvGpuWait);
    EXPECT_EQ(Only().wait, NetworkWait::kGpu);
    Stop(open.front());
    open.erase(open.begin());
  }
  EXPECT_EQ(Only().steps_done, 93u);
  EXPECT_EQ(Only().wait, NetworkWait::kNetwork);
}

TEST_F(NetworkOfNcclTest, AnOperationOfAnotherProcessHasNoPosition) {
  void* context = Init(1);
  void* coll = Start(context, nccl::kEventColl, AllReduce(1, 10));
  StartOp(context, coll, 1, ::getpid() + 1);
  EXPECT_EQ(Only().position, 0u);
}

TEST_F(NetworkOfNcclTest, AFullTableAndAnOldHandleDoNoHarm) {
  void* context = Init(1);
  void* coll = Start(context, nccl::kEventColl, AllReduce(1, 10));
  std::vector<void*> ops;
  for (uint32_t i = 0; i < ring::kNetworkEntries; ++i) ops.push_back(StartOp(context, coll, 1));
  EXPECT_EQ(OpenOnes(), ring::kNetworkEntries);
  void* beyond = StartOp(context, coll, 1);
  void* step = StartStep(context, beyond, 0);
  State(step, EventState::kProxyStepSendGpuWait);
  Stop(step);
  Stop(beyond);
  EXPECT_EQ(OpenOnes(), ring::kNetworkEntries);
  for (void* op : ops) Stop(op);
  EXPECT_EQ(OpenOnes(), 0u);
  void* later = StartOp(context, coll, 1);
  // Ended operations, whose places are taken again.
  for (void* op : ops) {
    State(StartStep(context, op, 0), EventState::kProxyStepSendWait);
    Stop(op);
  }
  EXPECT_EQ(Only().wait, NetworkWait::kNone);
  Stop(later);
}

TEST_F(NetworkOfNcclTest, ACaptureOfTheNetworkLeavesTheTableComplete) {
  void* context = Init(0xABC);
  void* coll = Start(context, nccl::kEventColl, AllReduce(1, 10));
  void* before = StartOp(context, coll, 1);
  Begin(ring::kDefaultActivities | ring::kActivityNcclProxy);
  void* during = StartOp(context, Start(context, nccl::kEventColl, AllReduce(2, 10)), 0);
  void* first = StartStep(context, before, 0);
  State(first, EventState::kProxyStepSendGpuWait);
  void* second = StartStep(context, during, 0);
  State(second, EventState::kProxyStepRecvWait);
  const std::vector<NetworkProgress> read = ring::ReadNetwork(daemon_.segment);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].wait, NetworkWait::kGpu);
  EXPECT_EQ(read[1].wait, NetworkWait::kNetwork);
  EXPECT_EQ(read[1].position, 2u);
  for (void* handle : {first, second, before, during}) Stop(handle);
  EXPECT_EQ(OpenOnes(), 0u);
  End();
  const auto ops = daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp);
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].steps_seen, 1u);
}

TEST_F(NetworkOfNcclTest, ANewDaemonReceivesWhatIsOpen) {
  void* context = Init(7);
  void* op = StartOp(context, Start(context, nccl::kEventColl, AllReduce(1, 10)), 1);
  void* step = StartStep(context, op, 3);
  State(step, EventState::kProxyStepSendGpuWait);
  DaemonEnd later;
  ring::ClientSegment segment;
  ASSERT_EQ(segment.Attach(later.segment.fd(), later.segment.bytes()), ring::AttachError::kNone);
  source_->network().Attach(segment.network());
  State(step, EventState::kProxyStepSendWait);
  const std::vector<NetworkProgress> read = ring::ReadNetwork(later.segment);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].communicator, 7u);
  EXPECT_EQ(read[0].wait, NetworkWait::kNetwork);
  EXPECT_EQ(Only().wait, NetworkWait::kGpu) << "the old one is left alone";
  source_->network().Attach(nullptr);
  Stop(op);
  segment.Detach();
}

}  // namespace
}  // namespace lockstep::client
