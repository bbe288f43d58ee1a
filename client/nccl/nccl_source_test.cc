// Calls the profiler plugin like NCCL, in NCCL's order, into rings, and reads the records back.
#include "client/nccl/nccl_source.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "client/nccl/nccl_fixture.h"

namespace lockstep::client {
namespace {

using ring::RecordKind;

TEST_F(NcclTest, TheMaskIsZeroUnlessACaptureRuns) {
  void* context = Init(1);
  EXPECT_EQ(mask_, 0);
  EXPECT_EQ(init_count, 1);
  Begin();
  EXPECT_EQ(mask_, 1 | 2 | 4 | 256 | 512 | 1024 | 2048 | 4096);
  int32_t before = mask_;
  mask_ = -1;
  Init(2);
  EXPECT_EQ(mask_, before) << "a communicator made during a capture";
  End();
  EXPECT_EQ(mask_, 0);
  EXPECT_EQ(ncclProfiler_v5.finalize(context), nccl::Result::kSuccess);
}

TEST_F(NcclTest, ACollectiveKeepsItsFieldsAndBelongsToItsLaunch) {
  void* context = Init(0xABCDEF);
  Begin();
  Collective(context, AllReduce(41, 1 << 20));
  Collective(context, AllReduce(42, 7));
  End();
  const auto records = daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective);
  ASSERT_EQ(records.size(), 2u);
  const auto& r = records[0];
  EXPECT_EQ(r.comm, 0xABCDEFu);
  EXPECT_EQ(r.sequence, 41u);
  EXPECT_EQ(r.count, 1u << 20);
  EXPECT_EQ(r.channels, 16u);
  EXPECT_EQ(r.root, 0);
  EXPECT_GT(r.enqueued_ns, 0);
  EXPECT_EQ(daemon_.strings[r.function], "AllReduce");
  EXPECT_EQ(daemon_.strings[r.datatype], "ncclBfloat16");
  EXPECT_EQ(daemon_.strings[r.algorithm], "RING");
  EXPECT_EQ(daemon_.strings[r.protocol], "SIMPLE");
  EXPECT_NE(r.launch, 0u);
  EXPECT_NE(records[1].launch, r.launch);
  ASSERT_EQ(pushed_at_launch_.size(), 1u);
  EXPECT_EQ(pushed_at_launch_[0], records[1].launch) << "what CUPTI ties to the kernel";
  EXPECT_TRUE(cupti_.pushed.empty()) << "and popped behind the launch";
}

// NCCL launches the copies between the start and the stop.
TEST_F(NcclTest, ACollectiveOnTheCopyEnginesBelongsToItsCopies) {
  void* context = nullptr;
  ASSERT_EQ(ncclProfiler_v6.init(&context, 0xABC, &mask_, "world", 2, 8, 3, nullptr), nccl::Result::kSuccess);
  Begin();
  Collective(context, AllReduce(41, 7));
  const uint64_t launch_of_kernel = pushed_at_launch_.at(0);
  nccl::EventDescriptor event{nccl::kEventCeColl, nullptr, 3, {}};
  event.detail.ce_coll.sequence = 5;
  event.detail.ce_coll.function = "AllGather";
  event.detail.ce_coll.count = 1 << 20;
  event.detail.ce_coll.root = 0;
  event.detail.ce_coll.datatype = "ncclFloat16";
  event.detail.ce_coll.synchronization = "MC";
  void* handle = &event;
  ASSERT_EQ(ncclProfiler_v6.start_event(context, &handle, &event), nccl::Result::kSuccess);
  ASSERT_EQ(cupti_.pushed.size(), 1u);
  const uint64_t launch = cupti_.pushed[0];
  ASSERT_EQ(ncclProfiler_v6.stop_event(handle), nccl::Result::kSuccess);
  EXPECT_TRUE(cupti_.pushed.empty());
  Stop(Start(context, nccl::kEventColl, AllReduce(42, 7)));
  End();
  const auto records = daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[1].comm, 0xABCu);
  EXPECT_EQ(records[1].sequence, 5u);
  EXPECT_EQ(records[1].count, 1u << 20);
  EXPECT_EQ(records[1].launch, launch);
  EXPECT_EQ(daemon_.strings[records[1].function], "AllGather");
  EXPECT_EQ(daemon_.strings[records[1].datatype], "ncclFloat16");
  EXPECT_EQ(daemon_.strings[records[1].algorithm], "CopyEngine");
  EXPECT_EQ(daemon_.strings[records[1].protocol], "MC");
  EXPECT_NE(launch, launch_of_kernel);
  EXPECT_EQ(records[2].launch, launch_of_kernel) << "an event of the same group's kernel";
}

