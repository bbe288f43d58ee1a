#include "daemon/captures/log_records.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

constexpr HostInterval kWindow = {HostTime(1000), HostTime(2000)};

// Collects the records, with the texts of their names.
struct Collected {
  std::map<uint32_t, std::string> texts;
  std::vector<ring::KernelRecord> kernels;
  std::vector<ring::ExternalCorrelationRecord> joins;
  std::vector<ring::CollectiveRecord> collectives;
  std::vector<ring::PointToPointRecord> messages;
  std::vector<ring::RangeRecord> ranges;
  std::vector<ring::CommunicatorRecord> communicators;
  LogRecordCounts counts;

  void Take(const ring::RecordView& record) {
    switch (record.header.kind) {
      case ring::RecordKind::kString: {
        const auto text = record.text();
        texts[record.as<ring::StringRecord>().id] = std::string(text.begin(), text.end());
        break;
      }
      case ring::RecordKind::kKernel:
        kernels.push_back(record.as<ring::KernelRecord>());
        EXPECT_TRUE(texts.contains(kernels.back().name)) << "the name is defined before its use";
        break;
      case ring::RecordKind::kExternalCorrelation:
        joins.push_back(record.as<ring::ExternalCorrelationRecord>());
        break;
      case ring::RecordKind::kCollective:
        collectives.push_back(record.as<ring::CollectiveRecord>());
        break;
      case ring::RecordKind::kPointToPoint:
        messages.push_back(record.as<ring::PointToPointRecord>());
        break;
      case ring::RecordKind::kRange:
        ranges.push_back(record.as<ring::RangeRecord>());
        break;
      case ring::RecordKind::kCommunicator:
        communicators.push_back(record.as<ring::CommunicatorRecord>());
        break;
      default:
        ADD_FAILURE() << "kind " << static_cast<int>(record.header.kind);
    }
  }
};

Collected Records(const ring::OperationLog& log) {
  Collected collected;
  collected.counts =
      WriteLogRecords(log, kWindow, [&](const ring::RecordView& record) { collected.Take(record); });
  return collected;
}

// `number` 0: a message.
ring::LoggedOperation Operation(uint64_t communicator, uint64_t number, int64_t started, int64_t completed) {
  ring::LoggedOperation logged;
  logged.communicator = communicator;
  ring::OperationProgress& operation = logged.operation;
  operation.number = number;
  operation.count = 64;
  operation.entered = HostTime(started - 20);
  operation.launched = HostTime(started - 10);
  operation.started = HostTime(started);
  operation.completed = HostTime(completed);
  operation.function = number == 0 ? "Send" : "AllReduce";
  operation.datatype = "ncclFloat32";
  operation.peer = 3;
  return logged;
}

TEST(LogRecords, ACollectiveHasItsKernelAndItsCommunicator) {
  ring::OperationLog log;
  log.communicators.push_back({7, "world", 2, 8});
  log.operations.push_back(Operation(7, 41, 1100, 1200));
  const Collected got = Records(log);
  ASSERT_EQ(got.kernels.size(), 1u);
  EXPECT_EQ(got.kernels[0].start_ns, 1100);
  EXPECT_EQ(got.kernels[0].end_ns, 1200);
  EXPECT_EQ(got.texts.at(got.kernels[0].name), "ncclDevKernel_AllReduce");
  ASSERT_EQ(got.joins.size(), 1u);
  EXPECT_EQ(got.joins[0].correlation, got.kernels[0].correlation);
  ASSERT_EQ(got.collectives.size(), 1u);
  EXPECT_EQ(got.collectives[0].launch, got.joins[0].external);
  EXPECT_EQ(got.collectives[0].sequence, 41u);
  EXPECT_EQ(got.collectives[0].comm, 7u);
  EXPECT_EQ(got.texts.at(got.collectives[0].function), "AllReduce");
  ASSERT_EQ(got.communicators.size(), 1u);
  EXPECT_EQ(got.communicators[0].rank, 2);
  EXPECT_EQ(got.communicators[0].ranks, 8);
  EXPECT_EQ(got.texts.at(got.communicators[0].name), "world");
  EXPECT_EQ(got.counts.kernels, 1u);
}

TEST(LogRecords, AKernelBelongsToTheWindowInWhichItStarts) {
  ring::OperationLog log;
  log.operations = {Operation(7, 1, 900, 1100), Operation(7, 2, 1300, 2100), Operation(7, 3, 2000, 2100)};
  const Collected got = Records(log);
  ASSERT_EQ(got.kernels.size(), 1u);
  EXPECT_EQ(got.kernels[0].start_ns, 1300);
  EXPECT_EQ(got.kernels[0].end_ns, 2100);
}

TEST(LogRecords, AKernelThatHasNotEndedLastsToTheEndOfTheWindow) {
  ring::OperationLog log;
  log.operations = {Operation(7, 1, 1300, 0)};
  EXPECT_EQ(Records(log).kernels.at(0).end_ns, 2000);
}

