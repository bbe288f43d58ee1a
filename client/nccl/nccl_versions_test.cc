// Calls the plugin's versions 1, 2 and 3 like NCCL 2.23 to 2.26.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "client/nccl/nccl_fixture.h"

namespace lockstep::client {
namespace {

using ring::RecordKind;

// Fills all bytes that are not fields with garbage.
template <typename Descriptor>
Descriptor Garbage(uint8_t type) {
  Descriptor event;
  std::memset(static_cast<void*>(&event), 0xEE, sizeof event);
  event.type = type;
  event.parent = nullptr;
  event.rank = 3;
  return event;
}

class OldNcclTest : public NcclTest {
 protected:
  template <typename Descriptor>
  void* Init(const nccl::ProfilerOld<Descriptor>& table) {
    void* context = nullptr;
    EXPECT_EQ(table.init(&context, &mask_), nccl::Result::kSuccess);
    return context;
  }
  template <typename Descriptor>
  void* Start(const nccl::ProfilerOld<Descriptor>& table, void* context, Descriptor event) {
    void* handle = &event;
    EXPECT_EQ(table.start_event(context, &handle, &event), nccl::Result::kSuccess);
    EXPECT_NE(handle, &event);
    return handle;
  }
  template <typename Descriptor>
  void Emit(const nccl::ProfilerOld<Descriptor>& table, void* context, const Descriptor& event) {
    EXPECT_EQ(table.stop_event(Start(table, context, event)), nccl::Result::kSuccess);
  }
  ring::CollectiveRecord OnlyCollective() {
    const auto all = daemon_.Drain();
    ring::CollectiveRecord found{};
    int collectives = 0;
    communicators_.clear();
    for (const auto& record : all) {
      if (record.header.kind == RecordKind::kCollective) {
        found = record.as<ring::CollectiveRecord>();
        ++collectives;
      }
      if (record.header.kind == RecordKind::kCommunicator)
        communicators_.push_back(record.as<ring::CommunicatorRecord>());
    }
    EXPECT_EQ(collectives, 1);
    return found;
  }
  std::vector<ring::CommunicatorRecord> communicators_;
};

nccl::EventDescriptorV1 AllReduceV1() {
  auto event = Garbage<nccl::EventDescriptorV1>(nccl::kEventColl);
  event.coll.name = "tp";
  event.coll.comm = 0xABC;
  event.coll.sequence = 12;
  event.coll.function = 4;
  event.coll.count = 1000;
  event.coll.root = 0;
  event.coll.datatype = 9;
  event.coll.reduction = 2;
  event.coll.channels = 24;
  event.coll.algorithm = 5;
  event.coll.protocol = 1;
  return event;
}

TEST_F(OldNcclTest, Version1NumbersBecomeTexts) {
  void* context = Init(ncclProfiler_v1);
  Begin();
  Emit(ncclProfiler_v1, context, AllReduceV1());
  End();
  const ring::CollectiveRecord r = OnlyCollective();
  EXPECT_EQ(r.comm, 0xABCu);
  EXPECT_EQ(r.sequence, 12u);
  EXPECT_EQ(r.header.flags, ring::kSequenceIsLocal)
      << "ranks that began at different times count differently";
  EXPECT_EQ(r.count, 1000u);
  EXPECT_EQ(r.channels, 24u);
  EXPECT_EQ(daemon_.strings[r.function], "AllReduce");
  EXPECT_EQ(daemon_.strings[r.datatype], "ncclBfloat16");
  EXPECT_EQ(daemon_.strings[r.algorithm], "NVLS_TREE");
  EXPECT_EQ(daemon_.strings[r.protocol], "LL128");
  EXPECT_EQ(daemon_.strings[r.reduction], "Max");
}

TEST_F(OldNcclTest, NumbersBeyondTheKnownHaveNoText) {
  void* context = Init(ncclProfiler_v1);
  Begin();
  auto event = AllReduceV1();
  event.coll.datatype = 200;
  event.coll.algorithm = 77;
  event.coll.protocol = 3;
  event.coll.reduction = 5;
  Emit(ncclProfiler_v1, context, event);
  End();
  const ring::CollectiveRecord r = OnlyCollective();
  EXPECT_EQ(r.datatype, 0u);
  EXPECT_EQ(r.algorithm, 0u);
  EXPECT_EQ(r.protocol, 0u);
  EXPECT_EQ(daemon_.strings[r.reduction], "PreMulSum") << "made by the application";
}

TEST_F(OldNcclTest, AFunctionThatDoesNotReduceHasNoReduction) {
  void* context = Init(ncclProfiler_v1);
  Begin();
  auto event = AllReduceV1();
  event.coll.function = 2;
  Emit(ncclProfiler_v1, context, event);
  End();
  const ring::CollectiveRecord r = OnlyCollective();
  EXPECT_EQ(daemon_.strings[r.function], "AllGather");
  EXPECT_EQ(r.reduction, 0u);
}

TEST_F(OldNcclTest, RecordsACommunicatorOnceAtItsFirstEvent) {
  void* context = Init(ncclProfiler_v1);
  Begin();
  ThreadSlot* slot = recorder_.Enter();
  source_->WriteCommunicators(*slot);
  recorder_.Leave(*slot);
  EXPECT_TRUE(daemon_.Drain().empty()) << "nothing is known of it yet";
  Emit(ncclProfiler_v1, context, AllReduceV1());
  OnlyCollective();
  ASSERT_EQ(communicators_.size(), 1u);
  EXPECT_EQ(communicators_[0].comm, 0xABCu);
  EXPECT_EQ(communicators_[0].rank, 3);
  EXPECT_EQ(communicators_[0].ranks, 0) << "unknown";
  EXPECT_EQ(daemon_.strings[communicators_[0].name], "tp");
  Emit(ncclProfiler_v1, context, AllReduceV1());
  OnlyCollective();
  EXPECT_TRUE(communicators_.empty());
  End();
  // The next capture writes the communicator at its start.
  Begin();
  slot = recorder_.Enter();
  source_->WriteCommunicators(*slot);
  recorder_.Leave(*slot);
  EXPECT_EQ(daemon_.DrainOnly<ring::CommunicatorRecord>(RecordKind::kCommunicator).size(), 1u);
  End();
  EXPECT_EQ(ncclProfiler_v1.finalize(context), nccl::Result::kSuccess);
}

TEST_F(OldNcclTest, MessagesOfVersion1And2KeepPeerAndDirection) {
  void* one = Init(ncclProfiler_v1);
  void* two = Init(ncclProfiler_v2);
  Begin();
  auto v1 = Garbage<nccl::EventDescriptorV1>(nccl::kEventP2p);
  v1.p2p.name = nullptr;
  v1.p2p.comm = 1;
  v1.p2p.function = 6;
  v1.p2p.datatype = 7;
  v1.p2p.count = 10;
  v1.p2p.peer = 5;
  Emit(ncclProfiler_v1, one, v1);
  auto v2 = Garbage<nccl::EventDescriptorV2>(nccl::kEventP2p);
  v2.p2p.name = nullptr;
  v2.p2p.comm = 2;
  v2.p2p.function = "Recv";
  v2.p2p.datatype = "ncclInt8";
  v2.p2p.count = 11;
  v2.p2p.peer = 6;
  Emit(ncclProfiler_v2, two, v2);
  End();
  const auto records = daemon_.DrainOnly<ring::PointToPointRecord>(RecordKind::kPointToPoint);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].header.flags, ring::kP2pSend);
  EXPECT_EQ(records[0].comm, 1u);
  EXPECT_EQ(records[0].peer, 5);
  EXPECT_EQ(daemon_.strings[records[0].datatype], "ncclFloat32");
  EXPECT_EQ(records[1].header.flags, 0);
  EXPECT_EQ(records[1].count, 11u);
  EXPECT_EQ(records[1].peer, 6);
}

