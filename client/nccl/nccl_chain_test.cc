// Another plugin behind ours: what each sees, and whose handles go where.
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

// The other plugin: numbers its events from 1 and says what it was told.
std::vector<std::string> g_told;
int32_t* g_their_mask = nullptr;
int32_t g_their_wish = 0;
nccl::Result g_init_result = nccl::Result::kSuccess;
uintptr_t g_next = 0;
uintptr_t g_handle_bits = 0;

std::string N(const void* handle) {
  return handle == nullptr ? "none" : std::to_string(reinterpret_cast<uintptr_t>(handle) & 0xFFFFFF);
}
nccl::Result TheirInit(void** context, uint64_t comm, int32_t* mask, const char*, int32_t, int32_t, int32_t,
                       nccl::Logger) {
  g_told.push_back("init " + std::to_string(comm));
  *context = reinterpret_cast<void*>(comm + 1000);
  g_their_mask = mask;
  *mask = g_their_wish;
  return g_init_result;
}
nccl::Result TheirStart(void* context, void** handle, nccl::EventDescriptor* event) {
  *handle = reinterpret_cast<void*>(++g_next | g_handle_bits);
  std::string told =
      "start " + std::to_string(event->type) + " of " + N(context) + " under " + N(event->parent);
  if (event->type == nccl::kEventColl) told += " in " + N(event->detail.coll.parent_group);
  g_told.push_back(told);
  return nccl::Result::kSuccess;
}
nccl::Result TheirStop(void* handle) {
  g_told.push_back("stop " + N(handle));
  return nccl::Result::kSuccess;
}
nccl::Result TheirState(void* handle, nccl::EventState state, nccl::EventStateArgs*) {
  g_told.push_back("state " + std::to_string(static_cast<int>(state)) + " of " + N(handle));
  return nccl::Result::kSuccess;
}
nccl::Result TheirFinalize(void* context) {
  g_told.push_back("finalize " + N(context));
  return nccl::Result::kSuccess;
}
constexpr nccl::Profiler kTheirs = {"theirs", TheirInit, TheirStart, TheirStop, TheirState, TheirFinalize};

