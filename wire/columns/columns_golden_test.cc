// Compares with the golden files of the format: later versions must still read these blocks.
// LOCKSTEP_UPDATE_GOLDEN=1 writes the current file again after a version change.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::columns {
namespace {

constexpr char kGoldenV1[] = LOCKSTEP_GOLDEN_DIR "/columns/blocks_v1.bin";
constexpr char kGolden[] = LOCKSTEP_GOLDEN_DIR "/columns/blocks_v2.bin";

// Each cell has a value of its own, so that the test notices a column in the wrong place.
uint64_t Cell(int kind, uint32_t row, size_t column) {
  if (column == 0) return 1'700'000'000'000'000'000ull + row * 1234;
  if (column == 3) return 5;
  return row % 3 == 2 ? static_cast<uint64_t>(-static_cast<int64_t>(column))
                      : kind * 1000 + column * 10 + row;
}
constexpr uint32_t kRows = 5;
constexpr int kLastKind = static_cast<int>(Kind::kMemoryOp);
constexpr int kLastKindOfV1 = static_cast<int>(Kind::kClock);

// A later version may have appended columns, which a file of an earlier one does not have. They are 0, and
// Cell() is not 0 in the last column of a file. Returns the number of the columns before them.
size_t StoredColumns(const DecodedBlock& block) {
  size_t stored = block.columns.size();
  while (stored > 0 && std::all_of(block.columns[stored - 1].begin(), block.columns[stored - 1].end(),
                                   [](uint64_t cell) { return cell == 0; }))
    --stored;
  return stored;
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

// Expects `columns` columns in all blocks together.
void ExpectAll(const std::string& bytes, int last_kind, size_t columns) {
  size_t found = 0;
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
    const size_t stored = StoredColumns(block);
    found += stored;
    for (size_t c = 0; c < block.columns.size(); ++c) {
      for (uint32_t r = 0; r < kRows; ++r)
        EXPECT_EQ(block.columns[c][r], c < stored ? Cell(k, r, c) : 0) << "column " << c << " row " << r;
    }
  }
  EXPECT_TRUE(rest.empty());
  EXPECT_EQ(found, columns);
}

TEST(ColumnsGolden, ReadsTheFileOfVersionOne) { ExpectAll(ReadGoldenV1(), kLastKindOfV1, 111); }

TEST(ColumnsGolden, ReadsTheFileOfVersionTwo) { ExpectAll(ReadGolden(), kLastKind, 191); }

TEST(ColumnsGolden, CurrentFormatRoundTrips) {
  size_t columns = 0;
  for (int k = 2; k <= kLastKind; ++k) columns += Schema(static_cast<Kind>(k)).size();
  ExpectAll(WriteAll(), kLastKind, columns);
}

TEST(ColumnsGolden, TheDocumentsWorkedExampleIsCorrect) {
  // docs/formats/columns.md shows these two overhead rows.
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
