#include "capture/model/disk_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <string>

namespace lockstep::capture {
namespace {

using testing::HasSubstr;

// Memory of this process that no file holds.
uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  uint64_t kib = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kib;
  }
  return kib << 10;
}

std::vector<uint64_t> Numbers(size_t count) {
  std::vector<uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), uint64_t{7});
  return numbers;
}

class DiskRowsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto disk = DiskRows::Create({testing::TempDir(), "/var/tmp", "."});
    // In some containers all folders are in memory, where such a file would save nothing.
    if (!disk.ok()) GTEST_SKIP() << disk.status();
    disk_ = *std::move(disk);
  }
  std::unique_ptr<DiskRows> disk_;
};

TEST_F(DiskRowsTest, KeepsAddressAndContentAndFreesMemory) {
  constexpr size_t kCount = size_t{4} << 20;
  const std::vector<uint64_t> table = Numbers(kCount);
  const uint64_t* const address = table.data();
  const uint64_t before = AnonymousBytes();
  disk_->Take(table);
  EXPECT_GT(disk_->bytes(), kCount * sizeof(uint64_t) - 8192);
  EXPECT_LT(AnonymousBytes(), before - kCount * sizeof(uint64_t) / 2);
  EXPECT_EQ(table.data(), address);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(table[i], i + 7);
}

TEST_F(DiskRowsTest, TablesOutliveTheFileAndMayStillBeWritten) {
  std::vector<uint64_t> table = Numbers(size_t{1} << 20), other = Numbers(size_t{1} << 20);
  disk_->Take(table);
  disk_->Take(other);
  disk_.reset();
  table[4096] = 1;
  table.push_back(2);
  EXPECT_EQ(table[4096], 1u);
  EXPECT_EQ(table[4095], 4095u + 7);
  EXPECT_EQ(other[4096], 4096u + 7) << "a write to one table must not reach the other";
}

TEST_F(DiskRowsTest, ForgetsWhatWasWritten) {
  constexpr size_t kCount = size_t{1} << 20;
  std::vector<uint64_t> table = Numbers(kCount);
  ASSERT_TRUE(disk_->Take(table));
  for (uint64_t& number : table) number = 1;
  const uint64_t written = AnonymousBytes();
  constexpr size_t kFirst = 100'000, kEnd = 900'000, kPage = 512;
  DiskRows::Forget(table, kFirst, kEnd);
  EXPECT_LT(AnonymousBytes(), written - (kEnd - kFirst) * sizeof(uint64_t) / 2);
  EXPECT_EQ(table[kFirst - 1], 1u);
  EXPECT_EQ(table[kEnd], 1u);
  for (size_t i = kFirst + kPage; i < kEnd - kPage; ++i) ASSERT_EQ(table[i], i + 7);
}

TEST_F(DiskRowsTest, AWrittenTableMovesAgainToTheSamePlace) {
  constexpr size_t kCount = size_t{1} << 20;
  std::vector<uint64_t> table = Numbers(kCount);
  ASSERT_GT(disk_->Take(table), 0u);
  const uint64_t on_disk = disk_->bytes();
  for (size_t i = 0; i < kCount; i += 3) table[i] = 1;
  const uint64_t written = AnonymousBytes();
  EXPECT_GT(disk_->Take(table), 0u);
  EXPECT_EQ(disk_->bytes(), on_disk);
  EXPECT_LT(AnonymousBytes(), written - kCount * sizeof(uint64_t) / 2);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(table[i], i % 3 == 0 ? 1 : i + 7);
}

TEST_F(DiskRowsTest, OnlyWrittenPartsMoveAgain) {
  constexpr size_t kCount = size_t{1} << 20, kFirst = 300'000, kEnd = 400'000;
  std::vector<uint64_t> table = Numbers(kCount);
  ASSERT_GT(disk_->Take(table), 0u);
  for (size_t i = kFirst; i < kEnd; ++i) table[i] = 1;
  table[900'000] = 1;
  const uint64_t written = AnonymousBytes();
  EXPECT_GT(disk_->Take(table), kCount * sizeof(uint64_t) - 8192) << "the whole table is on the disk";
  EXPECT_LT(AnonymousBytes(), written - (kEnd - kFirst) * sizeof(uint64_t) / 2);
  for (size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(table[i], (i >= kFirst && i < kEnd) || i == 900'000 ? 1 : i + 7);
}

// A file mapping at these addresses has ended with the first table.
TEST_F(DiskRowsTest, AnotherTableAtTheSameAddressMoves) {
  constexpr size_t kCount = size_t{1} << 20;
  auto first = std::make_unique<std::vector<uint64_t>>(Numbers(kCount));
  ASSERT_GT(disk_->Take(*first), 0u);
  const uint64_t* const address = first->data();
  first.reset();
  std::vector<uint64_t> second(kCount, 3);
  // Only a table at the address of the old one can be mistaken for it.
  if (second.data() != address) GTEST_SKIP() << "the allocator chose another address";
  ASSERT_GT(disk_->Take(second), 0u);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(second[i], 3u);
}

// Its rows of before are in the old place of the file until they are in the new one.
TEST_F(DiskRowsTest, ATableThatGrewMovesInWhole) {
  constexpr size_t kCount = size_t{1} << 19;
  std::vector<uint64_t> table = Numbers(kCount);
  table.reserve(2 * kCount);
  ASSERT_GT(disk_->Take(table), 0u);
  for (size_t i = kCount; i < 2 * kCount; ++i) table.push_back(i + 7);
  ASSERT_GT(disk_->Take(table), 0u);
  EXPECT_LT(disk_->bytes(), 2 * kCount * sizeof(uint64_t) + 1) << "the old place is free";
  for (size_t i = 0; i < 2 * kCount; ++i) ASSERT_EQ(table[i], i + 7);
}

// The allocator may give the memory of a freed table to others.
TEST_F(DiskRowsTest, FreedTablesLeaveUsableMemory) {
  for (int round = 0; round < 50; ++round) {
    std::vector<uint64_t> table = Numbers((size_t{64} << 10) * (1 + round % 5));
    disk_->Take(table);
    std::vector<uint64_t> next = std::move(table);
    next = Numbers(next.size());
    ASSERT_EQ(next.back(), next.size() + 6);
  }
}

TEST_F(DiskRowsTest, SmallTablesStayInMemory) {
  EXPECT_FALSE(disk_->Take(Numbers(100)));
  EXPECT_EQ(disk_->bytes(), 0u);
}

TEST(DiskRows, NamesFoldersThatDoNotServe) {
  const auto none = DiskRows::Create({"/proc", "/nothing-here"});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("/nothing-here: No such file or directory"));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("set TMPDIR"));
}

}  // namespace
}  // namespace lockstep::capture
