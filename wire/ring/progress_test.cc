// Tests reading progress tables and operation logs: written by a client, by a hostile process, and in the
// middle of a write.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "wire/ring/client_segment.h"
#include "wire/ring/progress_reader.h"

namespace lockstep::ring {
namespace {

constexpr int64_t kStamp = 1'700'000'000'000'000'000;

class ProgressTest : public testing::Test {
 protected:
  ProgressTest() {
    EXPECT_EQ(Segment::Create({.ring_count = 1}, &segment_), SegmentError::kNone);
    EXPECT_EQ(client_.Attach(segment_.fd(), segment_.bytes()), AttachError::kNone);
  }
  ~ProgressTest() override { client_.Detach(); }

  ProgressSlot& Write(uint32_t index) {
    ProgressSlot& slot = client_.progress()[index];
    slot.stages = kStageLaunched | kStageKernel;
    slot.communicator = 0xABCDEF;
    slot.rank = 3;
    slot.ranks = 8;
    slot.operations_entered = 41;
    slot.collectives_entered = 40;
    slot.name.Set("tensor_parallel");
    ProgressOperation& operation = slot.operations[41 & (kProgressOperations - 1)];
    operation.number = 40;
    operation.count = 1 << 20;
    operation.entered_ns = kStamp;
    operation.launched_ns = kStamp + 1;
    operation.started_ns = kStamp + 2;
    operation.function.Set("AllReduce");
    operation.datatype.Set("ncclBfloat16");
    operation.channels = 2 << 16;
    operation.position = 41;
    slot.state = static_cast<uint32_t>(ProgressState::kLiving);
    return slot;
  }

  Segment segment_;
  ClientSegment client_;
};

TEST_F(ProgressTest, ReadsWhatTheClientWrote) {
  EXPECT_TRUE(ReadProgress(segment_).empty());
  Write(5);
  const std::vector<CommunicatorProgress> read = ReadProgress(segment_);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].communicator, 0xABCDEFu);
  EXPECT_EQ(read[0].name, "tensor_parallel");
  EXPECT_EQ(read[0].rank, 3);
  EXPECT_EQ(read[0].ranks, 8);
  EXPECT_TRUE(read[0].reports_launches);
  EXPECT_TRUE(read[0].reports_kernels);
  EXPECT_EQ(read[0].collectives_entered, 40u);
  ASSERT_EQ(read[0].operations.size(), 1u);
  const OperationProgress& operation = read[0].operations[0];
  EXPECT_EQ(operation.position, 41u);
  EXPECT_EQ(operation.number, 40u);
  EXPECT_EQ(operation.function, "AllReduce");
  EXPECT_EQ(operation.datatype, "ncclBfloat16");
  EXPECT_EQ(operation.entered, HostTime(kStamp));
  EXPECT_EQ(operation.started, HostTime(kStamp + 2));
  EXPECT_EQ(operation.completed, HostTime());
}

TEST_F(ProgressTest, BytesAreThoseOfTheGoldenFile) {
  const auto* bytes = reinterpret_cast<const char*>(&Write(0));
  const std::string name = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/ring/progress.bin";
  std::ifstream file(name, std::ios::binary);
  const std::vector<char> golden{std::istreambuf_iterator<char>(file), {}};
  if (golden == std::vector<char>(bytes, bytes + sizeof(ProgressSlot))) return;
  std::ofstream("progress.bin.actual", std::ios::binary).write(bytes, sizeof(ProgressSlot));
  ADD_FAILURE() << "the bytes differ from " << name << "; what came out is in ./progress.bin.actual";
}

TEST_F(ProgressTest, CountsAnOperationWhoseWriterStoppedInTheMiddle) {
  Write(0).operations[41 & (kProgressOperations - 1)].position = 0;
  const std::vector<CommunicatorProgress> read = ReadProgress(segment_);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_TRUE(read[0].operations.empty());
  EXPECT_EQ(read[0].unreadable, 1u);
}

TEST_F(ProgressTest, SurvivesAnyBytes) {
  std::memset(static_cast<void*>(client_.progress()), 0xFF, kProgressBytes);
  EXPECT_TRUE(ReadProgress(segment_).empty()) << "the state is not a known one";
  for (uint32_t i = 0; i < kProgressSlots; ++i) client_.progress()[i].state = 1;
  const std::vector<CommunicatorProgress> read = ReadProgress(segment_);
  ASSERT_EQ(read.size(), kProgressSlots);
  EXPECT_EQ(read[0].name.size(), 64u);
  EXPECT_EQ(read[0].operations.size(), kProgressOperations);
}

