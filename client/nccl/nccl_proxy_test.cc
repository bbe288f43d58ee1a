// Tests channels, network operations and their steps, with the events of NCCL 2.28's proxy thread.
#include "client/nccl/nccl_proxy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "client/nccl/nccl_fixture.h"

namespace lockstep::client {
namespace {

using ring::LossReason;
using ring::RecordKind;

constexpr uint32_t kAll =
    ring::kDefaultActivities | ring::kActivityNcclKernelTimes | ring::kActivityNcclProxy;

class NcclProxyTest : public NcclTest {
 protected:
  static nccl::EventDetail Op(bool send, int32_t pid = ::getpid()) {
    nccl::EventDetail detail{};
    detail.proxy_op = {pid, 5, 2, 4, 131072, send ? 1 : 0};
    return detail;
  }
  static nccl::EventDetail Channel(uint8_t channel, uint64_t timer) {
    nccl::EventDetail detail{};
    detail.kernel_channel = {channel, timer};
    return detail;
  }
  void State(void* handle, nccl::EventState state, uint64_t value = 0) {
    nccl::EventStateArgs args{};
    args.transferred_bytes = value;
    EXPECT_EQ(ncclProfiler_v5.record_event_state(handle, state, &args), nccl::Result::kSuccess);
  }
  // Waits long enough for a measurable time.
  static void Wait() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
};

TEST_F(NcclProxyTest, RequestsProxyEventsOnlyOnDemand) {
  Init(1);
  Begin();
  EXPECT_EQ(mask_ & (nccl::kEventKernelChannel | nccl::kEventProxyOp | nccl::kEventProxyStep), 0u);
  End();
  Begin(ring::kDefaultActivities | ring::kActivityNcclKernelTimes);
  EXPECT_EQ(mask_ & (nccl::kEventKernelChannel | nccl::kEventProxyOp), uint32_t{nccl::kEventKernelChannel});
  End();
  Begin(kAll);
  EXPECT_NE(mask_ & nccl::kEventProxyStep, 0u);
  End();
  EXPECT_EQ(mask_, 0);
}

TEST_F(NcclProxyTest, AChannelHasTheGpusTimesAndItsOperation) {
  void* context = Init(0xABC);
  Begin(kAll);
  void* coll = Start(context, nccl::kEventColl, AllReduce(1, 10));
  Stop(coll);  // NCCL stops it at enqueue; its channels come later
  void* a = Start(context, nccl::kEventKernelChannel, Channel(3, 1'000'000), coll);
  void* b = Start(context, nccl::kEventKernelChannel, Channel(4, 1'000'100), coll);
  State(b, nccl::EventState::kKernelChannelStop, 1'000'600);
  State(a, nccl::EventState::kKernelChannelStop, 1'000'700);
  Stop(b);
  Stop(a);
  End();
  uint64_t operation = 0;
  std::vector<ring::KernelChannelRecord> channels;
  for (const auto& record : daemon_.Drain()) {
    if (record.header.kind == RecordKind::kCollective)
      operation = record.as<ring::CollectiveRecord>().operation;
    if (record.header.kind == RecordKind::kKernelChannel)
      channels.push_back(record.as<ring::KernelChannelRecord>());
  }
  ASSERT_EQ(channels.size(), 2u);
  EXPECT_NE(operation, 0u);
  EXPECT_EQ(channels[0].channel, 4u);
  EXPECT_EQ(channels[0].gpu_start_ns, 1'000'100u);
  EXPECT_EQ(channels[0].gpu_end_ns, 1'000'600u);
  EXPECT_EQ(channels[1].gpu_end_ns, 1'000'700u);
  for (const auto& channel : channels) {
    EXPECT_EQ(channel.operation, operation);
    EXPECT_EQ(channel.comm, 0xABCu);
    EXPECT_LE(channel.start_ns, channel.end_ns);
  }
}

TEST_F(NcclProxyTest, AChannelWithoutAStopTimeHasNoGpuTime) {
  void* context = Init(1);
  Begin(kAll);
  Stop(Start(context, nccl::kEventKernelChannel, Channel(0, 5000)));
  End();
  const auto channels = daemon_.DrainOnly<ring::KernelChannelRecord>(RecordKind::kKernelChannel);
  ASSERT_EQ(channels.size(), 1u);
  EXPECT_EQ(channels[0].gpu_start_ns, 0u);
  EXPECT_EQ(channels[0].operation, 0u);
}

// NCCL starts a receive's step at each try, until the network has a request for it.
TEST_F(NcclProxyTest, AStepThatIsStartedAgainIsOneStep) {
  void* context = Init(0xABC);
  Begin(kAll);
  void* op = Start(context, nccl::kEventProxyOp, Op(false), Start(context, nccl::kEventP2p, Peer("Recv", 2)));
  nccl::EventDetail detail{};
  detail.proxy_step = {7};
  void* step = Start(context, nccl::kEventProxyStep, detail, op);
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(Start(context, nccl::kEventProxyStep, detail, op), step);
  State(step, nccl::EventState::kProxyStepRecvWait);
  Stop(step);
  void* later = Start(context, nccl::kEventProxyStep, detail, op);
  EXPECT_NE(later, step) << "its number is taken again";
  Stop(later);
  Stop(op);
  End();
  const auto ops = daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp);
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].steps_seen, 2u);
}

