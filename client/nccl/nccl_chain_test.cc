// Tests another plugin behind ours: the events and the handles that each of them receives.
#include "client/nccl/nccl_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "client/nccl/nccl_fixture.h"

namespace lockstep::client {
namespace {

using ring::LossReason;
using ring::RecordKind;
using testing::ElementsAre;

// The chained plugin numbers its events from 1, and notes every call.
std::vector<std::string> g_calls;
int32_t* g_their_mask = nullptr;
int32_t g_chained_mask = 0;
nccl::Result g_init_result = nccl::Result::kSuccess;
uintptr_t g_next = 0;
uintptr_t g_handle_bits = 0;

std::string N(const void* handle) {
  return handle == nullptr ? "none" : std::to_string(reinterpret_cast<uintptr_t>(handle) & 0xFFFFFF);
}
nccl::Result TheirInit(void** context, uint64_t comm, int32_t* mask, const char*, int32_t, int32_t, int32_t,
                       nccl::Logger) {
  g_calls.push_back("init " + std::to_string(comm));
  *context = reinterpret_cast<void*>(comm + 1000);
  g_their_mask = mask;
  *mask = g_chained_mask;
  return g_init_result;
}
nccl::Result TheirStart(void* context, void** handle, nccl::EventDescriptor* event) {
  *handle = reinterpret_cast<void*>(++g_next | g_handle_bits);
  std::string call =
      "start " + std::to_string(event->type) + " of " + N(context) + " under " + N(event->parent);
  if (event->type == nccl::kEventColl) call += " in " + N(event->detail.coll.parent_group);
  g_calls.push_back(call);
  return nccl::Result::kSuccess;
}
nccl::Result TheirStop(void* handle) {
  g_calls.push_back("stop " + N(handle));
  return nccl::Result::kSuccess;
}
nccl::Result TheirState(void* handle, nccl::EventState state, nccl::EventStateArgs*) {
  g_calls.push_back("state " + std::to_string(static_cast<int>(state)) + " of " + N(handle));
  return nccl::Result::kSuccess;
}
nccl::Result TheirFinalize(void* context) {
  g_calls.push_back("finalize " + N(context));
  return nccl::Result::kSuccess;
}
constexpr nccl::Profiler kTheirs = {"theirs", TheirInit, TheirStart, TheirStop, TheirState, TheirFinalize};

class NcclChainTest : public NcclTest {
 protected:
  NcclChainTest() {
    chain_.SetTable(5, &kTheirs);
    SetNcclChain(&chain_);
    g_calls.clear();
    g_chained_mask = nccl::kEventGroup | nccl::kEventColl;
    g_init_result = nccl::Result::kSuccess;
    g_next = 0;
    g_handle_bits = 0;
  }
  ~NcclChainTest() override { SetNcclChain(nullptr); }
  void State(void* handle, nccl::EventState state) {
    nccl::EventStateArgs args{};
    ncclProfiler_v5.record_event_state(handle, state, &args);
  }
  NcclChain chain_;
};

TEST_F(NcclChainTest, TheMaskIsTheChainedPluginsWhileIdleAndCombinedInACapture) {
  Init(1);
  EXPECT_EQ(mask_, g_chained_mask);
  Begin();
  EXPECT_EQ(mask_, g_chained_mask | 1 | 2 | 4 | 256 | 512 | 1024 | 2048 | 4096);
  // The chained plugin changes its bits, and Refresh adds ours again.
  *g_their_mask = nccl::kEventProxyCtrl;
  source_->Refresh();
  EXPECT_EQ(mask_ & nccl::kEventColl, 2u);
  EXPECT_EQ(mask_ & nccl::kEventProxyCtrl, 32u);
  EXPECT_TRUE(source_->ChainedWants(nccl::kEventProxyCtrl));
  EXPECT_FALSE(source_->ChainedWants(nccl::kEventColl));
  End();
  EXPECT_EQ(mask_, int32_t{nccl::kEventProxyCtrl});
}

TEST_F(NcclChainTest, WhileIdleOnlyTheChainedPluginReceivesEvents) {
  void* context = Init(7);
  void* group = Start(context, nccl::kEventGroup);
  nccl::EventDetail detail = AllReduce(1, 10);
  detail.coll.parent_group = group;
  void* coll = Start(context, nccl::kEventColl, detail, group);
  State(coll, nccl::EventState::kProxyOpInProgress);
  Stop(coll);
  Stop(group);
  EXPECT_EQ(ncclProfiler_v5.finalize(context), nccl::Result::kSuccess);
  EXPECT_THAT(g_calls, ElementsAre("init 7", "start 1 of 1007 under none", "start 2 of 1007 under 1 in 1",
                                   "state 19 of 2", "stop 2", "stop 1", "finalize 1007"));
  EXPECT_TRUE(daemon_.Drain().empty());
}

TEST_F(NcclChainTest, InACaptureBothReceiveExactlyTheirEvents) {
  g_chained_mask = nccl::kEventGroup;
  void* context = Init(7);
  Begin();
  void* group = Start(context, nccl::kEventGroup);
  void* coll = Start(context, nccl::kEventColl, AllReduce(1, 10), group);
  Stop(coll);
  Stop(group);
  End();
  EXPECT_THAT(g_calls, ElementsAre("init 7", "start 1 of 1007 under none", "stop 1"));
  EXPECT_EQ(daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective).size(), 1u);
}

TEST_F(NcclChainTest, EachPluginReceivesItsOwnParentAfterTheParentsStop) {
  g_chained_mask = nccl::kEventProxyOp;  // also enables its ancestors
  void* context = Init(7);
  Begin(ring::kDefaultActivities | ring::kActivityNcclProxy);
  void* group = Start(context, nccl::kEventGroup);
  nccl::EventDetail detail = AllReduce(1, 10);
  detail.coll.parent_group = group;
  void* coll = Start(context, nccl::kEventColl, detail, group);
  Stop(coll);
  Stop(group);
  nccl::EventDetail op{};
  op.proxy_op = {::getpid(), 5, 2, 4, 1024, 1};
  void* proxy = Start(context, nccl::kEventProxyOp, op, coll);
  Stop(proxy);
  End();
  EXPECT_THAT(g_calls, ElementsAre("init 7", "start 1 of 1007 under none", "start 2 of 1007 under 1 in 1",
                                   "stop 2", "stop 1", "start 8 of 1007 under 2", "stop 3"));
  uint64_t operation = 0;
  uint64_t of_proxy = 1;
  for (const auto& record : daemon_.Drain()) {
    if (record.header.kind == RecordKind::kCollective)
      operation = record.as<ring::CollectiveRecord>().operation;
    if (record.header.kind == RecordKind::kProxyOp) of_proxy = record.as<ring::ProxyOpRecord>().operation;
  }
  EXPECT_EQ(of_proxy, operation);
}

TEST_F(NcclChainTest, PassesOnAParentOfAnotherProcessUnchanged) {
  g_chained_mask = nccl::kEventProxyOp;
  void* context = Init(7);
  nccl::EventDetail op{};
  op.proxy_op = {::getpid() + 1, 5, 2, 4, 1024, 1};
  Stop(Start(context, nccl::kEventProxyOp, op, reinterpret_cast<void*>(uintptr_t{1} << 63 | 12345)));
  EXPECT_EQ(g_calls[1], "start 8 of 1007 under 12345");
}

TEST_F(NcclChainTest, MarksALaunchForCuptiWithAnyChainedMask) {
  for (int32_t chained_mask : {int32_t{nccl::kEventGroup}, int32_t{nccl::kEventKernelLaunch}}) {
    g_chained_mask = chained_mask;
    void* context = Init(7);
    Begin();
    Collective(context, AllReduce(1, 10));
    EXPECT_EQ(pushed_at_launch_.size(), 1u);
    EXPECT_TRUE(cupti_.pushed.empty());
    const auto records = daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].launch, pushed_at_launch_[0]);
    End();
  }
}