TEST(LogRecords, CountsOperationsThatHaveNotStarted) {
  ring::OperationLog log;
  log.operations = {Operation(7, 1, 1300, 0)};
  log.operations[0].operation.started = HostTime();
  const Collected got = Records(log);
  EXPECT_TRUE(got.kernels.empty());
  EXPECT_EQ(got.counts.not_started, 1u);
}

TEST(LogRecords, MessagesOfAGroupAreOneKernel) {
  ring::OperationLog log;
  log.operations = {Operation(7, 0, 1300, 1400), Operation(7, 0, 1301, 1402)};
  log.operations[1].operation.function = "Recv";
  log.operations[1].message_number = 5;
  const Collected got = Records(log);
  ASSERT_EQ(got.kernels.size(), 1u);
  EXPECT_EQ(got.kernels[0].start_ns, 1300);
  EXPECT_EQ(got.kernels[0].end_ns, 1402);
  EXPECT_EQ(got.texts.at(got.kernels[0].name), "ncclDevKernel_SendRecv");
  ASSERT_EQ(got.messages.size(), 2u);
  EXPECT_EQ(got.messages[0].header.flags, ring::kP2pSend);
  EXPECT_EQ(got.messages[1].header.flags, 0);
  EXPECT_EQ(got.messages[1].sequence, 5u);
  EXPECT_EQ(got.messages[0].launch, got.messages[1].launch);
}

TEST(LogRecords, KernelsThatOverlapByTheProxysDelayStayTwo) {
  ring::OperationLog log;
  log.operations = {Operation(7, 1, 1300, 1402), Operation(7, 2, 1400, 1500)};
  const Collected got = Records(log);
  ASSERT_EQ(got.kernels.size(), 2u);
  EXPECT_EQ(got.kernels[0].end_ns, 1400);
  EXPECT_EQ(got.kernels[1].start_ns, 1400);
  EXPECT_EQ(got.kernels[0].stream, got.kernels[1].stream);
}

TEST(LogRecords, CommunicatorsThatRunTogetherHaveTwoStreams) {
  ring::OperationLog log;
  log.operations = {Operation(7, 1, 1300, 1402), Operation(8, 1, 1300, 1402)};
  const Collected got = Records(log);
  ASSERT_EQ(got.kernels.size(), 2u);
  EXPECT_NE(got.kernels[0].stream, got.kernels[1].stream);
}

TEST(LogRecords, CommunicatorsThatTakeTurnsShareAStream) {
  ring::OperationLog log;
  log.operations = {Operation(7, 1, 1300, 1402), Operation(8, 1, 1400, 1500), Operation(7, 2, 1600, 1700)};
  Collected got = Records(log);
  ASSERT_EQ(got.kernels.size(), 3u);
  EXPECT_EQ(got.kernels[0].stream, got.kernels[1].stream);
  EXPECT_EQ(got.kernels[0].end_ns, 1400) << "the proxy saw it end after the next one's begin";
  EXPECT_EQ(got.kernels[1].end_ns, 1500);
  EXPECT_EQ(got.kernels[2].stream, got.kernels[1].stream);
  // One operation beside another separates them.
  log.operations.push_back(Operation(8, 2, 1610, 1690));
  got = Records(log);
  EXPECT_NE(got.kernels[0].stream, got.kernels[2].stream);
}

TEST(LogRecords, MarkedStepsReplaceNamedOnesAndInnerLoopsDoNotCount) {
  ring::OperationLog log;
  log.steps = {{5, HostTime(1100), false},
               {0, HostTime(1150), false},
               {6, HostTime(1200), false},
               {7, HostTime(1300), false}};
  Collected got = Records(log);
  ASSERT_EQ(got.ranges.size(), 2u) << "the newest step goes on";
  EXPECT_EQ(got.texts.at(got.ranges[0].name), "step 5");
  EXPECT_EQ(got.ranges[0].end_ns, 1200);
  EXPECT_EQ(got.texts.at(got.ranges[1].name), "step 6");
  log.steps.push_back({9, HostTime(1400), true});
  log.steps.push_back({10, HostTime(1500), true});
  got = Records(log);
  ASSERT_EQ(got.ranges.size(), 1u);
  EXPECT_EQ(got.texts.at(got.ranges[0].name), "step 9");
}

TEST(LogRecords, SurvivesInvalidTimes) {
  ring::OperationLog log;
  log.operations = {Operation(7, 1, 1300, 5), Operation(7, 2, 1999, INT64_MAX),
                    Operation(7, 3, 1500, INT64_MIN)};
  log.operations[0].operation.entered = HostTime(INT64_MIN);
  log.operations[1].operation.launched = HostTime(INT64_MAX);
  for (const ring::KernelRecord& kernel : Records(log).kernels) EXPECT_LE(kernel.start_ns, kernel.end_ns);
}

}  // namespace
}  // namespace lockstep::daemon
