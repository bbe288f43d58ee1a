// Joins of NCCL's descriptions to kernels, from rows as records hold them.
#include "capture/store/records_join.h"

#include <gtest/gtest.h>

#include "capture/store/records_timings.h"

namespace lockstep::capture {
namespace {

constexpr uint64_t kComm = 0xABC;
constexpr char kAllReduceKernel[] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
constexpr char kAllGatherKernel[] = "ncclDevKernel_AllGather_RING_LL";
constexpr char kSendRecvKernel[] = "ncclDevKernel_SendRecv";

class JoinTest : public testing::Test {
 protected:
  JoinTest() { capture_.strings.Intern(""); }

  uint32_t Kernel(const char* name, uint32_t correlation, int64_t start = 1000, uint32_t device = 0) {
    DeviceActivity a;
    a.start = HostTime(start);
    a.end = HostTime(start + 500);
    a.name = capture_.strings.Intern(name);
    a.correlation = CorrelationId(correlation);
    tables_.data.activities.push_back(a);
    tables_.device.push_back(device);
    return static_cast<uint32_t>(tables_.data.activities.size() - 1);
  }
  void Pushed(uint64_t serial, uint32_t correlation) {
    tables_.launches.emplace_back(serial, CorrelationId(correlation));
  }
  NcclRow& FromNvtx(CollectiveOp op, uint64_t launch, uint64_t bytes, uint64_t comm = kComm) {
    NcclRow row;
    row.comm = comm;
    row.op = op;
    row.launch = launch;
    row.bytes = bytes;
    row.from_nvtx = true;
    row.local_sequence = true;
    return tables_.nccl.emplace_back(row);
  }
  uint64_t Join() {
    groups_ = MakeGroups({tables_}, {RankId(0)}, capture_);
    return JoinCollectives(groups_, capture_.strings, tables_);
  }
  std::vector<uint32_t> Activities() const {
    std::vector<uint32_t> activities;
    for (const Collective& c : tables_.data.collectives) activities.push_back(c.activity);
    return activities;
  }