TEST_F(NcclChainTest, AFullPoolDropsAndCountsOnlyOurEvents) {
  g_chained_mask = nccl::kEventColl;
  void* context = Init(7);
  Begin();
  std::vector<void*> open;
  for (int i = 0; i < 17'000; ++i) open.push_back(Start(context, nccl::kEventColl, AllReduce(1, 10)));
  EXPECT_EQ(g_calls.size(), 1u + 17'000);
  const uint64_t lost = daemon_.Lost(LossReason::kNoPlace, RecordKind::kCollective);
  EXPECT_EQ(lost, 17'000u - 16'384u);
  g_calls.clear();
  for (void* handle : open) Stop(handle);
  EXPECT_EQ(g_calls.size(), 17'000u);
  for (int i = 0; i < 17'000; ++i)
    ASSERT_EQ(g_calls[static_cast<size_t>(i)], "stop " + std::to_string(i + 1));
  // Places are free again. A second stop of an old pair reaches no plugin.
  g_calls.clear();
  Stop(open[0]);
  EXPECT_TRUE(g_calls.empty());
  Stop(Start(context, nccl::kEventColl, AllReduce(1, 10)));
  EXPECT_EQ(daemon_.Lost(LossReason::kNoPlace, RecordKind::kCollective), lost);
  End();
}

TEST_F(NcclChainTest, StoresAnAmbiguousHandleInAPairOrStopsIt) {
  g_handle_bits = uintptr_t{1} << 63;
  void* context = Init(7);
  void* idle = Start(context, nccl::kEventColl, AllReduce(1, 10));
  EXPECT_THAT(g_calls, ElementsAre("init 7", "start 2 of 1007 under none in none", "stop 1"));
  Stop(idle);
  EXPECT_EQ(g_calls.size(), 3u);
  Begin();
  void* carried = Start(context, nccl::kEventColl, AllReduce(2, 10));
  Stop(carried);
  End();
  EXPECT_EQ(g_calls.back(), "stop 2");
}

TEST_F(NcclChainTest, OursWorksIfTheChainedPluginFails) {
  g_init_result = nccl::Result::kInternalError;
  void* context = Init(7);
  ASSERT_NE(context, nullptr);
  g_calls.clear();
  Begin();
  Collective(context, AllReduce(1, 10));
  End();
  EXPECT_EQ(daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective).size(), 1u);
  EXPECT_EQ(ncclProfiler_v5.finalize(context), nccl::Result::kSuccess);
  EXPECT_TRUE(g_calls.empty());
}

TEST_F(NcclChainTest, TheChainedPluginWorksBeyondOurCommunicatorPlaces) {
  for (uint64_t comm = 1; comm <= 512; ++comm) Init(comm);
  void* context = Init(600);
  EXPECT_EQ(context, reinterpret_cast<void*>(uintptr_t{1600})) << "the other's own";
  g_calls.clear();
  Begin();
  Stop(Start(context, nccl::kEventColl, AllReduce(1, 10)));
  End();
  ncclProfiler_v5.finalize(context);
  EXPECT_THAT(g_calls, ElementsAre("start 2 of 1600 under none in none", "stop 1", "finalize 1600"));
  EXPECT_EQ(daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective).size(), 1u);
}

TEST_F(NcclChainTest, OursAloneServesVersionsThatTheChainedPluginLacks) {
  NcclChain chain;
  chain.SetTable(4, &kTheirs);
  SetNcclChain(&chain);
  void* context = Init(7);
  EXPECT_TRUE(g_calls.empty());
  EXPECT_EQ(mask_, 0);
  Begin();
  Collective(context, AllReduce(1, 10));
  End();
  EXPECT_TRUE(g_calls.empty());
  EXPECT_TRUE(cupti_.pushed.empty());
  EXPECT_EQ(daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective).size(), 1u);
}

TEST(NcclChainLibrary, ChainsNeitherMissingLibrariesNorItself) {
  NcclChain none;
  EXPECT_FALSE(none.wanted());
  EXPECT_EQ(none.Table(5, nullptr), nullptr);
  NcclChain missing;
  missing.SetName("no-such-plugin");
  EXPECT_TRUE(missing.wanted());
  EXPECT_EQ(missing.Table(5, nullptr), nullptr);
  NcclChain ours;
  ours.SetTable(5, &ncclProfiler_v5);
  EXPECT_EQ(ours.Table(5, &ncclProfiler_v5), nullptr);
}

}  // namespace
}  // namespace lockstep::client
