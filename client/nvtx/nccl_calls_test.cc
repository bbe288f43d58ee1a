// Pushes NCCL's ranges and payloads through NVTX's tables, like libnccl, and reads the records back.
#include "client/nvtx/nccl_calls.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/nccl/nccl_fixture.h"

namespace lockstep::client {
namespace {

using ring::RecordKind;
using F = NvtxPayload::Field;

class NcclCallsTest : public NcclTest {
 protected:
  static NvtxPayload Payload(const std::vector<std::pair<F, int64_t>>& fields) {
    NvtxPayload payload;
    for (const auto& [field, value] : fields) {
      payload.known |= 1u << field;
      payload.values[field] = value;
    }
    return payload;
  }
  void BeginCalls() {
    flags_.nvtx = capture_ + 1;
    Begin();
  }
  void Push(const char* name, const NvtxPayload& payload = {}) {
    calls_->OnPush({name, std::strlen(name)}, payload);
  }
  void AllReduceCall(int64_t comm, int64_t bytes, int64_t op = 0) {
    Push("ncclAllReduce", Payload({{F::kCommunicator, comm}, {F::kBytes, bytes}, {F::kReduction, op}}));
  }
  template <typename Record>
  void Take(RecordKind kind, std::vector<Record>* to) {
    for (const auto& record : drained_) {
      if (record.header.kind == kind) to->push_back(record.as<Record>());
    }
  }
  void Drain() {
    drained_ = daemon_.Drain();
    collectives_.clear();
    messages_.clear();
    communicators_.clear();
    Take(RecordKind::kCollective, &collectives_);
    Take(RecordKind::kPointToPoint, &messages_);
    Take(RecordKind::kCommunicator, &communicators_);
  }