TEST_F(NcclTest, AnOperationWithoutALaunchOfItsOwnHasNone) {
  void* context = Init(1);
  Begin();
  Collective(context, AllReduce(1, 1));
  // These calls launch elsewhere: on CUDA's callback thread, or in a graph.
  Stop(Start(context, nccl::kEventGroupApi));
  Stop(Start(context, nccl::kEventColl, AllReduce(2, 1)));
  std::thread([&] { Stop(Start(context, nccl::kEventColl, AllReduce(3, 1))); }).join();
  End();
  const auto records = daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective);
  ASSERT_EQ(records.size(), 3u);
  for (const auto& r : records) EXPECT_EQ(r.launch != 0, r.sequence == 1) << r.sequence;
}

TEST_F(NcclTest, SendsAndReceivesAreNumberedPerPeerAndDirection) {
  void* world = Init(1);
  void* other = Init(2);
  Begin();
  Stop(Start(world, nccl::kEventP2p, Peer("Send", 5)));
  Stop(Start(world, nccl::kEventP2p, Peer("Send", 5)));
  Stop(Start(world, nccl::kEventP2p, Peer("Recv", 5)));
  Stop(Start(world, nccl::kEventP2p, Peer("Send", 6)));
  Stop(Start(other, nccl::kEventP2p, Peer("Send", 5)));
  End();
  const auto records = daemon_.DrainOnly<ring::PointToPointRecord>(RecordKind::kPointToPoint);
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(records[0].sequence, 0u);
  EXPECT_EQ(records[1].sequence, 1u);
  EXPECT_EQ(records[1].header.flags, ring::kP2pSend);
  EXPECT_EQ(records[2].sequence, 0u);
  EXPECT_EQ(records[2].header.flags, 0);
  EXPECT_EQ(records[3].sequence, 0u);
  EXPECT_EQ(records[4].sequence, 0u);
  EXPECT_EQ(records[4].comm, 2u);
  EXPECT_EQ(records[0].peer, 5);
  EXPECT_EQ(records[0].count, 100u);
  EXPECT_EQ(daemon_.strings[records[0].datatype], "ncclFloat32");
}

TEST_F(NcclTest, EachCaptureRestartsTheNumbersOfAPair) {
  void* world = Init(1);
  for (int capture = 0; capture < 2; ++capture) {
    Begin();
    Stop(Start(world, nccl::kEventP2p, Peer("Send", 5)));
    End();
    const auto records = daemon_.DrainOnly<ring::PointToPointRecord>(RecordKind::kPointToPoint);
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].sequence, 0u);
  }
}

TEST_F(NcclTest, RecordsCommunicatorsAtTheStartAndAtTheirCreation) {
  void* gone = Init(1, "gone");
  Init(2, "world", 8, 3);
  Init(3, nullptr, 2, 1);
  ncclProfiler_v5.finalize(gone);
  Begin();
  ThreadSlot* slot = recorder_.Enter();
  ASSERT_NE(slot, nullptr);
  source_->WriteCommunicators(*slot);
  recorder_.Leave(*slot);
  Init(4, "made in the capture", 4, 0);
  End();
  const auto records = daemon_.DrainOnly<ring::CommunicatorRecord>(RecordKind::kCommunicator);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].comm, 2u);
  EXPECT_EQ(records[0].rank, 3);
  EXPECT_EQ(records[0].ranks, 8);
  EXPECT_EQ(records[0].nodes, 2);
  EXPECT_EQ(daemon_.strings[records[0].name], "world");
  EXPECT_EQ(records[1].name, 0u);
  EXPECT_EQ(daemon_.strings[records[2].name], "made in the capture");
}

