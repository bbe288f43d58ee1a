#include "views/device/kernel_sequences.h"

#include <gtest/gtest.h>

#include <string>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::TimelineBuilder;

std::string TextOf(const capture::Capture& capture, const KernelSequence& row) {
  std::string text(row.op);
  for (const NameId name : row.work) text += " " + std::string(capture.Text(name));
  return text;
}

// Each rank calls an operator three times. The second call does different work.
capture::Capture TwoSequenceRanks() {
  TimelineBuilder t;
  for (int rank = 0; rank < 2; ++rank) {
    for (int call = 0; call < 3; ++call) {
      const double at = 1000 * call;
      // Launched in this order, but started in another one: the last, on another stream, starts before the
      // second.
      t.Rank(rank)
          .Kernel("norm", at + 100, 10, 7, at + 10)
          .Kernel(call == 1 ? "scale_slow" : "scale", at + 120, 20, 7, at + 20)
          .Kernel("add", at + 110, 5, 8, at + 30);
    }
  }
  capture::Capture capture = t.Build();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    FramesBuilder frames(capture);
    for (int call = 0; call < 3; ++call) {
      const double at = 1000 * call;
      frames.Frame("layer", at, at + 60)
          .Frame("inner", at + 15, at + 40)
          .Frame("aten::norm", at + 8, at + 14);
    }
    frames.To(rank);
  }
  return capture;
}

TEST(KernelSequences, GroupsCallsWithEqualWork) {
  const capture::Capture capture = TwoSequenceRanks();
  const KernelSequences sequences = KernelSequencesOf(capture, LaunchRanks::kTogether);
  ASSERT_EQ(sequences.rows.size(), 2u) << "operators with fewer than three pieces have none";
  EXPECT_EQ(TextOf(capture, sequences.rows[0]), "layer norm add scale");
  EXPECT_EQ(sequences.rows[0].calls, 4u);
  EXPECT_EQ(sequences.rows[0].device, Nanos::Micros(4 * 35));
  EXPECT_EQ(sequences.rows[0].host, Nanos::Micros(4 * 60));
  EXPECT_EQ(TextOf(capture, sequences.rows[1]), "layer norm add scale_slow");
  EXPECT_EQ(sequences.rows[1].calls, 2u);
  EXPECT_EQ(sequences.longer, 0u);
}

TEST(KernelSequences, GroupsByRank) {
  const capture::Capture capture = TwoSequenceRanks();
  const KernelSequences sequences = KernelSequencesOf(capture, LaunchRanks::kEach);
  ASSERT_EQ(sequences.rows.size(), 4u);
  EXPECT_EQ(sequences.rows[0].rank, RankId(0));
  EXPECT_EQ(sequences.rows[1].rank, RankId(1));
  EXPECT_EQ(sequences.rows[1].calls, 2u);
}

TEST(KernelSequences, AWholePassIsNotASequence) {
  TimelineBuilder t;
  for (int i = 0; i < static_cast<int>(kLongestSequence) + 1; ++i)
    t.Rank(0).Kernel("k", 500 + 2 * i, 1, 7, i * 3);
  capture::Capture capture = t.Build();
  FramesBuilder(capture).Frame("pass", 0, 400).Frame("half", 0, 150).To(0);
  const KernelSequences sequences = KernelSequencesOf(capture, LaunchRanks::kTogether);
  EXPECT_EQ(sequences.longer, 1u);
  ASSERT_EQ(sequences.rows.size(), 1u);
  EXPECT_EQ(sequences.rows[0].op, "half");
}

TEST(KernelSequences, HasNoRowsWithoutFrames) {
  TimelineBuilder t;
  t.Rank(0).Kernel("a", 10, 1, 7, 0).Kernel("b", 20, 1, 7, 1).Kernel("c", 30, 1, 7, 2);
  EXPECT_TRUE(KernelSequencesOf(t.Build(), LaunchRanks::kTogether).rows.empty());
}

}  // namespace
}  // namespace lockstep::views