class NcclChainTest : public NcclTest {
 protected:
  NcclChainTest() {
    chain_.SetTable(5, &kTheirs);
    SetNcclChain(&chain_);
    g_told.clear();
    g_their_wish = nccl::kEventGroup | nccl::kEventColl;
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

TEST_F(NcclChainTest, NcclsWordIsTheOthersWhileIdleAndBothInACapture) {
  Init(1);
  EXPECT_EQ(mask_, g_their_wish);
  Begin();
  EXPECT_EQ(mask_, g_their_wish | 1 | 2 | 4 | 256 | 512 | 1024 | 2048);
  // The other changes its mind, and ours comes back into the word.
  *g_their_mask = nccl::kEventProxyCtrl;
  source_->Refresh();
  EXPECT_EQ(mask_ & nccl::kEventColl, 2u);
  EXPECT_EQ(mask_ & nccl::kEventProxyCtrl, 32u);
  EXPECT_TRUE(source_->OthersWant(nccl::kEventProxyCtrl));
  EXPECT_FALSE(source_->OthersWant(nccl::kEventColl));
  End();
  EXPECT_EQ(mask_, int32_t{nccl::kEventProxyCtrl});
}

TEST_F(NcclChainTest, WhileIdleTheOtherHasEveryEventToItself) {
  void* context = Init(7);
  void* group = Start(context, nccl::kEventGroup);
  nccl::EventDetail detail = AllReduce(1, 10);
  detail.coll.parent_group = group;
  void* coll = Start(context, nccl::kEventColl, detail, group);
  State(coll, nccl::EventState::kProxyOpInProgress);
  Stop(coll);
  Stop(group);
  EXPECT_EQ(ncclProfiler_v5.finalize(context), nccl::Result::kSuccess);
  EXPECT_THAT(g_told, ElementsAre("init 7", "start 1 of 1007 under none", "start 2 of 1007 under 1 in 1",
                                  "state 19 of 2", "stop 2", "stop 1", "finalize 1007"));
  EXPECT_TRUE(daemon_.Drain().empty());
}

TEST_F(NcclChainTest, InACaptureBothSeeWhatTheyAskedForAndNoMore) {
  g_their_wish = nccl::kEventGroup;
  void* context = Init(7);
  Begin();
  void* group = Start(context, nccl::kEventGroup);
  void* coll = Start(context, nccl::kEventColl, AllReduce(1, 10), group);
  Stop(coll);
  Stop(group);
  End();
  EXPECT_THAT(g_told, ElementsAre("init 7", "start 1 of 1007 under none", "stop 1"));
  EXPECT_EQ(daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective).size(), 1u);
}

TEST_F(NcclChainTest, AParentIsEachOnesOwnEvenAfterItsStop) {
  g_their_wish = nccl::kEventProxyOp;  // with its ancestors
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
  EXPECT_THAT(g_told, ElementsAre("init 7", "start 1 of 1007 under none", "start 2 of 1007 under 1 in 1",
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

TEST_F(NcclChainTest, AParentOfAnotherProcessGoesOnAsItIs) {
  g_their_wish = nccl::kEventProxyOp;
  void* context = Init(7);
  nccl::EventDetail op{};
  op.proxy_op = {::getpid() + 1, 5, 2, 4, 1024, 1};
  Stop(Start(context, nccl::kEventProxyOp, op, reinterpret_cast<void*>(uintptr_t{1} << 63 | 12345)));
  EXPECT_EQ(g_told[1], "start 8 of 1007 under 12345");
}

TEST_F(NcclChainTest, ALaunchIsMarkedForCuptiWhetherOrNotTheOtherSeesIt) {
  for (int32_t wish : {int32_t{nccl::kEventGroup}, int32_t{nccl::kEventKernelLaunch}}) {
    g_their_wish = wish;
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

TEST_F(NcclChainTest, WhenThePoolIsFullOursIsGivenUpAndCountedAndTheOthersIsNot) {
  g_their_wish = nccl::kEventColl;
  void* context = Init(7);
  Begin();
  std::vector<void*> open;
  for (int i = 0; i < 17'000; ++i) open.push_back(Start(context, nccl::kEventColl, AllReduce(1, 10)));
  EXPECT_EQ(g_told.size(), 1u + 17'000);
  const uint64_t lost = daemon_.Lost(LossReason::kNoPlace, RecordKind::kCollective);
  EXPECT_EQ(lost, 17'000u - 16'384u);
  g_told.clear();
  for (void* handle : open) Stop(handle);
  EXPECT_EQ(g_told.size(), 17'000u);
  for (int i = 0; i < 17'000; ++i) ASSERT_EQ(g_told[static_cast<size_t>(i)], "stop " + std::to_string(i + 1));
  // Places are there again; a second stop of an old pair reaches nobody.
  g_told.clear();
  Stop(open[0]);
  EXPECT_TRUE(g_told.empty());
  Stop(Start(context, nccl::kEventColl, AllReduce(1, 10)));
  EXPECT_EQ(daemon_.Lost(LossReason::kNoPlace, RecordKind::kCollective), lost);
  End();
}

TEST_F(NcclChainTest, AHandleThatLooksLikeOursIsCarriedInAPairOrStoppedAtOnce) {
  g_handle_bits = uintptr_t{1} << 63;
  void* context = Init(7);
  void* idle = Start(context, nccl::kEventColl, AllReduce(1, 10));
  EXPECT_THAT(g_told, ElementsAre("init 7", "start 2 of 1007 under none in none", "stop 1"));
  Stop(idle);
  EXPECT_EQ(g_told.size(), 3u);
  Begin();
  void* carried = Start(context, nccl::kEventColl, AllReduce(2, 10));
  Stop(carried);
  End();
  EXPECT_EQ(g_told.back(), "stop 2");
}

TEST_F(NcclChainTest, TheOthersFailureDoesNotHurt) {
  g_init_result = nccl::Result::kInternalError;
  void* context = Init(7);
  ASSERT_NE(context, nullptr);
  g_told.clear();
  Begin();
  Collective(context, AllReduce(1, 10));
  End();
  EXPECT_EQ(daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective).size(), 1u);
  EXPECT_EQ(ncclProfiler_v5.finalize(context), nccl::Result::kSuccess);
  EXPECT_TRUE(g_told.empty());
}

TEST_F(NcclChainTest, BeyondOurPlacesForCommunicatorsTheOtherStillHasIts) {
  for (uint64_t comm = 1; comm <= 512; ++comm) Init(comm);
  void* context = Init(600);
  EXPECT_EQ(context, reinterpret_cast<void*>(uintptr_t{1600})) << "the other's own";
  g_told.clear();
  Begin();
  Stop(Start(context, nccl::kEventColl, AllReduce(1, 10)));
  End();
  ncclProfiler_v5.finalize(context);
  EXPECT_THAT(g_told, ElementsAre("start 2 of 1600 under none in none", "stop 1", "finalize 1600"));
  EXPECT_EQ(daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective).size(), 1u);
}

TEST_F(NcclChainTest, AVersionThatTheOtherHasNotIsOursAlone) {
  NcclChain chain;
  chain.SetTable(4, &kTheirs);
  SetNcclChain(&chain);
  void* context = Init(7);
  EXPECT_TRUE(g_told.empty());
  EXPECT_EQ(mask_, 0);
  Begin();
  Collective(context, AllReduce(1, 10));
  End();
  EXPECT_TRUE(g_told.empty());
  EXPECT_TRUE(cupti_.pushed.empty());
  EXPECT_EQ(daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective).size(), 1u);
}

TEST(NcclChainLibrary, WhatCannotBeLoadedOrIsOursIsNotChained) {
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
