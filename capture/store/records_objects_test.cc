// Devices, contexts, streams and memory operations from blocks to the entries of a capture.
#include "capture/store/records_objects.h"

#include <limits>
#include <utility>
#include <vector>

#include "capture/store/records_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::capture {
namespace {

using columns::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kObjectsT0 = 1'700'000'000'000'000'000;

using Values = std::vector<std::pair<size_t, uint64_t>>;

// Passes rows of the client through the encoding and back.
class ObjectsTest : public ::testing::Test {
 protected:
  void Add(Kind kind, const Values& values) {
    columns::BlockBuilder builder(kind);
    std::vector<uint64_t> row(columns::Schema(kind).size(), 0);
    for (const auto& [column, value] : values) row[column] = value;
    builder.Append(row);
    std::string bytes;
    builder.Encode(1, 0, bytes);
    columns::DecodedBlock block;
    ASSERT_TRUE(columns::Decode(std::as_bytes(std::span(bytes)), block).ok());
    tables_.AddRows(block, strings_);
  }
  void Name(uint32_t id, std::string_view text) {
    std::string bytes;
    columns::EncodeStrings(1, std::vector<columns::StringDefinition>{{id, text}}, bytes);
    columns::DecodedBlock block;
    ASSERT_TRUE(columns::Decode(std::as_bytes(std::span(bytes)), block).ok());
    tables_.AddStrings(block, strings_);
  }
  void Device(uint32_t device, uint64_t flags, const Values& more = {}) {
    namespace c = columns::device;
    Values values = {{c::kDevice, device}, {c::kName, 1}, {c::kMultiprocessors, 132}, {c::kFlags, flags}};
    values.insert(values.end(), more.begin(), more.end());
    Add(Kind::kDevice, values);
  }
  void Context(uint32_t context, uint32_t device) {
    Add(Kind::kContext, {{columns::context::kContext, context}, {columns::context::kDevice, device}});
  }
  void Stream(uint32_t context, uint32_t stream, int32_t priority = 0, uint64_t type = 2) {
    namespace c = columns::stream;
    Add(Kind::kStream, {{c::kContext, context},
                        {c::kStream, stream},
                        {c::kPriority, static_cast<uint64_t>(int64_t{priority})},
                        {c::kType, type}});
  }
  void Memory(int64_t time, uint64_t address, uint32_t device, bool release) {
    namespace c = columns::memory_op;
    Add(Kind::kMemoryOp, {{c::kTime, static_cast<uint64_t>(time)},
                          {c::kAddress, address},
                          {c::kBytes, 4096},
                          {c::kDevice, device},
                          {c::kStream, 13},
                          {c::kIsRelease, release ? 1 : 0}});
  }
  RankData Entry(uint32_t device) {
    RankData entry;
    entry.device = DeviceId(device);
    tables_.objects.Describe(entry);
    return entry;
  }
  static std::vector<uint32_t> Streams(const RankData& entry) {
    std::vector<uint32_t> ids;
    for (const DeviceStream& s : entry.streams) ids.push_back(s.stream.value());
    return ids;
  }
  static std::vector<uint32_t> Contexts(const RankData& entry) {
    std::vector<uint32_t> ids;
    for (const DeviceContext& c : entry.contexts) ids.push_back(c.context.value());
    return ids;
  }

