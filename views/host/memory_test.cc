#include "views/host/memory.h"

#include <gtest/gtest.h>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::TimelineBuilder;
using capture::Us;

const OperatorMemory& Named(const Memory& memory, std::string_view name, int32_t device = 0) {
  for (const OperatorMemory& row : memory.operators) {
    if (row.name == name && row.place.device == device) return row;
  }
  ADD_FAILURE() << "no row " << name;
  static const OperatorMemory kNone;
  return kNone;
}

// conv calls empty, which allocates 100 and 30. relu allocates 50 and releases the 100. 7 are allocated
// outside of any operator.
capture::Capture ThreeOperators() {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 1);
  capture::Capture capture = t.Build();
  FramesBuilder(capture)
      .Frame("aten::conv2d", 0, 50)
      .Frame("aten::empty", 10, 20)
      .Frame("aten::relu", 60, 90)
      .Frame("aten::relu", 100, 110)
      .Allocation(12, 100, 0, 0xA)
      .Allocation(15, 30, 0, 0xB)
      .Allocation(65, 50, 0, 0xC)
      .Allocation(70, -100, 0, 0xA)
      .Allocation(75, 8, -1, 0xA)
      .Allocation(95, -7, 0, 0xD)
      .To(0);
  return capture;
}

TEST(Memory, CountsMemoryForTheInnermostOperatorAndItsCallers) {
  const capture::Capture capture = ThreeOperators();
  const Memory memory = MemoryOf(capture);
  const OperatorMemory& empty = Named(memory, "aten::empty");
  EXPECT_EQ(empty.self_increase, 130);
  EXPECT_EQ(empty.self_allocations, 2u);
  const OperatorMemory& conv = Named(memory, "aten::conv2d");
  EXPECT_EQ(conv.self_increase, 0);
  EXPECT_EQ(conv.increase, 130);
  EXPECT_EQ(conv.allocations, 2u);
  EXPECT_EQ(conv.allocated, 130);
  const OperatorMemory& relu = Named(memory, "aten::relu");
  EXPECT_EQ(relu.calls, 2u) << "also the one that allocated nothing";
  EXPECT_EQ(relu.increase, -50);
  EXPECT_EQ(relu.allocated, 50) << "releases are not taken off";
  EXPECT_EQ(Named(memory, "aten::relu", -1).increase, 8) << "the host's memory on its own";
  EXPECT_EQ(memory.outside, 1u);
}

TEST(Memory, PairsAllocationsAndReleasesByAddressAndDevice) {
  const capture::Capture capture = ThreeOperators();
  const Memory memory = MemoryOf(capture);
  ASSERT_EQ(memory.lives.size(), 5u);
  EXPECT_EQ(memory.lives[0].place.device, -1);
  EXPECT_FALSE(memory.lives[0].released) << "the device's release at the same address is another's";
  const MemoryLife& first = memory.lives[1];
  EXPECT_EQ(first.by, "aten::conv2d (aten::empty)");
  EXPECT_EQ(*first.released - *first.allocated, Us(58));
  EXPECT_EQ(first.bytes, 100);
  EXPECT_FALSE(memory.lives[2].released);
  EXPECT_EQ(memory.lives[3].by, "aten::relu");
  EXPECT_FALSE(memory.lives[4].allocated) << "released, but allocated before the capture";
  EXPECT_EQ(memory.lives[4].bytes, 7);
  EXPECT_EQ(memory.lives[4].by, "");
}

TEST(Memory, TheCurveUsesTheAllocatorsTotalsOrCounts) {
  capture::Capture capture = ThreeOperators();
  std::vector<int64_t> in_use;
  for (const MemoryPoint& p : MemoryOf(capture).curve) {
    EXPECT_TRUE(p.relative);
    if (p.place.device == 0) in_use.push_back(p.in_use);
  }
  EXPECT_EQ(in_use, (std::vector<int64_t>{100, 130, 180, 80, 73}));
  FramesBuilder(capture).Frame("aten::empty", 0, 10).Allocation(1, 100).AllocatorTotals(1100, 4096).To(0);
  const Memory memory = MemoryOf(capture);
  ASSERT_EQ(memory.curve.size(), 1u);
  EXPECT_EQ(memory.curve[0].in_use, 1100);
  EXPECT_EQ(memory.curve[0].reserved, 4096);
  EXPECT_FALSE(memory.curve[0].relative);
  EXPECT_TRUE(memory.lives.empty()) << "no address";
  EXPECT_EQ(memory.without_address, 1u);
}

TEST(Memory, CudaMallocIsInUseUntilCudaFree) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 1).Api("cudaMalloc", 10, 5);
  capture::Capture capture = t.Build();
  capture::RankData& rank = capture.ranks[0];
  rank.api_calls[0].correlation = CorrelationId(77);
  const auto op = [](double us, uint64_t address, uint64_t bytes, bool release, uint8_t kind = 3) {
    return capture::MemoryOp{.time = TimelineBuilder::At(us),
                             .correlation = CorrelationId(release ? 0 : 77),
                             .address = address,
                             .bytes = bytes,
                             .memory_kind = kind,
                             .release = release};
  };
  rank.memory_ops = {op(11, 0x1000, 256, false), op(12, 0x9000, 64, false, 2), op(20, 0x1000, 0, true)};
  const Memory memory = MemoryOf(capture);
  EXPECT_EQ(memory.runtime_calls, 3u);
  ASSERT_EQ(memory.lives.size(), 2u);
  EXPECT_EQ(memory.lives[0].kind, "pinned");
  EXPECT_EQ(memory.lives[0].place.device, -1);
  EXPECT_EQ(memory.lives[1].by, "cudaMalloc");
  EXPECT_EQ(*memory.lives[1].released - *memory.lives[1].allocated, Us(9));
  EXPECT_EQ(memory.curve.back().in_use, 0)
      << "a free that does not say how much frees what was allocated there";
}

TEST(Memory, AnEmptyCaptureHasNoMemory) {
  TimelineBuilder t;
  t.Rank(0).Kernel("k", 0, 1);
  const capture::Capture capture = t.Build();
  const Memory memory = MemoryOf(capture);
  EXPECT_TRUE(memory.operators.empty());
  EXPECT_TRUE(memory.curve.empty());
}

}  // namespace
}  // namespace lockstep::views