  std::unique_ptr<NcclCalls> calls_ =
      std::make_unique<NcclCalls>(flags_, recorder_, clock_, window_, *source_);
  std::vector<DaemonEnd::Record> drained_;
  std::vector<ring::CollectiveRecord> collectives_;
  std::vector<ring::PointToPointRecord> messages_;
  std::vector<ring::CommunicatorRecord> communicators_;
};

TEST_F(NcclCallsTest, ACallWithoutThePluginRecordsACollectiveAndItsLaunch) {
  BeginCalls();
  AllReduceCall(0xABC, 4096, 2);
  const std::vector<uint64_t> pushed = cupti_.pushed;
  calls_->OnPop();
  EXPECT_TRUE(cupti_.pushed.empty());
  Push("ncclBroadcast", Payload({{F::kCommunicator, 0xABC}, {F::kBytes, 8}, {F::kRoot, 3}}));
  calls_->OnPop();
  End();
  Drain();
  ASSERT_EQ(collectives_.size(), 2u);
  const auto& r = collectives_[0];
  EXPECT_EQ(r.header.flags, ring::kFromNvtx);
  EXPECT_EQ(r.comm, 0xABCu);
  EXPECT_EQ(r.bytes, 4096u);
  EXPECT_EQ(daemon_.strings[r.function], "AllReduce");
  EXPECT_EQ(daemon_.strings[r.reduction], "Max");
  EXPECT_EQ(r.root, -1);
  ASSERT_EQ(pushed.size(), 1u);
  EXPECT_EQ(r.launch, pushed[0]);
  EXPECT_EQ(collectives_[1].root, 3);
  EXPECT_EQ(collectives_[1].reduction, 0u);
  EXPECT_NE(collectives_[1].launch, r.launch);
}

TEST_F(NcclCallsTest, CallsOfAGroupHaveTheLaunchOfItsEnd) {
  BeginCalls();
  Push("ncclGroupStart");
  calls_->OnPop();
  for (int i = 0; i < 3; ++i) {
    AllReduceCall(1, 100 + i);
    EXPECT_TRUE(cupti_.pushed.empty()) << "the group's kernels come later";
    calls_->OnPop();
  }
  Push("ncclSend", Payload({{F::kCommunicator, 1}, {F::kBytes, 64}, {F::kPeer, 5}}));
  calls_->OnPop();
  Push("ncclGroupEnd");
  const std::vector<uint64_t> pushed = cupti_.pushed;
  calls_->OnPop();
  EXPECT_TRUE(cupti_.pushed.empty());
  AllReduceCall(1, 7);
  calls_->OnPop();
  End();
  Drain();
  ASSERT_EQ(pushed.size(), 1u);
  ASSERT_EQ(collectives_.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(collectives_[i].launch, pushed[0]);
  EXPECT_NE(collectives_[3].launch, pushed[0]);
  ASSERT_EQ(messages_.size(), 1u);
  EXPECT_EQ(messages_[0].launch, pushed[0]);
  EXPECT_EQ(messages_[0].header.flags, ring::kFromNvtx | ring::kP2pSend);
  EXPECT_EQ(messages_[0].bytes, 64u);
  EXPECT_EQ(messages_[0].peer, 5);
}

TEST_F(NcclCallsTest, GroupsNestAndAnEmptyGroupLaunchesNothing) {
  BeginCalls();
  for (const char* name : {"ncclGroupStart", "ncclGroupStart", "ncclGroupEnd"}) {
    Push(name);
    EXPECT_TRUE(cupti_.pushed.empty()) << name;
    calls_->OnPop();
  }
  Push("ncclGroupEnd");
  EXPECT_TRUE(cupti_.pushed.empty());
  calls_->OnPop();
  // This end belongs to a group that started before tracking.
  Push("ncclGroupEnd");
  calls_->OnPop();
  calls_->OnPop();
  AllReduceCall(1, 7);
  EXPECT_EQ(cupti_.pushed.size(), 1u);
  calls_->OnPop();
  EXPECT_TRUE(cupti_.pushed.empty());
  End();
}

TEST_F(NcclCallsTest, BeforeNccl225ThereAreBytesAndNoCommunicator) {
  BeginCalls();
  Push("ncclAllGather", Payload({{F::kBytes, 512}}));
  calls_->OnPop();
  End();
  Drain();
  ASSERT_EQ(collectives_.size(), 1u);
  EXPECT_EQ(collectives_[0].comm, 0u);
  EXPECT_EQ(collectives_[0].bytes, 512u);
}

TEST_F(NcclCallsTest, WithThePluginOnlyTheReductionIsRead) {
  void* context = Init(0xABC);
  BeginCalls();
  AllReduceCall(0xABC, 2000, 4);
  EXPECT_TRUE(cupti_.pushed.empty()) << "the plugin marks the launch";
  Collective(context, AllReduce(7, 1000));  // bfloat16: 2000 bytes
  calls_->OnPop();
  Collective(context, AllReduce(8, 1000));  // a launch that NVTX did not show
  End();
  Drain();
  ASSERT_EQ(collectives_.size(), 2u);
  EXPECT_EQ(collectives_[0].header.flags, 0);
  EXPECT_EQ(collectives_[0].sequence, 7u);
  EXPECT_EQ(daemon_.strings[collectives_[0].reduction], "Avg");
  EXPECT_EQ(collectives_[1].reduction, 0u);
}

TEST_F(NcclCallsTest, InAGroupAReductionGoesToTheOperationOfItsSizeAndCommunicator) {
  void* context = Init(0xABC);
  BeginCalls();
  Push("ncclGroupStart");
  calls_->OnPop();
  AllReduceCall(0xABC, 2000, 0);
  calls_->OnPop();
  AllReduceCall(0xABC, 20, 3);
  calls_->OnPop();
  AllReduceCall(0xDEF, 20, 1);
  calls_->OnPop();
  Push("ncclGroupEnd");
  Collective(context, AllReduce(1, 10));  // NCCL's order differs from the order of the calls
  Collective(context, AllReduce(2, 1000));
  calls_->OnPop();
  End();
  Drain();
  ASSERT_EQ(collectives_.size(), 2u);
  EXPECT_EQ(daemon_.strings[collectives_[0].reduction], "Min");
  EXPECT_EQ(daemon_.strings[collectives_[1].reduction], "Sum");
}

TEST_F(NcclCallsTest, ACaptureRecordsCommunicatorsCreatedWhileIdle) {
  calls_->OnPopPayload(Payload({{F::kCommunicator, 7}, {F::kRanks, 8}, {F::kRank, 3}, {F::kDevice, 2}}));
  calls_->OnPopPayload(Payload({{F::kCommunicator, 7}, {F::kRanks, 8}, {F::kRank, 3}, {F::kDevice, 2}}));
  // A split has its parent's ranks, and a failed init has no id.
  calls_->OnPopPayload(Payload({{F::kCommunicator, 9}, {F::kParent, 7}, {F::kRanks, 8}, {F::kRank, 3}}));
  calls_->OnPopPayload(Payload({{F::kCommunicator, 0}, {F::kRanks, 8}, {F::kRank, 3}}));
  BeginCalls();
  ThreadSlot* slot = recorder_.Enter();
  calls_->WriteCommunicators(*slot);
  recorder_.Leave(*slot);
  calls_->OnPopPayload(Payload({{F::kCommunicator, 8}, {F::kRanks, 2}, {F::kRank, 0}}));
  End();
  Drain();
  ASSERT_EQ(communicators_.size(), 2u);
  EXPECT_EQ(communicators_[0].comm, 7u);
  EXPECT_EQ(communicators_[0].rank, 3);
  EXPECT_EQ(communicators_[0].ranks, 8);
  EXPECT_EQ(communicators_[0].device_plus_1, 3u);
  EXPECT_EQ(communicators_[1].comm, 8u);
  EXPECT_EQ(communicators_[1].device_plus_1, 0u) << "unknown";
}

TEST_F(NcclCallsTest, PopsCorrelationsThatTheLastCaptureLeft) {
  BeginCalls();
  AllReduceCall(1, 7);
  flags_.nvtx = 0;
  End();
  calls_->OnPop();  // too late: the capture has ended
  EXPECT_EQ(cupti_.pushed.size(), 1u);
  BeginCalls();
  AllReduceCall(1, 8);
  EXPECT_EQ(cupti_.pushed.size(), 1u) << "its own, and no other below it";
  calls_->OnPop();
  EXPECT_TRUE(cupti_.pushed.empty());
  End();
}

TEST_F(NcclCallsTest, RecordsNothingWhileIdleOrWithoutRanges) {
  AllReduceCall(1, 7);
  calls_->OnPop();
  Begin();  // NCCL without NVTX
  AllReduceCall(1, 7);
  calls_->OnPop();
  End();
  Drain();
  EXPECT_TRUE(drained_.empty());
  EXPECT_EQ(daemon_.LostInAll(), 0u);
}

}  // namespace
}  // namespace lockstep::client