TEST_F(ProgressTest, NeverMixesTwoOperations) {
  ProgressOperation& operation = Write(0).operations[0];
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t position = kProgressOperations; !stop; position += kProgressOperations) {
      operation.position.store(0, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);
      operation.number.store(position, std::memory_order_relaxed);
      operation.count.store(position, std::memory_order_relaxed);
      operation.position.store(position, std::memory_order_release);
      // A collective takes longer than reading its operation.
      std::this_thread::sleep_for(std::chrono::microseconds(10));
    }
  });
  int seen = 0;
  for (int i = 0; i < 2000 || seen == 0; ++i) {
    const CommunicatorProgress communicator = ReadProgress(segment_).at(0);
    for (const OperationProgress& read : communicator.operations) {
      if (read.position % kProgressOperations != 0) continue;
      ++seen;
      EXPECT_EQ(read.number, read.position);
      EXPECT_EQ(read.count, read.position);
    }
  }
  stop = true;
  writer.join();
}

class OperationLogTest : public ProgressTest {
 protected:
  LogEntry& Write(uint64_t position, uint64_t communicator, int64_t entered, int64_t completed) {
    LogEntry& entry = client_.log()[LogPlace(position)];
    entry.communicator = communicator;
    entry.kind = static_cast<uint32_t>(LogKind::kOperation);
    entry.operation.number = 9;
    entry.operation.count = 1 << 20;
    entry.operation.entered_ns = kStamp + entered;
    entry.operation.launched_ns = kStamp + entered + 1;
    entry.operation.started_ns = kStamp + entered + 2;
    entry.operation.completed_ns = completed == 0 ? 0 : kStamp + completed;
    entry.operation.function.Set("AllReduce");
    entry.operation.datatype.Set("ncclBfloat16");
    entry.operation.peer = 5;
    entry.operation.channels = 2 << 16 | 2;
    entry.operation.position = 11;
    entry.position = position;
    return entry;
  }
  LogEntry& WriteStep(uint64_t position, uint64_t number, LogKind kind) {
    LogEntry& entry = Write(position, 0, 0, 0);
    entry.kind = static_cast<uint32_t>(kind);
    entry.operation.number = number;
    entry.operation.position = 0;
    return entry;
  }
};

TEST_F(OperationLogTest, ReadsOperationsAndStepsInTheOrderOfTheirBegin) {
  EXPECT_TRUE(ReadLog(segment_, HostTime()).operations.empty());
  ProgressTest::Write(0);
  Write(3, 0xABCDEF, 30, 0);
  WriteStep(2, 77, LogKind::kMarkedStep);
  Write(1, 0xABCDEF, 10, 20).message_number = 4;
  const OperationLog log = ReadLog(segment_, HostTime());
  ASSERT_EQ(log.operations.size(), 2u);
  EXPECT_EQ(log.operations[0].message_number, 4u);
  EXPECT_EQ(log.operations[0].communicator, 0xABCDEFu);
  EXPECT_EQ(log.operations[0].operation.function, "AllReduce");
  EXPECT_EQ(log.operations[0].operation.completed, HostTime(kStamp + 20));
  EXPECT_EQ(log.operations[0].operation.position, 11u);
  EXPECT_EQ(log.operations[1].operation.completed, HostTime());
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].number, 77u);
  EXPECT_EQ(log.steps[0].begin, HostTime(kStamp));
  EXPECT_TRUE(log.steps[0].marked);
  ASSERT_EQ(log.communicators.size(), 1u);
  EXPECT_EQ(log.communicators[0].name, "tensor_parallel");
  EXPECT_EQ(log.complete_since, HostTime()) << "entry 1 is there";
  EXPECT_EQ(log.unreadable, 0u);
}

TEST_F(OperationLogTest, LeavesOutWhatEndedBefore) {
  Write(1, 1, 10, 20);
  Write(2, 1, 10, 0);
  Write(3, 1, 30, 40);
  WriteStep(4, 1, LogKind::kNamedStep);
  const OperationLog log = ReadLog(segment_, HostTime(kStamp + 30));
  ASSERT_EQ(log.operations.size(), 2u);
  EXPECT_EQ(log.operations[0].operation.completed, HostTime()) << "it runs";
  EXPECT_TRUE(log.steps.empty());
}

