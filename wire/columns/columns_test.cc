#include "wire/columns/columns.h"

#include <cstdint>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::columns {
namespace {

constexpr Kind kRowKinds[] = {
    Kind::kKernel,       Kind::kMemcpy,        Kind::kMemset,
    Kind::kApi,          Kind::kSync,          Kind::kExternalCorrelation,
    Kind::kCudaEvent,    Kind::kOverhead,      Kind::kRange,
    Kind::kCommunicator, Kind::kCollective,    Kind::kPointToPoint,
    Kind::kClock,        Kind::kKernelChannel, Kind::kProxyOp,
    Kind::kThreadName,   Kind::kDevice,        Kind::kContext,
    Kind::kStream,       Kind::kMemoryOp,
};

std::span<const std::byte> Bytes(const std::string& s) { return std::as_bytes(std::span(s)); }

using Row = std::vector<uint64_t>;

std::string Encode(Kind kind, const std::vector<Row>& rows, uint64_t epoch = 3, uint64_t first = 41) {
  BlockBuilder builder(kind);
  for (const Row& row : rows) builder.Append(row);
  std::string out;
  builder.Encode(epoch, first, out);
  EXPECT_EQ(builder.rows(), 0u);
  return out;
}

std::vector<Row> RowsOf(const DecodedBlock& block) {
  std::vector<Row> rows(block.rows);
  for (uint32_t r = 0; r < block.rows; ++r) {
    for (const auto& column : block.columns) rows[r].push_back(column[r]);
  }
  return rows;
}

// Mixes small, large, negative and repeated values, as real rows do.
std::vector<Row> SomeRows(Kind kind, size_t count, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Row> rows(count, Row(Schema(kind).size()));
  for (Row& row : rows) {
    for (uint64_t& v : row) {
      const uint64_t shape = random() % 4;
      v = shape == 0   ? random()
          : shape == 1 ? random() % 100
          : shape == 2 ? uint64_t(-int64_t(random() % 5))
                       : 7;
    }
  }
  return rows;
}

TEST(Columns, EveryKindRoundTrips) {
  for (Kind kind : kRowKinds) {
    SCOPED_TRACE(KindName(kind));
    for (size_t count : {1u, 2u, 511u, 512u, 513u, 8192u}) {
      const std::vector<Row> rows = SomeRows(kind, count, 11);
      const std::string bytes = Encode(kind, rows);
      DecodedBlock block;
      auto taken = Decode(Bytes(bytes), block);
      ASSERT_TRUE(taken.ok()) << taken.status();
      EXPECT_EQ(*taken, bytes.size());
      EXPECT_EQ(block.kind, kind);
      EXPECT_EQ(block.epoch, 3u);
      EXPECT_EQ(block.first_sequence, 41u);
      EXPECT_EQ(RowsOf(block), rows);
      EXPECT_TRUE(block.strings.empty());
    }
  }
}

TEST(Columns, ExtremeValuesSurviveEveryEncoding) {
  const uint64_t extremes[] = {
      0, 1, 127, 128, 1ull << 63, (1ull << 63) - 1, std::numeric_limits<uint64_t>::max()};
  for (Kind kind : kRowKinds) {
    std::vector<Row> rows;
    for (uint64_t a : extremes) {
      for (uint64_t b : extremes) {
        Row row(Schema(kind).size(), a);
        for (size_t c = 0; c < row.size(); c += 2) row[c] = b;
        rows.push_back(row);
      }
    }
    DecodedBlock block;
    ASSERT_TRUE(Decode(Bytes(Encode(kind, rows)), block).ok());
    EXPECT_EQ(RowsOf(block), rows) << KindName(kind);
  }
}

TEST(Columns, AFullBlockOfTheLargestSizeRoundTrips) {
  BlockBuilder builder(Kind::kCudaEvent);
  for (uint32_t i = 0; i < kMaxRows; ++i) {
    const uint64_t row[] = {i * 1000ull, i, 1, 7, i & 3};
    builder.Append(row);
  }
  std::string bytes;
  builder.Encode(1, 0, bytes);
  DecodedBlock block;
  ASSERT_TRUE(Decode(Bytes(bytes), block).ok());
  EXPECT_EQ(block.rows, kMaxRows);
  EXPECT_EQ(block.columns[cuda_event::kDeviceTime].back(), (kMaxRows - 1) * 1000ull);
}

TEST(Columns, AnEmptyBuilderWritesNothing) {
  BlockBuilder builder(Kind::kKernel);
  std::string bytes = "before";
  builder.Encode(1, 2, bytes);
  EXPECT_EQ(bytes, "before");
}

TEST(Columns, ABuilderIsReusableAfterEncode) {
  BlockBuilder builder(Kind::kOverhead);
  std::string bytes;
  for (uint64_t round = 0; round < 3; ++round) {
    const uint64_t row[] = {round, round + 1, round + 2, round + 3};
    builder.Append(row);
    builder.Encode(round, round, bytes);
  }
  std::span<const std::byte> rest = Bytes(bytes);
  DecodedBlock block;
  for (uint64_t round = 0; round < 3; ++round) {
    auto taken = Decode(rest, block);
    ASSERT_TRUE(taken.ok());
    EXPECT_EQ(block.epoch, round);
    EXPECT_EQ(RowsOf(block), (std::vector<Row>{{round, round + 1, round + 2, round + 3}}));
    rest = rest.subspan(*taken);
  }
  EXPECT_TRUE(rest.empty());
}

TEST(Columns, TheSchemaNamesEveryColumnOfEveryKind) {
  for (Kind kind : kRowKinds) {
    ASSERT_FALSE(Schema(kind).empty()) << KindName(kind);
    for (const Column& c : Schema(kind)) EXPECT_STRNE(c.name, "");
  }
  EXPECT_TRUE(Schema(Kind::kString).empty());
  EXPECT_TRUE(Schema(static_cast<Kind>(999)).empty());
  EXPECT_STREQ(KindName(static_cast<Kind>(999)), "unknown");
}

TEST(Strings, DefinitionsRoundTripWithIdsAndBytes) {
  const std::string odd("a\0b\xff", 4);
  const std::vector<StringDefinition> strings = {{1, "gemm"}, {0xFFFFFFFF, ""}, {7, odd}};
  std::string bytes;
  EncodeStrings(9, strings, bytes);
  DecodedBlock block;
  ASSERT_TRUE(Decode(Bytes(bytes), block).ok());
  EXPECT_EQ(block.kind, Kind::kString);
  EXPECT_EQ(block.epoch, 9u);
  EXPECT_EQ(block.first_sequence, 0u);
  ASSERT_EQ(block.strings.size(), 3u);
  EXPECT_EQ(block.strings[0].text, "gemm");
  EXPECT_EQ(block.strings[1].id, 0xFFFFFFFFu);
  EXPECT_EQ(block.strings[1].text, "");
  EXPECT_EQ(block.strings[2].text, odd);
}

TEST(Strings, AMovedBlockKeepsItsTexts) {
  std::string bytes;
  EncodeStrings(1, std::vector<StringDefinition>{{1, "ab"}}, bytes);
  DecodedBlock block;
  ASSERT_TRUE(Decode(Bytes(bytes), block).ok());
  const DecodedBlock moved = std::move(block);
  EXPECT_EQ(moved.strings[0].text, "ab");
}

TEST(Strings, NoDefinitionsWriteNothing) {
  std::string bytes;
  EncodeStrings(1, {}, bytes);
  EXPECT_EQ(bytes, "");
}

TEST(Strings, MoreDefinitionsThanABlockHoldsBecomeSeveralBlocks) {
  std::vector<StringDefinition> strings;
  for (uint32_t i = 1; i <= kMaxRows + 2; ++i) strings.push_back({i, "n"});
  std::string bytes;
  EncodeStrings(1, strings, bytes);
  DecodedBlock block;
  auto first = Decode(Bytes(bytes), block);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(block.rows, kMaxRows);
  auto second = Decode(Bytes(bytes).subspan(*first), block);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(block.rows, 2u);
  EXPECT_EQ(block.strings[1].id, kMaxRows + 2);
}

TEST(Columns, AReusedBlockHasNoEarlierRows) {
  std::string strings;
  EncodeStrings(1, std::vector<StringDefinition>{{1, "x"}}, strings);
  DecodedBlock block;
  ASSERT_TRUE(Decode(Bytes(Encode(Kind::kKernel, SomeRows(Kind::kKernel, 10, 1))), block).ok());
  ASSERT_TRUE(Decode(Bytes(strings), block).ok());
  EXPECT_TRUE(block.columns.empty());
  ASSERT_TRUE(Decode(Bytes(Encode(Kind::kOverhead, SomeRows(Kind::kOverhead, 2, 1))), block).ok());
  EXPECT_TRUE(block.strings.empty());
  EXPECT_EQ(block.columns.size(), overhead::kColumns);
}

// Launches and kernels as in a training step. The size goal is 8 bytes per event.
TEST(Columns, AKernelAndItsLaunchTakeAtMostEightBytesEach) {
  std::mt19937_64 random(5);
  BlockBuilder kernels(Kind::kKernel);
  BlockBuilder calls(Kind::kApi);
  uint64_t host = 1'790'000'000'000'000'000ull;
  uint64_t device = host + 20'000;
  for (uint32_t i = 0; i < 8192; ++i) {
    host += 4'000 + random() % 3'000;
    const uint64_t call[] = {host, 3'000 + random() % 2'000, 1000 + 2 * i, 211, 4711, 0, 0, 2};
    calls.Append(call);
    const uint64_t shape = random() % 12;
    const uint64_t duration = 3'000 + shape * 4'000 + random() % 400;
    std::vector<uint64_t> row(kernel::kColumns);
    row[kernel::kStart] = device;
    row[kernel::kDuration] = duration;
    row[kernel::kCorrelation] = 1000 + 2 * i;
    row[kernel::kContext] = 1;
    row[kernel::kStream] = shape == 0 ? 20 : 7;
    row[kernel::kName] = 10 + shape;
    row[kernel::kGridX] = 64u << (shape % 4);
    row[kernel::kGridY] = row[kernel::kGridZ] = 1;
    row[kernel::kBlockX] = 128;
    row[kernel::kBlockY] = row[kernel::kBlockZ] = 1;
    row[kernel::kRegisters] = 32 + shape;
    row[kernel::kDynamicShared] = shape * 1024;
    kernels.Append(row);
    device += duration + 900 + random() % 300;
  }
  std::string bytes;
  kernels.Encode(1, 0, bytes);
  calls.Encode(1, 8192, bytes);
  EXPECT_LE(bytes.size() / (2.0 * 8192), 8.0);
}

}  // namespace
}  // namespace lockstep::columns
