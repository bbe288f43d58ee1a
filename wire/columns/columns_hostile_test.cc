// Decodes hostile blocks: truncated, with flipped bits, forged, and decompression bombs.
#include <zlib.h>
#include <zstd.h>

#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "wire/columns/columns.h"
#include "wire/columns/varint.h"

namespace lockstep::columns {
namespace {

std::span<const std::byte> Bytes(std::string_view s) { return std::as_bytes(std::span(s)); }

std::string KernelBlock(uint32_t rows) {
  BlockBuilder builder(Kind::kKernel);
  std::mt19937_64 random(3);
  for (uint32_t i = 0; i < rows; ++i) {
    std::vector<uint64_t> row(kernel::kColumns);
    for (uint64_t& v : row) v = random() % 1000;
    builder.Append(row);
  }
  std::string out;
  builder.Encode(1, 5, out);
  return out;
}

std::string StringBlock() {
  std::string out;
  EncodeStrings(
      1, std::vector<StringDefinition>{{1, "void gemm<float>(int)"}, {2, "ncclDevKernel_AllReduce"}}, out);
  return out;
}

// Returns a block with valid sizes and checksum around a payload that an attacker chose.
std::string Forge(Kind kind, uint32_t rows, const std::string& raw, uint16_t version = kBlockVersion) {
  std::string stored(ZSTD_compressBound(raw.size()), '\0');
  stored.resize(ZSTD_compress(stored.data(), stored.size(), raw.data(), raw.size(), 1));
  BlockHeader header{};
  header.magic = kBlockMagic;
  header.version = version;
  header.kind = static_cast<uint16_t>(kind);
  header.rows = rows;
  header.raw_bytes = static_cast<uint32_t>(raw.size());
  header.stored_bytes = static_cast<uint32_t>(stored.size());
  uLong crc = crc32(0, reinterpret_cast<const Bytef*>(&header), sizeof(header));
  header.checksum =
      static_cast<uint32_t>(crc32(crc, reinterpret_cast<const Bytef*>(stored.data()), stored.size()));
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + stored;
}

absl::StatusCode CodeOf(std::string_view bytes, size_t* skip = nullptr) {
  DecodedBlock block;
  return Decode(Bytes(bytes), block, skip).status().code();
}

TEST(HostileBlocks, ATruncatedBlockReportsTheEndOfTheData) {
  for (const std::string& whole : {KernelBlock(20), StringBlock()}) {
    for (size_t n = 0; n < whole.size(); ++n) {
      ASSERT_EQ(CodeOf(std::string_view(whole).substr(0, n)), absl::StatusCode::kOutOfRange) << n;
    }
  }
}

TEST(HostileBlocks, DetectsAnyFlippedBit) {
  for (const std::string& whole : {KernelBlock(20), StringBlock()}) {
    for (size_t byte = 0; byte < whole.size(); ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bad = whole;
        bad[byte] = static_cast<char>(bad[byte] ^ (1 << bit));
        const absl::StatusCode code = CodeOf(bad);
        ASSERT_TRUE(code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kOutOfRange)
            << "byte " << byte << " bit " << bit << " gave " << static_cast<int>(code);
      }
    }
  }
}

TEST(HostileBlocks, RefusesANewerVersionWhichCanBeSkipped) {
  const std::string block = Forge(Kind::kKernel, 1, "anything", 7);
  DecodedBlock decoded;
  size_t skip = 0;
  const absl::Status status = Decode(Bytes(block), decoded, &skip).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("version 7"), absl::string_view::npos) << status;
  EXPECT_EQ(skip, block.size());
}

