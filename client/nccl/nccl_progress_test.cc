// Calls the profiler plugin like NCCL, without a capture, and reads the progress table and the operation log
// as the daemon does.
#include "client/nccl/nccl_progress.h"

#include <gtest/gtest.h>

#include <vector>

#include "client/nccl/nccl_fixture.h"
#include "wire/ring/progress_reader.h"

namespace lockstep::client {
namespace {

using ring::CommunicatorProgress;
using ring::OperationProgress;
using ring::RecordKind;

class ProgressOfNcclTest : public NcclTest {
 protected:
  ProgressOfNcclTest() {
    source_->progress().TurnOn(kSystemTiming);
    source_->progress().Attach(client_.progress(), client_.progress_slots());
    log_.Attach(&client_);
  }

  static nccl::EventDetail Api(const char* function, size_t count) {
    nccl::EventDetail detail{};
    detail.coll_api = {function, count, "ncclFloat32", 0, nullptr, false};
    return detail;
  }
  // Enters and launches an operation, as NCCL 2.28 does. Returns the handle of its channels' parent.
  void* Launch(void* context, size_t count) {
    Stop(Start(context, nccl::kEventCollApi, Api("AllReduce", count)));
    void* handle = Start(context, nccl::kEventColl, AllReduce(next_++, count));
    Stop(handle);
    return handle;
  }
  std::vector<CommunicatorProgress> Read() { return ring::ReadProgress(daemon_.segment); }
  CommunicatorProgress Only() {
    const std::vector<CommunicatorProgress> read = Read();
    EXPECT_EQ(read.size(), 1u);
    return read.empty() ? CommunicatorProgress() : read.front();
  }

  ring::OperationLog Log() { return ring::ReadLog(daemon_.segment, HostTime()); }

