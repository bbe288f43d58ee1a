#include "capture/model/row_overflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "capture/model/compact.h"
#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::capture {
namespace {

const std::vector<std::string>& Folders() {
  static const auto* const folders = new std::vector<std::string>{testing::TempDir(), "/var/tmp", "."};
  return *folders;
}

RowOverflow WithRoomFor(uint64_t rows) {
  return RowOverflow([rows](uint64_t read, uint64_t) { return read <= rows; }, Folders());
}

// In some containers all folders are in memory, where such a file would save nothing.
#define SKIP_WITHOUT_A_DISK() \
  if (auto disk = DiskRows::Create(Folders()); !disk.ok()) GTEST_SKIP() << disk.status()

TEST(RowOverflow, NothingMovesBeforeTheRowsDoNotFit) {
  SKIP_WITHOUT_A_DISK();
  RowOverflow overflow = WithRoomFor(100);
  std::vector<uint64_t> table(size_t{1} << 16, 7);
  EXPECT_FALSE(overflow.Add(60, 0));
  overflow.Move(table);
  EXPECT_FALSE(overflow.full());
  EXPECT_TRUE(overflow.Add(60, 0));
  overflow.Move(table);
  EXPECT_GT(overflow.TakeDisk()->bytes(), 500'000u);
  EXPECT_EQ(table.back(), 7u);
}

TEST(RowOverflow, RemovedRowsDoNotCount) {
  SKIP_WITHOUT_A_DISK();
  RowOverflow overflow = WithRoomFor(100);
  for (int file = 0; file < 10; ++file) {
    EXPECT_FALSE(overflow.Add(60, 10));
    overflow.Remove(60, 10);
  }
  EXPECT_EQ(overflow.TakeDisk(), nullptr);
}

TEST(RowOverflow, WithoutADiskAllStaysInMemory) {
  RowOverflow overflow([](uint64_t, uint64_t) { return false; }, {"/proc", "/nothing-here"});
  std::vector<uint64_t> table(size_t{1} << 16, 7);
  EXPECT_FALSE(overflow.Add(1, 1));
  overflow.Move(table);
  EXPECT_EQ(overflow.TakeDisk(), nullptr);
}

TEST(RowOverflow, NoTableMovesOnceTheDiskWasTaken) {
  SKIP_WITHOUT_A_DISK();
  RowOverflow overflow = WithRoomFor(0);
  ASSERT_TRUE(overflow.Add(1, 1));
  const auto disk = overflow.TakeDisk();
  std::vector<uint64_t> table(size_t{1} << 16, 7);
  overflow.Move(table);
  EXPECT_EQ(disk->bytes(), 0u);
}

// Ranks with linker names, unsorted rows, copies without a name, and kernels without a collective.
Capture Unfinished() {
  Capture capture;
  for (int r = 0; r < 3; ++r) {
    RankData& rank = capture.ranks.emplace_back();
    rank.rank = RankId(2 - r);
    rank.host = 0;
    for (int i = 0; i < 8000; ++i) {
      const HostTime start(int64_t{1000} * ((i * 4001) % 8000));
      DeviceActivity a{.start = start, .end = start + Nanos(500)};
      a.stream = StreamId(7);
      a.detail = static_cast<uint32_t>(rank.kernel_details.size());
      a.name = capture.strings.Intern(i % 3 == 0 ? "_Z4gemmi" : "ncclDevKernel_AllReduce_Sum_f32");
      if (i % 5 == 0) {
        a.kind = ActivityKind::kMemcpy;
        a.name = kNoName;
        a.detail = static_cast<uint32_t>(rank.copy_details.size());
        rank.copy_details.push_back({.bytes = 1, .copy_kind = static_cast<uint8_t>(1 + i % 2)});
      } else {
        rank.kernel_details.push_back({.grid = {static_cast<uint32_t>(1 + i % 7), 1, 1}});
      }
      rank.activities.push_back(a);
    }
  }
  capture.hosts.push_back({.id = "node", .name = "node"});
  return capture;
}

void ExpectEqual(const Capture& a, const Capture& b) {
  ASSERT_EQ(a.strings.size(), b.strings.size());
  for (uint32_t i = 0; i < a.strings.size(); ++i) EXPECT_EQ(a.Text(NameId(i)), b.Text(NameId(i)));
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t r = 0; r < a.ranks.size(); ++r) {
    const RankData &x = a.ranks[r], &y = b.ranks[r];
    EXPECT_EQ(x.rank, y.rank);
    EXPECT_EQ(x.kernel_details, y.kernel_details);
    ASSERT_EQ(x.activities.size(), y.activities.size());
    for (size_t i = 0; i < x.activities.size(); ++i) {
      const DeviceActivity &m = x.activities[i], &n = y.activities[i];
      ASSERT_TRUE(m.start == n.start && m.end == n.end && m.name == n.name && m.detail == n.detail &&
                  m.collective == n.collective && m.communication == n.communication)
          << r << " " << i;
    }
    ASSERT_EQ(x.collectives.size(), y.collectives.size());
    for (size_t i = 0; i < x.collectives.size(); ++i)
      ASSERT_TRUE(x.collectives[i].activity == y.collectives[i].activity &&
                  x.collectives[i].op == y.collectives[i].op &&
                  x.collectives[i].group == y.collectives[i].group);
  }
}

TEST(RowOverflow, ACaptureThatMovedWhileItWasReadFinishesTheSame) {
  SKIP_WITHOUT_A_DISK();
  Capture in_memory = Unfinished(), moved = Unfinished();
  RowOverflow overflow = WithRoomFor(0);
  ASSERT_TRUE(overflow.Add(1, 1));
  for (RankData& rank : moved.ranks) {
    Compact(rank);
    overflow.Move(rank);
  }
  Finish(in_memory);
  Finish(moved, &overflow);
  EXPECT_GT(overflow.TakeDisk()->bytes(), 900'000u);
  ExpectEqual(in_memory, moved);
}

}  // namespace
}  // namespace lockstep::capture