TEST(HostileBlocks, AnUnknownKindCanBeSkipped) {
  const std::string block = Forge(static_cast<Kind>(77), 1, "anything");
  size_t skip = 0;
  EXPECT_EQ(CodeOf(block, &skip), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(skip, block.size());
}

TEST(HostileBlocks, ReportsForeignBytesAsDamage) {
  size_t skip = 1;
  EXPECT_EQ(CodeOf(std::string(100, 'x'), &skip), absl::StatusCode::kDataLoss);
  EXPECT_EQ(skip, 0u);
  EXPECT_EQ(CodeOf("xy"), absl::StatusCode::kDataLoss);
}

TEST(HostileBlocks, RefusesADecompressionBombBeforeInflating) {
  // The block has 64 MiB of zeros in a few KiB, and its header says 16 bytes. The size in the zstd frame
  // contradicts the header.
  std::string block = Forge(Kind::kKernel, 1, std::string(64u << 20, '\0'));
  BlockHeader header;
  std::memcpy(&header, block.data(), sizeof(header));
  EXPECT_EQ(CodeOf(block), absl::StatusCode::kDataLoss);  // too large for one row, so it is never allocated
  header.raw_bytes = 16 << 10;
  header.rows = 2000;
  header.checksum = 0;
  uLong crc = crc32(0, reinterpret_cast<const Bytef*>(&header), sizeof(header));
  header.checksum = static_cast<uint32_t>(crc32(
      crc, reinterpret_cast<const Bytef*>(block.data()) + sizeof(header), block.size() - sizeof(header)));
  std::memcpy(block.data(), &header, sizeof(header));
  DecodedBlock decoded;
  EXPECT_EQ(Decode(Bytes(block), decoded).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_LT(decoded.text_storage.capacity(), 1u << 20);
}

TEST(HostileBlocks, RefusesSizesAboveTheCapByTheHeader) {
  BlockHeader header{};
  header.magic = kBlockMagic;
  header.version = kBlockVersion;
  header.kind = static_cast<uint16_t>(Kind::kString);
  header.rows = 1;
  header.raw_bytes = kMaxRawBytes + 1;
  header.stored_bytes = 10;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.resize(bytes.size() + 10);
  EXPECT_EQ(CodeOf(bytes), absl::StatusCode::kDataLoss);
  header.raw_bytes = 100;
  header.stored_bytes = 0xFFFFFFFF;
  std::memcpy(bytes.data(), &header, sizeof(header));
  EXPECT_EQ(CodeOf(bytes), absl::StatusCode::kDataLoss);
}

TEST(HostileBlocks, RefusesRowCountsAboveThePayload) {
  const std::string one_row("\x01\x01\x00", 3);  // one column, per row, one varint
  EXPECT_EQ(CodeOf(Forge(Kind::kKernel, 1, one_row)), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(Forge(Kind::kKernel, 2, one_row)), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(Forge(Kind::kKernel, 0, one_row)), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(Forge(Kind::kKernel, kMaxRows + 1, one_row)), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(Forge(Kind::kString, kMaxRows, "\x01\x01x")), absl::StatusCode::kDataLoss);
}

TEST(HostileBlocks, AnOlderBlockWithFewerColumnsHasZeroInTheOthers) {
  DecodedBlock block;
  const std::string bytes =
      Forge(Kind::kKernel, 1, std::string("\x01\x00\x54", 3));  // start only; a constant has no zigzag
  ASSERT_TRUE(Decode(Bytes(bytes), block).ok());
  EXPECT_EQ(block.columns[kernel::kStart][0], 0x54u);
  EXPECT_EQ(block.columns[kernel::kChannel][0], 0u);
}

TEST(HostileBlocks, SkipsColumnsOfALaterVersion) {
  constexpr char kMore = static_cast<char>(kernel::kColumns + 2);
  std::string raw(1, kMore);
  for (size_t c = 0; c < kernel::kColumns; ++c) raw += std::string("\x00\x05", 2);
  raw += std::string("\x00\x07", 2);          // a constant
  raw += std::string("\x01\x81\x01\x02", 4);  // two rows
  DecodedBlock block;
  ASSERT_TRUE(Decode(Bytes(Forge(Kind::kKernel, 2, raw)), block).ok());
  ASSERT_EQ(block.columns.size(), kernel::kColumns);
  EXPECT_EQ(block.columns[kernel::kChannel], (std::vector<uint64_t>{5, 5}));
  raw.pop_back();
  EXPECT_EQ(CodeOf(Forge(Kind::kKernel, 2, raw)), absl::StatusCode::kDataLoss);
}

TEST(HostileBlocks, RefusesUnparsablePayloads) {
  const std::string too_many_columns("\x50\x00\x00", 3);
  const std::string unknown_mode("\x01\x07\x00", 3);
  const std::string trailing("\x01\x00\x00\x00", 4);
  const std::string endless_varint = std::string("\x01\x00", 2) + std::string(11, '\xff');
  const std::string varint_of_70_bits = std::string("\x01\x00", 2) + std::string(9, '\xff') + "\x02";
  for (const std::string& raw :
       {std::string(), too_many_columns, unknown_mode, trailing, endless_varint, varint_of_70_bits}) {
    EXPECT_EQ(CodeOf(Forge(Kind::kKernel, 1, raw)), absl::StatusCode::kDataLoss);
  }
  EXPECT_EQ(CodeOf(Forge(Kind::kString, 1, std::string("\x01\x7fx", 3))), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(Forge(Kind::kString, 1, std::string("\xff\xff\xff\xff\x7f\x00", 6))),
            absl::StatusCode::kDataLoss);
}

TEST(HostileBlocks, RandomPayloadsNeverCrash) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 20000; ++round) {
    std::string raw(random() % 64, '\0');
    for (char& c : raw) c = static_cast<char>(random());
    const auto kind = static_cast<Kind>(1 + random() % 14);
    DecodedBlock block;
    auto taken = Decode(Bytes(Forge(kind, 1 + random() % 8, raw)), block);
    if (taken.ok()) {
      for (const auto& column : block.columns) EXPECT_EQ(column.size(), block.rows);
    } else {
      EXPECT_EQ(taken.status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

TEST(Varints, EveryLengthRoundTrips) {
  for (int bits = 0; bits < 64; ++bits) {
    for (uint64_t v : {uint64_t{1} << bits, (uint64_t{1} << bits) - 1}) {
      uint8_t buffer[kMaxVarintBytes];
      uint8_t* end = PutVarint(buffer, v);
      uint64_t got = 0;
      EXPECT_EQ(GetVarint(buffer, end, got), end);
      EXPECT_EQ(got, v);
      EXPECT_EQ(GetVarint(buffer, end - 1, got), nullptr);
      EXPECT_EQ(UnZigZag(ZigZag(v)), v);
    }
  }
}

}  // namespace
}  // namespace lockstep::columns