template <typename Descriptor>
Descriptor AllGatherOfTexts() {
  auto event = Garbage<Descriptor>(nccl::kEventColl);
  event.coll.name = "dp";
  event.coll.comm = 0xDEF;
  event.coll.sequence = 7;
  event.coll.function = "AllGather";
  event.coll.count = 4096;
  event.coll.root = -1;
  event.coll.datatype = "ncclInt8";
  event.coll.channels = 8;
  event.coll.algorithm = "RING";
  event.coll.protocol = "SIMPLE";
  return event;
}

TEST_F(OldNcclTest, Versions2And3CountSequencesDifferently) {
  void* two = Init(ncclProfiler_v2);
  void* three = Init(ncclProfiler_v3);
  Begin();
  Emit(ncclProfiler_v2, two, AllGatherOfTexts<nccl::EventDescriptorV2>());
  ring::CollectiveRecord r = OnlyCollective();
  EXPECT_EQ(r.header.flags, ring::kSequenceIsLocal);
  EXPECT_EQ(daemon_.strings[r.protocol], "SIMPLE");
  EXPECT_EQ(r.channels, 8u);
  Emit(ncclProfiler_v3, three, AllGatherOfTexts<nccl::EventDescriptorV3>());
  r = OnlyCollective();
  EXPECT_EQ(r.header.flags, 0) << "from NCCL 2.26 on it advances without events too";
  EXPECT_EQ(r.sequence, 7u);
  EXPECT_EQ(r.root, -1);
  EXPECT_EQ(daemon_.strings[r.algorithm], "RING");
  EXPECT_EQ(r.channels, 8u);
  End();
}

TEST_F(OldNcclTest, WithoutAPlaceTheDescriptorNamesTheCommunicator) {
  for (int i = 0; i < 512; ++i) EXPECT_NE(Init(ncclProfiler_v2), nullptr);
  void* context = Init(ncclProfiler_v2);
  EXPECT_EQ(context, nullptr);
  Begin();
  Emit(ncclProfiler_v2, context, AllGatherOfTexts<nccl::EventDescriptorV2>());
  End();
  EXPECT_EQ(OnlyCollective().comm, 0xDEFu);
}

TEST_F(OldNcclTest, TheOperationOfVersion3CountsItsBytesItself) {
  void* context = Init(ncclProfiler_v3);
  Begin(ring::kDefaultActivities | ring::kActivityNcclProxy);
  auto event = Garbage<nccl::EventDescriptorV3>(nccl::kEventProxyOp);
  event.proxy_op = {::getpid(), 2, 9, 4, 1024, 1};
  void* op = Start(ncclProfiler_v3, context, event);
  for (size_t sum : {1024u, 2048u, 3000u}) {
    nccl::EventStateArgsOld args{};
    args.transferred_bytes = sum;
    ncclProfiler_v3.record_event_state(op, static_cast<nccl::EventState>(nccl::kProxyOpSendTransmitted),
                                       &args);
  }
  ncclProfiler_v3.stop_event(op);
  End();
  const auto ops = daemon_.DrainOnly<ring::ProxyOpRecord>(RecordKind::kProxyOp);
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].bytes, 3000u);
  EXPECT_EQ(ops[0].peer, 9);
  EXPECT_EQ(ops[0].header.flags, ring::kProxySend);
}

}  // namespace
}  // namespace lockstep::client