TEST_F(NcclProxyTest, AnOperationSumsTheWaitsOfItsSteps) {
  void* context = Init(0xABC);
  Begin(kAll);
  void* p2p = Start(context, nccl::kEventP2p, Peer("Send", 2));
  void* op = Start(context, nccl::kEventProxyOp, Op(true), p2p);
  State(op, nccl::EventState::kProxyOpInProgress);
  for (int32_t i = 0; i < 3; ++i) {
    nccl::EventDetail detail{};
    detail.proxy_step = {i};
    void* step = Start(context, nccl::kEventProxyStep, detail, op);
    State(step, nccl::EventState::kProxyStepSendGpuWait);
    Wait();
    State(step, nccl::EventState::kProxyStepSendPeerWait);
    State(step, nccl::EventState::kProxyStepSendWait, 1000);
    Wait();
    Stop(step);
  }
  Stop(op);
  End();
  const auto ops = daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp);
  ASSERT_EQ(ops.size(), 1u);
  const auto& r = ops[0];
  EXPECT_EQ(r.header.flags, ring::kProxySend);
  EXPECT_EQ(r.peer, 2);
  EXPECT_EQ(r.channel, 5u);
  EXPECT_EQ(r.steps, 4u);
  EXPECT_EQ(r.steps_seen, 3u);
  EXPECT_EQ(r.chunk_bytes, 131072u);
  EXPECT_EQ(r.bytes, 3000u);
  EXPECT_EQ(r.comm, 0xABCu);
  EXPECT_NE(r.operation, 0u);
  EXPECT_GE(r.gpu_wait_ns, 6'000'000);
  EXPECT_GE(r.network_wait_ns, 6'000'000);
  EXPECT_LT(r.peer_wait_ns, r.gpu_wait_ns);
  EXPECT_EQ(r.flush_wait_ns, 0);
  EXPECT_GE(r.end_ns - r.start_ns, r.gpu_wait_ns + r.network_wait_ns) << "one step at a time here";
}

TEST_F(NcclProxyTest, AReceiveHasWaitsForNetworkFlushAndGpu) {
  void* context = Init(1);
  Begin(kAll);
  void* op = Start(context, nccl::kEventProxyOp, Op(false));
  void* step = Start(context, nccl::kEventProxyStep, {}, op);
  State(step, nccl::EventState::kProxyStepRecvWait);
  State(step, nccl::EventState::kProxyStepRecvFlushWait, 512);
  Wait();
  State(step, nccl::EventState::kProxyStepRecvGpuWait);
  Wait();
  Stop(step);
  Stop(op);
  End();
  const auto ops = daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp);
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].header.flags, 0);
  EXPECT_EQ(ops[0].bytes, 512u);
  EXPECT_GE(ops[0].flush_wait_ns, 2'000'000);
  EXPECT_GE(ops[0].gpu_wait_ns, 2'000'000);
  EXPECT_LT(ops[0].network_wait_ns, 2'000'000);
}

TEST_F(NcclProxyTest, IgnoresAParentOfAnotherProcess) {
  void* context = Init(1);
  Begin(kAll);
  void* coll = Start(context, nccl::kEventColl, AllReduce(1, 10));
  Stop(Start(context, nccl::kEventProxyOp, Op(true, ::getpid() + 1), coll));
  End();
  const auto ops = daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp);
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].header.flags, ring::kProxySend | ring::kProxyRemote);
  EXPECT_EQ(ops[0].operation, 0u);
}

TEST_F(NcclProxyTest, CountsEventsWithoutAPlaceAndReusesPlaces) {
  void* context = Init(1);
  Begin(kAll);
  std::vector<void*> open;
  for (int i = 0; i < 5000; ++i) open.push_back(Start(context, nccl::kEventProxyOp, Op(true)));
  const uint64_t lost = daemon_.Lost(LossReason::kNoPlace, RecordKind::kProxyOp);
  EXPECT_GE(lost, 5000u - 4096u);
  EXPECT_LT(lost, 5000u - 3900u);
  for (void* handle : open) Stop(handle);
  const size_t written = daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp).size();
  EXPECT_EQ(written + daemon_.Lost(LossReason::kRingFull, RecordKind::kProxyOp), 5000u - lost);
  Stop(Start(context, nccl::kEventProxyOp, Op(true)));
  EXPECT_EQ(daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp).size(), 1u);
  for (void* handle : open) Stop(handle);  // a second stop of each finds nothing
  EXPECT_TRUE(daemon_.Drain().empty());
  End();
}

TEST_F(NcclProxyTest, OpenEventsOfACaptureAreNotRecordedInTheNext) {
  void* context = Init(1);
  Begin(kAll);
  std::vector<void*> open;
  for (int i = 0; i < 4096; ++i) open.push_back(Start(context, nccl::kEventProxyOp, Op(true)));
  End();
  Begin(kAll);
  Stop(open[0]);
  void* fresh = Start(context, nccl::kEventProxyOp, Op(true));
  Stop(fresh);
  for (void* handle : open) Stop(handle);
  End();
  EXPECT_EQ(daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp).size(), 1u);
  EXPECT_EQ(daemon_.Lost(LossReason::kNoPlace, RecordKind::kProxyOp), 0u);
}

}  // namespace
}  // namespace lockstep::client
