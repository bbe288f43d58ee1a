// The format's golden file: blocks written once, read for ever. LOCKSTEP_UPDATE_GOLDEN=1 writes it anew after
// a version change.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::columns {
namespace {

constexpr char kGoldenV1[] = LOCKSTEP_GOLDEN_DIR "/columns/blocks_v1.bin";
constexpr char kGolden[] = LOCKSTEP_GOLDEN_DIR "/columns/blocks_v2.bin";

// Row r, column c of kind k holds this, so that a column in the wrong place is seen.
uint64_t Cell(int kind, uint32_t row, size_t column) {
  if (column == 0) return 1'700'000'000'000'000'000ull + row * 1234;
  if (column == 3) return 5;
  return row % 3 == 2 ? static_cast<uint64_t>(-static_cast<int64_t>(column))
                      : kind * 1000 + column * 10 + row;
}
constexpr uint32_t kRows = 5;
constexpr int kLastKind = static_cast<int>(Kind::kMemoryOp);
constexpr int kLastKindOfV1 = static_cast<int>(Kind::kClock);
// Of the kinds that have more today.
size_t ColumnsOfV1(Kind kind) {
  switch (kind) {
    case Kind::kCommunicator:
      return 5;
    case Kind::kCollective:
      return 11;
    case Kind::kPointToPoint:
      return 8;
    default:
      return Schema(kind).size();
  }
}

std::string WriteAll() {
  std::string out;
  EncodeStrings(2, std::vector<StringDefinition>{{1, "gemm"}, {2, "nccl \xe2\x88\x91"}}, out);
  for (int k = 2; k <= kLastKind; ++k) {
    BlockBuilder builder(static_cast<Kind>(k));
    for (uint32_t r = 0; r < kRows; ++r) {
      std::vector<uint64_t> row;
      for (size_t c = 0; c < Schema(static_cast<Kind>(k)).size(); ++c) row.push_back(Cell(k, r, c));
      builder.Append(row);
    }
    builder.Encode(2, static_cast<uint64_t>(k) * kRows, out);
  }
  return out;
}

std::string ReadGolden() {
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(kGolden, std::ios::binary) << WriteAll();
  }
  std::ifstream file(kGolden, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string ReadGoldenV1() {
  std::ifstream file(kGoldenV1, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void ExpectAll(const std::string& bytes, int last_kind, bool v1) {
  std::span<const std::byte> rest = std::as_bytes(std::span(bytes));
  DecodedBlock block;
  auto taken = Decode(rest, block);
  ASSERT_TRUE(taken.ok()) << taken.status();
  ASSERT_EQ(block.strings.size(), 2u);
  EXPECT_EQ(block.strings[0].id, 1u);
  EXPECT_EQ(block.strings[0].text, "gemm");
  EXPECT_EQ(block.strings[1].text, "nccl \xe2\x88\x91");
  rest = rest.subspan(*taken);
  for (int k = 2; k <= last_kind; ++k) {
    SCOPED_TRACE(KindName(static_cast<Kind>(k)));
    taken = Decode(rest, block);
    ASSERT_TRUE(taken.ok()) << taken.status();
    rest = rest.subspan(*taken);
    EXPECT_EQ(static_cast<int>(block.kind), k);
    EXPECT_EQ(block.epoch, 2u);
    EXPECT_EQ(block.first_sequence, static_cast<uint64_t>(k) * kRows);
    ASSERT_EQ(block.rows, kRows);
    const size_t stored = v1 ? ColumnsOfV1(block.kind) : block.columns.size();
    for (size_t c = 0; c < block.columns.size(); ++c) {
      for (uint32_t r = 0; r < kRows; ++r)
        EXPECT_EQ(block.columns[c][r], c < stored ? Cell(k, r, c) : 0) << "column " << c << " row " << r;
    }
  }
  EXPECT_TRUE(rest.empty());
}

TEST(ColumnsGolden, TheFileOfVersionOneIsReadAsItWasWritten) {
  ExpectAll(ReadGoldenV1(), kLastKindOfV1, true);
}

TEST(ColumnsGolden, TheFileOfVersionTwoIsReadAsItWasWritten) { ExpectAll(ReadGolden(), kLastKind, false); }

TEST(ColumnsGolden, WhatIsWrittenTodayReadsTheSame) { ExpectAll(WriteAll(), kLastKind, false); }

TEST(ColumnsGolden, TheWorkedExampleOfTheDocumentHolds) {
  // docs/formats/columns.md: two overhead rows.
  BlockBuilder builder(Kind::kOverhead);
  const uint64_t rows[2][4] = {{1000, 50, 3, 77}, {1300, 50, 3, 77}};
  for (const auto& row : rows) builder.Append(row);
  std::string bytes;
  builder.Encode(4, 12, bytes);
  const auto byte = [&](size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(bytes[i])); };
  EXPECT_EQ(bytes.substr(0, 4), "LSB1");
  EXPECT_EQ(byte(4), 2u);    // version
  EXPECT_EQ(byte(6), 9u);    // kind
  EXPECT_EQ(byte(8), 2u);    // rows
  EXPECT_EQ(byte(12), 12u);  // raw bytes: 01 + (01 d00f d804) + (00 32) + (00 03) + (00 4d)
  EXPECT_EQ(byte(24), 4u);   // epoch
  EXPECT_EQ(byte(32), 12u);  // first sequence
}

}  // namespace
}  // namespace lockstep::columns