  StringTable strings_;
  ProcessTables tables_;
};

TEST_F(ObjectsTest, DevicePropertiesBelongToTheEntryOfThatDevice) {
  namespace c = columns::device;
  Name(1, "NVIDIA H100 80GB HBM3");
  Device(2, 4,
         {{c::kComputeMajor, 9},
          {c::kMemoryBytes, 80ull << 30},
          {c::kMemoryBytesPerS, 3'352'320'000'000},
          {c::kClockKhz, 1'980'000},
          {c::kL2Bytes, 50 << 20},
          {c::kThreadsPerWarp, 32},
          {c::kWarpsPerMultiprocessor, 64},
          {c::kSharedPerMultiprocessor, 233'472},
          {c::kRegistersPerMultiprocessor, 65'536},
          {c::kUuidFirst, 0x0102030405060708},
          {c::kUuidLast, 0x090a0b0c0d0e0f10},
          {c::kNumaNode, 2}});
  const RankData entry = Entry(2);
  ASSERT_TRUE(entry.has_properties);
  const DeviceProperties& p = entry.properties;
  EXPECT_EQ(p.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(p.uuid, "GPU-01020304-0506-0708-090a-0b0c0d0e0f10");
  EXPECT_EQ(p.sms, 132);
  EXPECT_EQ(p.compute_major, 9);
  EXPECT_EQ(p.max_threads_per_sm, 2048);
  EXPECT_EQ(p.registers_per_sm, 65'536);
  EXPECT_EQ(p.shared_bytes_per_sm, 233'472u);
  EXPECT_EQ(p.memory_bytes, 80ull << 30);
  EXPECT_EQ(p.memory_bytes_per_s, 3'352'320'000'000u);
  EXPECT_EQ(p.l2_bytes, 50u << 20);
  EXPECT_EQ(p.clock_khz, 1'980'000u);
  EXPECT_EQ(p.numa_node, 1);
  EXPECT_TRUE(p.ecc);
  EXPECT_FALSE(Entry(0).has_properties);
}

TEST_F(ObjectsTest, AMigInstanceHasItsOwnUuid) {
  namespace c = columns::device;
  Device(0, 2, {{c::kUuidLast, 1}, {c::kMigUuidLast, 0x2a}});
  EXPECT_EQ(Entry(0).properties.uuid, "MIG-00000000-0000-0000-0000-00000000002a");
  Device(1, 2, {{c::kUuidLast, 1}});
  EXPECT_EQ(Entry(1).properties.uuid, "GPU-00000000-0000-0000-0000-000000000001")
      << "where CUPTI does not tell the part's";
}

TEST_F(ObjectsTest, DistinguishesAHiddenDeviceFromTheVisibleOneOfItsNumber) {
  Name(1, "right");
  Name(2, "hidden");
  Device(0, 0);
  Device(0, 1, {{columns::device::kName, 2}});
  EXPECT_EQ(Entry(0).properties.name, "right");
}

TEST_F(ObjectsTest, ImpossibleNumbersAreUnknown) {
  namespace c = columns::device;
  Device(0, 0,
         {{c::kMultiprocessors, ~0ull},
          {c::kComputeMajor, 1ull << 40},
          {c::kClockKhz, 1ull << 33},
          {c::kNumaNode, ~0ull}});
  Context(1, 0);
  Stream(1, 7, 0, 99);
  const RankData entry = Entry(0);
  EXPECT_EQ(entry.properties.sms, 0);
  EXPECT_EQ(entry.properties.compute_major, 0);
  EXPECT_EQ(entry.properties.clock_khz, 0u);
  EXPECT_EQ(entry.properties.numa_node, -1);
  EXPECT_EQ(entry.streams.at(0).type, StreamType::kUnknown);
}

TEST_F(ObjectsTest, EachEntryHasTheObjectsOfItsDevice) {
  Context(1, 0);
  Context(2, 1);
  Context(9, 5);
  Stream(1, 7, 0, 3);
  Stream(1, 13, -5);
  Stream(2, 7);
  Stream(9, 7);
  Stream(77, 1);
  Memory(kObjectsT0, 4096, 1, false);
  Memory(kObjectsT0 + 5, 4096, 1, true);
  Memory(kObjectsT0, 8192, 5, false);
  RankData zero = Entry(0), one = Entry(1);
  EXPECT_THAT(Contexts(zero), ElementsAre(1u));
  EXPECT_THAT(Streams(zero), ElementsAre(7u, 13u));
  EXPECT_EQ(zero.streams[0].type, StreamType::kDefault);
  EXPECT_EQ(zero.streams[1].priority, -5);
  EXPECT_EQ(zero.streams[1].type, StreamType::kNonBlocking);
  EXPECT_THAT(zero.memory_ops, IsEmpty());
  ASSERT_EQ(one.memory_ops.size(), 2u);
  EXPECT_FALSE(one.memory_ops[0].release);
  EXPECT_TRUE(one.memory_ops[1].release);
  EXPECT_EQ(one.memory_ops[0].stream.value(), kNone)
      << "the stream of a synchronous operation has no meaning";
  tables_.objects.DescribeRest({0, 1}, one);
  EXPECT_THAT(Contexts(one), ElementsAre(2u, 9u));
  EXPECT_EQ(one.memory_ops.size(), 3u);
}

TEST_F(ObjectsTest, AnIdleProcesssDeviceIsThatOfItsContexts) {
  EXPECT_FALSE(tables_.objects.OnlyDevice().has_value());
  Context(1, 3);
  Context(2, 3);
  EXPECT_EQ(tables_.objects.OnlyDevice(), DeviceId(3));
  Context(4, 0);
  EXPECT_FALSE(tables_.objects.OnlyDevice().has_value());
}

TEST_F(ObjectsTest, StoresRepeatedObjectsOnce) {
  Context(1, 0);
  Context(1, 0);
  Stream(1, 13, 0);
  Stream(1, 13, -3);
  const RankData entry = Entry(0);
  EXPECT_THAT(Contexts(entry), ElementsAre(1u));
  ASSERT_THAT(Streams(entry), ElementsAre(13u));
  EXPECT_EQ(entry.streams[0].priority, -3);
}

TEST_F(ObjectsTest, RefusesAndCountsMemoryOperationsAtImpossibleTimes) {
  Memory(std::numeric_limits<int64_t>::max(), 4096, 0, false);
  EXPECT_THAT(Entry(0).memory_ops, IsEmpty());
  EXPECT_EQ(tables_.refused[static_cast<size_t>(Kind::kMemoryOp)], 1u);
}

TEST_F(ObjectsTest, HasNoObjectsWithoutRecords) {
  const RankData entry = Entry(0);
  EXPECT_FALSE(entry.has_properties);
  EXPECT_THAT(entry.contexts, IsEmpty());
}

}  // namespace
}  // namespace lockstep::capture