TEST_F(NcclTest, AStopAfterTheCaptureStillPops) {
  void* context = Init(1);
  Begin();
  void* launch = Start(context, nccl::kEventKernelLaunch);
  EXPECT_EQ(cupti_.pushed.size(), 1u);
  End();
  Stop(launch);
  EXPECT_TRUE(cupti_.pushed.empty());
  void* idle = Start(context, nccl::kEventKernelLaunch);
  EXPECT_TRUE(cupti_.pushed.empty());
  Stop(idle);
  Stop(launch == idle ? launch : idle);
}

TEST_F(NcclTest, WithoutCuptiOperationsAreRecordedWithoutALaunch) {
  void* context = Init(1);
  Begin();
  source_->Begin(nullptr, ring::kDefaultActivities);
  Collective(context, AllReduce(1, 1));
  End();
  const auto records = daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].launch, 0u);
}

TEST_F(NcclTest, OperationsOutsideTheWindowAreNotRecordedButTheirPairsAreCounted) {
  void* context = Init(1);
  Begin();
  window_.Close();
  Stop(Start(context, nccl::kEventP2p, Peer("Send", 5)));
  Collective(context, AllReduce(1, 1));
  window_.Open(HostTime(0), HostTime::Max());
  Stop(Start(context, nccl::kEventP2p, Peer("Send", 5)));
  End();
  EXPECT_TRUE(daemon_.LostInAll() == 0);
  const auto records = daemon_.Drain();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].as<ring::PointToPointRecord>().sequence, 1u);
}

TEST_F(NcclTest, ReadsOneByteOfVersion4Types) {
  void* context = nullptr;
  ASSERT_EQ(ncclProfiler_v4.init(&context, &mask_, "world", 77, 1, 8, 0, nullptr), nccl::Result::kSuccess);
  Begin();
  nccl::EventDescriptorV4 event{};
  std::memset(static_cast<void*>(&event), 0xEE, sizeof event);
  event.type = nccl::kEventColl;
  event.detail = AllReduce(9, 5);
  void* handle = nullptr;
  ASSERT_EQ(ncclProfiler_v4.start_event(context, &handle, &event), nccl::Result::kSuccess);
  ASSERT_EQ(ncclProfiler_v4.stop_event(handle), nccl::Result::kSuccess);
  End();
  const auto records = daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].comm, 77u);
  EXPECT_EQ(records[0].sequence, 9u);
}

TEST_F(NcclTest, AcceptsAndIgnoresEventsOfUnknownTypes) {
  void* context = Init(1);
  Begin();
  for (uint64_t bit = 0; bit < 20; ++bit) {
    const uint32_t type = 1u << bit;
    if (type == nccl::kEventColl || type == nccl::kEventP2p || type == nccl::kEventCeColl) continue;
    Stop(Start(context, uint64_t{1} << bit));
  }
  EXPECT_EQ(ncclProfiler_v5.record_event_state(nullptr, nccl::EventState::kGroupStartApiStop, nullptr),
            nccl::Result::kSuccess);
  End();
  EXPECT_TRUE(daemon_.Drain().empty());
}

TEST_F(NcclTest, RecordsOperationsOfCommunicatorsWithoutAPlace) {
  std::vector<void*> contexts;
  for (uint64_t comm = 1; comm <= 600; ++comm) contexts.push_back(Init(comm));
  EXPECT_EQ(contexts.back(), nullptr);
  Begin();
  Collective(contexts.back(), AllReduce(1, 1));
  End();
  const auto records = daemon_.DrainOnly<ring::CollectiveRecord>(RecordKind::kCollective);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].comm, 0u);
}

}  // namespace
}  // namespace lockstep::client