  uint64_t next_ = 1;
};

TEST_F(ProgressOfNcclTest, NcclReportsEventsWithoutACapture) {
  Init(1);
  const int32_t without = mask_;
  EXPECT_EQ(without, 1 | 2 | 4 | 64 | 256 | 512 | 1024 | 4096);
  Begin();
  EXPECT_EQ(mask_, without | 2048);
  End();
  EXPECT_EQ(mask_, without);
}

TEST_F(ProgressOfNcclTest, FollowsAnOperationThroughItsStages) {
  void* context = Init(0xABC, "tensor_parallel", 8, 3);
  EXPECT_EQ(Only().communicator, 0xABCu);
  EXPECT_EQ(Only().name, "tensor_parallel");
  EXPECT_EQ(Only().ranks, 8);
  EXPECT_EQ(Only().rank, 3);
  EXPECT_TRUE(Only().operations.empty());

  Stop(Start(context, nccl::kEventCollApi, Api("AllReduce", 100)));
  ASSERT_EQ(Only().operations.size(), 1u);
  OperationProgress operation = Only().operations[0];
  EXPECT_EQ(operation.number, 1u);
  EXPECT_EQ(operation.function, "AllReduce");
  EXPECT_EQ(operation.datatype, "ncclFloat32");
  EXPECT_EQ(operation.count, 100u);
  EXPECT_GT(operation.entered, HostTime());
  EXPECT_EQ(operation.launched, HostTime());

  void* handle = Start(context, nccl::kEventColl, AllReduce(41, 100));
  operation = Only().operations.at(0);
  EXPECT_GE(operation.launched, operation.entered);
  EXPECT_EQ(operation.started, HostTime());

  void* first = Start(context, nccl::kEventKernelChannel, {}, handle);
  void* second = Start(context, nccl::kEventKernelChannel, {}, handle);
  EXPECT_GE(Only().operations.at(0).started, operation.launched);
  Stop(first);
  EXPECT_EQ(Only().operations.at(0).completed, HostTime()) << "one channel is open";
  Stop(second);
  EXPECT_GE(Only().operations.at(0).completed, operation.launched);
  EXPECT_EQ(Only().collectives_entered, 1u);
}

TEST_F(ProgressOfNcclTest, KeepsTheLatestOperations) {
  void* context = Init(1);
  std::vector<void*> handles;
  for (int i = 0; i < 300; ++i) handles.push_back(Launch(context, static_cast<size_t>(i)));
  // The place of the first operation was reused.
  Stop(Start(context, nccl::kEventKernelChannel, {}, handles[0]));
  const CommunicatorProgress read = Only();
  EXPECT_EQ(read.collectives_entered, 300u);
  ASSERT_EQ(read.operations.size(), ring::kProgressOperations);
  EXPECT_EQ(read.operations.front().number, 300u - ring::kProgressOperations + 1);
  EXPECT_EQ(read.operations.back().count, 299u);
  for (const OperationProgress& operation : read.operations) EXPECT_EQ(operation.started, HostTime());
}

TEST_F(ProgressOfNcclTest, InAGroupEachLaunchFindsItsCall) {
  void* context = Init(1);
  nccl::EventDetail broadcast = Api("Broadcast", 7);
  Stop(Start(context, nccl::kEventCollApi, Api("AllReduce", 5)));
  Stop(Start(context, nccl::kEventCollApi, broadcast));
  Stop(Start(context, nccl::kEventCollApi, Api("AllReduce", 6)));
  Start(context, nccl::kEventColl, AllReduce(1, 5));
  std::vector<OperationProgress> operations = Only().operations;
  ASSERT_EQ(operations.size(), 3u);
  EXPECT_NE(operations[0].launched, HostTime());
  EXPECT_EQ(operations[1].launched, HostTime());
  EXPECT_EQ(operations[2].launched, HostTime());
}

TEST_F(ProgressOfNcclTest, ACallThatIsNeverLaunchedKeepsItsPlace) {
  void* context = Init(1);
  // A CUDA graph captures it.
  Stop(Start(context, nccl::kEventCollApi, Api("Broadcast", 7)));
  for (int i = 0; i < 3; ++i) Launch(context, 5);
  const std::vector<OperationProgress> operations = Only().operations;
  ASSERT_EQ(operations.size(), 4u);
  EXPECT_EQ(operations[0].launched, HostTime());
  for (size_t i = 1; i < 4; ++i) EXPECT_NE(operations[i].launched, HostTime());
  for (uint32_t i = 0; i < ring::kProgressOperations; ++i) Launch(context, 5);
  for (const OperationProgress& operation : Only().operations) EXPECT_NE(operation.launched, HostTime());
}

TEST_F(ProgressOfNcclTest, AMessageHasAPeerAndNoNumber) {
  void* context = Init(1);
  nccl::EventDetail api{};
  api.p2p_api = {"Send", 100, "ncclFloat32", nullptr, false};
  Stop(Start(context, nccl::kEventP2pApi, api));
  EXPECT_EQ(Only().operations.at(0).peer, -1);
  Start(context, nccl::kEventP2p, Peer("Send", 5));
  const OperationProgress message = Only().operations.at(0);
  EXPECT_EQ(message.number, 0u);
  EXPECT_EQ(message.peer, 5);
  EXPECT_EQ(message.function, "Send");
  EXPECT_NE(message.launched, HostTime());
  EXPECT_EQ(Only().collectives_entered, 0u);
}

TEST_F(ProgressOfNcclTest, ACaptureRecordsNoMoreThanItRequests) {
  void* context = Init(1);
  Begin();
  void* handle = Launch(context, 5);
  void* channel = Start(context, nccl::kEventKernelChannel, {}, handle);
  Stop(channel);
  End();
  EXPECT_NE(Only().operations.at(0).completed, HostTime());
  size_t collectives = 0;
  for (const DaemonEnd::Record& record : daemon_.Drain()) {
    EXPECT_NE(record.header.kind, RecordKind::kKernelChannel);
    collectives += record.header.kind == RecordKind::kCollective;
  }
  EXPECT_EQ(collectives, 1u);
}

TEST_F(ProgressOfNcclTest, RecordedChannelsBelongToTheirOperation) {
  void* context = Init(1);
  Begin(ring::kDefaultActivities | ring::kActivityNcclKernelTimes);
  void* handle = Launch(context, 5);
  void* channel = Start(context, nccl::kEventKernelChannel, {}, handle);
  EXPECT_NE(Only().operations.at(0).started, HostTime());
  Stop(channel);
  EXPECT_NE(Only().operations.at(0).completed, HostTime());
  End();
  uint64_t collective = 0;
  uint64_t of_channel = 1;
  for (const DaemonEnd::Record& record : daemon_.Drain()) {
    if (record.header.kind == RecordKind::kCollective)
      collective = record.as<ring::CollectiveRecord>().operation;
    if (record.header.kind == RecordKind::kKernelChannel)
      of_channel = record.as<ring::KernelChannelRecord>().operation;
  }
  EXPECT_EQ(of_channel, collective);
}

TEST_F(ProgressOfNcclTest, ANewDaemonReceivesWhatWasBefore) {
  void* context = Init(7, "world", 8, 3);
  void* handle = Launch(context, 5);
  DaemonEnd later;
  ring::ClientSegment segment;
  ASSERT_EQ(segment.Attach(later.segment.fd(), later.segment.bytes()), ring::AttachError::kNone);
  source_->progress().Attach(segment.progress(), segment.progress_slots());
  Start(context, nccl::kEventKernelChannel, {}, handle);
  const std::vector<CommunicatorProgress> read = ring::ReadProgress(later.segment);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].name, "world");
  ASSERT_EQ(read[0].operations.size(), 1u);
  EXPECT_NE(read[0].operations[0].started, HostTime());
  EXPECT_EQ(Only().operations.at(0).started, HostTime()) << "the old one is left alone";
  source_->progress().Attach(nullptr, 0);
  Launch(context, 6);
  segment.Detach();
}