  Capture capture_;
  ProcessTables tables_;
  GroupIndex groups_;
};

TEST_F(JoinTest, JoinsAnNvtxCallToItsCommunicationKernel) {
  Kernel("memset_kernel", 1);
  const uint32_t nccl = Kernel(kAllReduceKernel, 2);
  for (uint32_t correlation : {1u, 2u, 3u})
    Pushed(7, correlation);  // 3 has no kernel: it is the record of an event
  NcclRow& row = FromNvtx(CollectiveOp::kAllReduce, 7, 4096);
  row.reduction = capture_.strings.Intern("Max");
  EXPECT_EQ(Join(), 0u);
  ASSERT_EQ(Activities(), std::vector<uint32_t>{nccl});
  const Collective& c = tables_.data.collectives[0];
  EXPECT_EQ(c.bytes, 4096);
  EXPECT_EQ(c.source, MatchSource::kOrder) << "NVTX gives no number that ranks share";
  EXPECT_EQ(c.sequence, -1);
  EXPECT_EQ(capture_.Text(c.reduction), "Max");
  EXPECT_EQ(capture_.groups[c.group].key, "0000000000000abc");
}

TEST_F(JoinTest, JoinsManyCallsOfAGroupToOneKernel) {
  Kernel(kAllReduceKernel, 1);
  Pushed(7, 1);
  for (uint64_t bytes : {8u, 16u, 32u}) FromNvtx(CollectiveOp::kAllReduce, 7, bytes);
  EXPECT_EQ(Join(), 0u);
  EXPECT_EQ(Activities(), (std::vector<uint32_t>{0, 0, 0}));
}

TEST_F(JoinTest, KernelNamesDistinguishCallsOfDifferentOperations) {
  const uint32_t gather = Kernel(kAllGatherKernel, 2);
  const uint32_t reduce = Kernel(kAllReduceKernel, 1);
  const uint32_t messages = Kernel(kSendRecvKernel, 3);
  for (uint32_t correlation : {1u, 2u, 3u}) Pushed(7, correlation);
  FromNvtx(CollectiveOp::kAllReduce, 7, 8);
  FromNvtx(CollectiveOp::kAllGather, 7, 8);
  FromNvtx(CollectiveOp::kSend, 7, 8);
  FromNvtx(CollectiveOp::kReceive, 7, 8);
  EXPECT_EQ(Join(), 0u);
  EXPECT_EQ(Activities(), (std::vector<uint32_t>{reduce, gather, messages, messages}));
}

TEST_F(JoinTest, OrderDistinguishesEqualCallsOnly) {
  const uint32_t second = Kernel(kAllReduceKernel, 9);
  const uint32_t first = Kernel(kAllReduceKernel, 4);
  Pushed(7, 4);
  Pushed(7, 9);
  FromNvtx(CollectiveOp::kAllReduce, 7, 64);
  FromNvtx(CollectiveOp::kAllReduce, 7, 64);
  EXPECT_EQ(Join(), 0u);
  EXPECT_EQ(Activities(), (std::vector<uint32_t>{first, second}));

  tables_.data.collectives.clear();
  tables_.nccl[1].bytes = 128;  // NCCL may launch the larger one first
  EXPECT_EQ(Join(), 2u);
  EXPECT_TRUE(Activities().empty());
}

TEST_F(JoinTest, OperationsWithoutACommunicatorHaveNoGroup) {
  Kernel(kAllReduceKernel, 1);
  Pushed(7, 1);
  FromNvtx(CollectiveOp::kAllReduce, 7, 8, /*comm=*/0);
  EXPECT_EQ(Join(), 0u);
  ASSERT_EQ(tables_.data.collectives.size(), 1u);
  EXPECT_EQ(tables_.data.collectives[0].group, kNone);
  EXPECT_EQ(tables_.data.collectives[0].bytes, 8);
  EXPECT_TRUE(capture_.groups.empty());
}

TEST_F(JoinTest, DoesNotMatchByASequenceThatOnlyOneRankCounts) {
  Kernel(kAllReduceKernel, 1);
  Pushed(7, 1);
  NcclRow row;
  row.comm = kComm;
  row.launch = 7;
  row.sequence = 12;
  row.count = 3;
  row.datatype = capture_.strings.Intern("ncclFloat32");
  row.local_sequence = true;
  tables_.nccl.push_back(row);
  EXPECT_EQ(Join(), 0u);
  ASSERT_EQ(tables_.data.collectives.size(), 1u);
  EXPECT_EQ(tables_.data.collectives[0].source, MatchSource::kOrder);
  EXPECT_EQ(tables_.data.collectives[0].bytes, 12);
}

TEST_F(JoinTest, AnOperationOnTheCopyEnginesHasItsLongestCopy) {
  const auto copy = [&](uint32_t correlation, int64_t length) {
    const uint32_t at = Kernel("", correlation);
    tables_.data.activities[at].kind = ActivityKind::kMemcpy;
    tables_.data.activities[at].end = tables_.data.activities[at].start + Nanos(length);
    return at;
  };
  copy(4, 100);
  const uint32_t longest = copy(4, 300);
  copy(4, 200);
  const uint32_t other = copy(9, 800);                                     // the application's own
  for (const uint32_t correlation : {3u, 4u, 5u}) Pushed(7, correlation);  // 3 and 5 synchronize the ranks
  NcclRow row;
  row.comm = kComm;
  row.op = CollectiveOp::kAllGather;
  row.launch = 7;
  row.sequence = 12;
  row.count = 3;
  row.datatype = capture_.strings.Intern("ncclFloat32");
  tables_.nccl.push_back(row);
  EXPECT_EQ(Join(), 0u);
  ASSERT_EQ(Activities(), std::vector<uint32_t>{longest});
  EXPECT_EQ(tables_.data.collectives[0].source, MatchSource::kCopyEngine);
  EXPECT_EQ(tables_.data.collectives[0].sequence, -1) << "kernels have the same numbers";
  EXPECT_EQ(tables_.data.collectives[0].bytes, 12);
  EXPECT_EQ(tables_.data.collectives[0].op, CollectiveOp::kAllGather);
  for (uint32_t i = 0; i < other; ++i) EXPECT_TRUE(tables_.data.activities[i].communication) << i;
  EXPECT_FALSE(tables_.data.activities[other].communication);
}

TEST_F(JoinTest, CopiesOfSeveralCallsBelongToNone) {
  tables_.data.activities[Kernel("", 4)].kind = ActivityKind::kMemcpy;
  Pushed(7, 4);
  FromNvtx(CollectiveOp::kAllGather, 7, 8);
  EXPECT_EQ(Join(), 0u);
  EXPECT_EQ(Activities(), std::vector<uint32_t>{0});
  tables_.data.collectives.clear();
  FromNvtx(CollectiveOp::kAllToAll, 7, 8);
  EXPECT_EQ(Join(), 0u);
  EXPECT_TRUE(Activities().empty());
}

TEST_F(JoinTest, MapsChannelTimesByTheMedianKernel) {
  // Kernel i starts at 10'000 * i on the host, and 5'000 less plus some jitter on the GPU's timer.
  for (uint32_t i = 1; i <= 5; ++i) {
    Kernel(kAllReduceKernel, i, 10'000 * i);
    Pushed(i + 10, i);
    FromNvtx(CollectiveOp::kAllReduce, i + 10, 8).operation = 100 + i;
    const uint64_t jitter = i == 5 ? 900 : i;
    for (uint32_t channel = 0; channel < 2; ++channel) {
      ChannelRow row;
      row.start = HostTime(77);
      row.end = HostTime(78);
      row.gpu_start = 10'000 * i - 5'000 + jitter + 50 * channel;
      row.gpu_length = 400 + channel;
      row.operation = 100 + i;
      row.channel = channel;
      tables_.channels.push_back(row);
    }
  }
  ChannelRow unknown = tables_.channels[0];
  unknown.operation = 999;
  tables_.channels.push_back(unknown);
  Join();
  const GpuTimers timers = JoinTimings(groups_, tables_);
  ASSERT_EQ(timers.size(), 1u);
  EXPECT_EQ(timers.at(0).offset, Nanos(4997)) << "the median of 4999, 4998, 4997, 4996 and 4100";
  EXPECT_EQ(timers.at(0).spread, Nanos(1));
  EXPECT_EQ(timers.at(0).kernels, 5u);
  const auto& timings = tables_.data.channel_timings;
  ASSERT_EQ(timings.size(), 11u);
  EXPECT_EQ(timings[0].start, HostTime(10'000 - 2));
  EXPECT_EQ(timings[1].end - timings[1].start, Nanos(401));
  EXPECT_TRUE(timings[1].on_gpu_clock);
  EXPECT_FALSE(timings[10].on_gpu_clock) << "of no operation in the capture";
  EXPECT_EQ(timings[10].start, HostTime(77));
}

TEST_F(JoinTest, NetworkOperationsHaveTheirGroup) {
  FromNvtx(CollectiveOp::kSend, 0, 8);
  ProxyRow row;
  row.comm = kComm;
  row.op.peer = 3;
  row.op.network_wait = Nanos(9);
  tables_.proxy_ops.push_back(row);
  row.comm = 0;
  tables_.proxy_ops.push_back(row);
  Join();
  EXPECT_TRUE(JoinTimings(groups_, tables_).empty());
  ASSERT_EQ(tables_.data.proxy_ops.size(), 2u);
  EXPECT_EQ(tables_.data.proxy_ops[0].group, 0u);
  EXPECT_EQ(tables_.data.proxy_ops[0].network_wait, Nanos(9));
  EXPECT_EQ(tables_.data.proxy_ops[1].group, kNone);
}

}  // namespace
}  // namespace lockstep::capture
