#include "wire/ring/log_cursor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "wire/ring/client_segment.h"

namespace lockstep::ring {
namespace {

class LogCursorTest : public testing::Test {
 protected:
  LogCursorTest() {
    EXPECT_EQ(Segment::Create({.ring_count = 1}, &segment_), SegmentError::kNone);
    EXPECT_EQ(client_.Attach(segment_.fd(), segment_.bytes()), AttachError::kNone);
  }
  ~LogCursorTest() override { client_.Detach(); }

  LogEntry& Write(uint64_t position, const char* function, int64_t completed) {
    LogEntry& entry = client_.log()[LogPlace(position)];
    entry.communicator = 7;
    entry.kind = static_cast<uint32_t>(LogKind::kOperation);
    entry.operation.number = position;
    entry.operation.count = 100;
    entry.operation.entered_ns = completed - 20;
    entry.operation.started_ns = completed - 10;
    entry.operation.completed_ns = completed;
    entry.operation.function.Set(function);
    entry.position = position;
    client_.header().log_newest = position;
    return entry;
  }
  std::vector<uint64_t> Numbers(HostTime settled = HostTime(1'000'000)) {
    std::vector<uint64_t> numbers;
    for (const LogRecord& record : cursor_.Read(segment_, settled)) numbers.push_back(record.number);
    return numbers;
  }

  Segment segment_;
  ClientSegment client_;
  LogCursor cursor_;
};

TEST_F(LogCursorTest, ReadsEachEntryOnce) {
  EXPECT_TRUE(Numbers().empty());
  Write(1, "AllReduce", 100);
  Write(2, "AllReduce", 200);
  EXPECT_EQ(Numbers(), (std::vector<uint64_t>{1, 2}));
  EXPECT_TRUE(Numbers().empty());
  Write(3, "AllReduce", 300).kind = static_cast<uint32_t>(LogKind::kMarkedStep);
  const std::vector<LogRecord> records = cursor_.Read(segment_, HostTime(1000));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].kind, LogKind::kMarkedStep);
  EXPECT_EQ(records[0].entered, HostTime(280));
  EXPECT_EQ(cursor_.missed(), 0u);
}

TEST_F(LogCursorTest, ShapesDistinguishOperations) {
  Write(1, "AllReduce", 100);
  Write(2, "AllGather", 200);
  Write(3, "AllReduce", 300);
  const std::vector<LogRecord> records = cursor_.Read(segment_, HostTime(1000));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].shape, records[2].shape);
  EXPECT_NE(records[0].shape, records[1].shape);
}

TEST_F(LogCursorTest, WaitsForTheEndOfAnOperation) {
  Write(1, "AllReduce", 100);
  LogEntry& running = Write(2, "AllReduce", 200);
  Write(3, "AllReduce", 300).communicator = 8;
  running.operation.completed_ns = 0;
  EXPECT_EQ(Numbers(), (std::vector<uint64_t>{1}));
  running.operation.completed_ns = 250;
  EXPECT_EQ(Numbers(HostTime(249)), (std::vector<uint64_t>{})) << "another channel may still start";
  EXPECT_EQ(Numbers(HostTime(250)), (std::vector<uint64_t>{2}));
  EXPECT_EQ(Numbers(), (std::vector<uint64_t>{3}));
}

TEST_F(LogCursorTest, DoesNotWaitWithoutEnd) {
  Write(1, "AllReduce", 100).operation.completed_ns = 0;
  for (uint64_t position = 2; position <= kLogEntries / 2; ++position)
    Write(position, "AllReduce", 100).communicator = 8;
  EXPECT_TRUE(Numbers().empty());
  Write(kLogEntries / 2 + 1, "AllReduce", 100);
  EXPECT_EQ(Numbers().size(), kLogEntries / 2 + 1);
}

TEST_F(LogCursorTest, DoesNotWaitForAnOperationWhoseEndIsNotReported) {
  Write(1, "AllReduce", 100).operation.completed_ns = 0;
  Write(2, "AllReduce", 200).communicator = 8;
  EXPECT_TRUE(Numbers().empty());
  Write(3, "AllReduce", 300);
  EXPECT_EQ(Numbers(), (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(LogCursorTest, CountsAnEntryThatStaysUnreadable) {
  Write(1, "AllReduce", 100);
  EXPECT_EQ(Numbers().size(), 1u);
  Write(2, "AllReduce", 100).position = 0;
  Write(3, "AllReduce", 100);
  EXPECT_TRUE(Numbers().empty()) << "it is perhaps being written";
  for (uint64_t position = 4; position <= 80; ++position) Write(position, "AllReduce", 100);
  EXPECT_EQ(Numbers().size(), 78u);
  EXPECT_EQ(cursor_.missed(), 1u);
}

TEST_F(LogCursorTest, CountsOverwrittenEntries) {
  Write(1, "AllReduce", 100);
  EXPECT_EQ(Numbers().size(), 1u);
  for (uint64_t position = 2; position <= kLogEntries + 11; ++position) Write(position, "AllReduce", 100);
  EXPECT_EQ(Numbers().size(), kLogEntries);
  EXPECT_EQ(cursor_.missed(), 10u);
}

TEST_F(LogCursorTest, ANewLogMayBeginWithAnyPosition) {
  for (uint64_t position = 5000; position < 5100; ++position) Write(position, "AllReduce", 100);
  const std::vector<uint64_t> numbers = Numbers();
  ASSERT_EQ(numbers.size(), 100u);
  EXPECT_EQ(numbers.front(), 5000u);
  EXPECT_EQ(cursor_.missed(), 0u);
}

TEST_F(LogCursorTest, SurvivesAnyBytes) {
  std::memset(static_cast<void*>(client_.log()), 0xFF, kLogBytes);
  for (uint64_t position = 1; position <= kLogEntries; ++position)
    client_.log()[LogPlace(position)].position = position;
  for (const uint64_t newest : {uint64_t{1}, uint64_t{70}, ~uint64_t{0}, uint64_t{1} << 63, uint64_t{3}}) {
    client_.header().log_newest = newest;
    EXPECT_LE(Numbers().size(), kLogEntries);
  }
}

// Run under TSan, too.
TEST_F(LogCursorTest, NeverMixesTwoEntries) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t position = 1; !stop; ++position) {
      LogEntry& entry = client_.log()[LogPlace(position)];
      entry.position.store(0, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);
      entry.kind.store(static_cast<uint32_t>(LogKind::kOperation), std::memory_order_relaxed);
      entry.operation.number.store(position, std::memory_order_relaxed);
      entry.operation.completed_ns.store(static_cast<int64_t>(position), std::memory_order_relaxed);
      entry.position.store(position, std::memory_order_release);
      client_.header().log_newest.store(position, std::memory_order_release);
    }
  });
  uint64_t last = 0;
  for (int i = 0; i < 200 || last == 0; ++i) {
    for (const LogRecord& record : cursor_.Read(segment_, HostTime::Max())) {
      EXPECT_EQ(record.completed, HostTime(static_cast<int64_t>(record.number)));
      EXPECT_GT(record.number, last);
      last = record.number;
    }
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace lockstep::ring