TEST_F(ProgressOfNcclTest, ADestroyedCommunicatorLeavesTheTable) {
  void* context = Init(1);
  EXPECT_EQ(ncclProfiler_v5.finalize(context), nccl::Result::kSuccess);
  EXPECT_TRUE(Read().empty());
  Init(2);
  EXPECT_EQ(Only().communicator, 2u);
  EXPECT_TRUE(Only().operations.empty());
}

TEST_F(ProgressOfNcclTest, ACommunicatorBeyondTheTableIsNotFollowed) {
  void* last = nullptr;
  for (uint32_t i = 0; i <= ring::kProgressSlots; ++i) last = Init(i + 1);
  Stop(Launch(last, 5));
  EXPECT_EQ(Read().size(), ring::kProgressSlots);
}

TEST_F(ProgressOfNcclTest, TheLogHasMoreThanTheTable) {
  void* context = Init(0xABC);
  for (size_t i = 0; i < 300; ++i) {
    void* handle = Launch(context, i);
    void* channel = Start(context, nccl::kEventKernelChannel, {}, handle);
    Stop(channel);
  }
  const ring::OperationLog log = Log();
  ASSERT_EQ(log.operations.size(), 300u);
  for (size_t i = 0; i < 300; ++i) {
    const OperationProgress& operation = log.operations[i].operation;
    EXPECT_EQ(log.operations[i].communicator, 0xABCu);
    EXPECT_EQ(operation.number, i + 1);
    EXPECT_EQ(operation.count, i);
    EXPECT_EQ(operation.function, "AllReduce");
    EXPECT_GE(operation.launched, operation.entered);
    EXPECT_GE(operation.started, operation.launched);
    EXPECT_GE(operation.completed, operation.started);
  }
}