TEST_F(OperationLogTest, SaysSinceWhenItIsComplete) {
  for (uint64_t position = 2; position <= kLogEntries + 1; ++position)
    Write(position, 1, static_cast<int64_t>(position), 0);
  const OperationLog log = ReadLog(segment_, HostTime());
  EXPECT_EQ(log.operations.size(), kLogEntries);
  EXPECT_EQ(log.complete_since, HostTime(kStamp + 2));
  EXPECT_EQ(log.operations.back().operation.entered, HostTime(kStamp + kLogEntries + 1));
}

TEST_F(OperationLogTest, CountsAnEntryWhoseWriterStoppedInTheMiddle) {
  Write(1, 1, 10, 20).position = 0;
  Write(2, 1, 10, 20).operation.position = 0;
  EXPECT_EQ(ReadLog(segment_, HostTime()).unreadable, 2u);
}

TEST_F(OperationLogTest, SurvivesAnyBytes) {
  std::memset(static_cast<void*>(client_.log()), 0xFF, kLogBytes);
  EXPECT_TRUE(ReadLog(segment_, HostTime()).operations.empty()) << "the kind is not a known one";
  for (uint32_t i = 0; i < kLogEntries; ++i) client_.log()[i].kind = 1;
  const OperationLog log = ReadLog(segment_, HostTime(-1));
  ASSERT_EQ(log.operations.size(), kLogEntries);
  EXPECT_EQ(log.operations[0].operation.function.size(), 16u);
}

TEST_F(OperationLogTest, BytesAreThoseOfTheGoldenFile) {
  const std::string name = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/ring/log.bin";
  Write(1, 0xABCDEF, 10, 20).message_number = 4;
  WriteStep(2, 77, LogKind::kNamedStep);
  const auto* bytes = reinterpret_cast<const char*>(&client_.log()[LogPlace(1)]);
  std::ifstream file(name, std::ios::binary);
  const std::vector<char> golden{std::istreambuf_iterator<char>(file), {}};
  if (golden == std::vector<char>(bytes, bytes + 2 * sizeof(LogEntry))) return;
  std::ofstream("log.bin.actual", std::ios::binary).write(bytes, 2 * sizeof(LogEntry));
  ADD_FAILURE() << "the bytes differ from " << name << "; what came out is in ./log.bin.actual";
}

TEST_F(OperationLogTest, RefusesALogOutsideTheSegment) {
  SegmentHeader& header = *segment_.header();
  const uint64_t offset = header.log_offset;
  SegmentGeometry geometry;
  auto* base = reinterpret_cast<std::byte*>(&header);
  for (const uint64_t lie : {uint64_t{0}, header.progress_offset, segment_.bytes() - kLogBytes + 64,
                             segment_.bytes(), ~uint64_t{0} << 6}) {
    header.log_offset = lie;
    EXPECT_EQ(ReadGeometry(base, segment_.bytes(), &geometry), GeometryError::kLog) << lie;
  }
  header.log_offset = offset;
  header.log_entries = kLogEntries / 2;
  EXPECT_EQ(ReadGeometry(base, segment_.bytes(), &geometry), GeometryError::kNone) << "another version";
  EXPECT_EQ(geometry.log_offset, 0u);
}

TEST_F(ProgressTest, RefusesATableOutsideTheSegment) {
  SegmentHeader& header = *segment_.header();
  const uint64_t offset = header.progress_offset;
  SegmentGeometry geometry;
  auto* base = reinterpret_cast<std::byte*>(&header);
  for (const uint64_t lie :
       {uint64_t{0}, kHeaderBytes, segment_.bytes() - 64, segment_.bytes(), ~uint64_t{0} << 6}) {
    header.progress_offset = lie;
    EXPECT_EQ(ReadGeometry(base, segment_.bytes(), &geometry), GeometryError::kProgress) << lie;
  }
  header.progress_offset = offset + 64;
  EXPECT_EQ(ReadGeometry(base, segment_.bytes(), &geometry), GeometryError::kLog) << "it overlaps the log";
  header.progress_offset = offset;
  header.progress_slots = kMostProgressSlots + 1;
  EXPECT_EQ(ReadGeometry(base, segment_.bytes(), &geometry), GeometryError::kProgress);
  header.progress_slots = 0;
  EXPECT_EQ(ReadGeometry(base, segment_.bytes(), &geometry), GeometryError::kNone) << "an older daemon";
  EXPECT_EQ(geometry.progress_slots, 0u);
}

}  // namespace
}  // namespace lockstep::ring