TEST_F(ProgressOfNcclTest, ALateChannelDoesNotChangeTheLogOfANewerOperation) {
  void* context = Init(1);
  void* first = Launch(context, 5);
  for (uint32_t i = 0; i < ring::kProgressOperations; ++i) Launch(context, 5);
  Stop(Start(context, nccl::kEventKernelChannel, {}, first));
  for (const ring::LoggedOperation& logged : Log().operations)
    EXPECT_EQ(logged.operation.started, HostTime()) << logged.operation.position;
}

TEST_F(ProgressOfNcclTest, TheLogNumbersMessagesPerPairAndDirection) {
  void* context = Init(1);
  for (const auto& [function, peer] : {std::pair("Send", 5), {"Send", 6}, {"Recv", 5}, {"Send", 5}}) {
    nccl::EventDetail api{};
    api.p2p_api = {function, 100, "ncclFloat32", nullptr, false};
    Stop(Start(context, nccl::kEventP2pApi, api));
    Start(context, nccl::kEventP2p, Peer(function, peer));
  }
  std::vector<uint64_t> numbers;
  for (const ring::LoggedOperation& logged : Log().operations) numbers.push_back(logged.message_number);
  EXPECT_EQ(numbers, (std::vector<uint64_t>{0, 0, 0, 1}));
}

TEST_F(ProgressOfNcclTest, TheLogKnowsAnEndedCommunicatorUntilItsPlaceIsNeeded) {
  void* context = Init(7, "pipeline");
  Launch(context, 5);
  ncclProfiler_v5.finalize(context);
  Init(8, "world");
  EXPECT_EQ(Read().size(), 1u);
  ring::OperationLog log = Log();
  ASSERT_EQ(log.communicators.size(), 2u);
  EXPECT_EQ(log.communicators[0].name, "pipeline");
  for (uint32_t i = 1; i < ring::kProgressSlots; ++i) Init(100 + i);
  log = Log();
  ASSERT_EQ(log.communicators.size(), ring::kProgressSlots);
  EXPECT_NE(log.communicators[0].name, "pipeline");
}

TEST_F(ProgressOfNcclTest, ANewDaemonsLogBeginsEmpty) {
  void* context = Init(1);
  void* handle = Launch(context, 5);
  DaemonEnd later;
  ring::ClientSegment segment;
  ASSERT_EQ(segment.Attach(later.segment.fd(), later.segment.bytes()), ring::AttachError::kNone);
  log_.Attach(&segment);
  Stop(Start(context, nccl::kEventKernelChannel, {}, handle));
  EXPECT_TRUE(ring::ReadLog(later.segment, HostTime()).operations.empty());
  Launch(context, 6);
  const ring::OperationLog log = ring::ReadLog(later.segment, HostTime());
  ASSERT_EQ(log.operations.size(), 1u);
  EXPECT_NE(log.complete_since, HostTime()) << "what came before is not in it";
  log_.Attach(nullptr);
  Launch(context, 7);
  segment.Detach();
}

TEST_F(ProgressOfNcclTest, AnOlderNcclNamesItsCommunicatorLater) {
  void* context = nullptr;
  ASSERT_EQ(ncclProfiler_v3.init(&context, &mask_), nccl::Result::kSuccess);
  EXPECT_TRUE(Read().empty());
  nccl::EventDescriptorV3 event{};
  event.type = static_cast<uint8_t>(nccl::kEventColl);
  event.rank = 2;
  event.coll.name = "world";
  event.coll.comm = 0xABC;
  event.coll.function = "AllReduce";
  event.coll.count = 5;
  void* handle = nullptr;
  ASSERT_EQ(ncclProfiler_v3.start_event(context, &handle, &event), nccl::Result::kSuccess);
  EXPECT_EQ(Only().communicator, 0xABCu);
  EXPECT_EQ(Only().rank, 2);
  EXPECT_EQ(Only().ranks, 0);
  EXPECT_FALSE(Only().reports_kernels);
  EXPECT_EQ(Only().operations.at(0).number, 1u);
  EXPECT_NE(Only().operations.at(0).launched, HostTime());
}

}  // namespace
}  // namespace lockstep::client
