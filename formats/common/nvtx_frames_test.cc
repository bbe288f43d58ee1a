#include "formats/common/nvtx_frames.h"

#include <gtest/gtest.h>

#include <string>

#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::formats {
namespace {

using capture::FrameKind;
using capture::TimelineBuilder;

class NvtxFrames : public ::testing::Test {
 public:
  NvtxFrames& Range(std::string_view name, double start_us, double end_us, std::string_view domain = "",
                    int64_t thread = 1) {
    capture::HostRange range{.start = TimelineBuilder::At(start_us), .end = TimelineBuilder::At(end_us)};
    range.name = strings_.Intern(name);
    range.domain = strings_.Intern(domain);
    range.thread = ThreadId(thread);
    ranges_.push_back(range);
    return *this;
  }
  void Make() { frames_ = FramesOfRanges(ranges_, strings_); }
  std::string_view Name(size_t i) const { return strings_.Text(frames_.frames[i].name); }
  const capture::FrameDetail& Detail(size_t i) const { return frames_.details.at(frames_.frames[i].detail); }
  std::string_view Text(NameId id) const { return strings_.Text(id); }

  capture::StringTable strings_;
  std::vector<capture::HostRange> ranges_;
  capture::HostFrames frames_;
};

TEST_F(NvtxFrames, ReadsOperatorsOfEmitNvtx) {
  Range("my layer", 0, 100)
      .Range("aten::conv2d, seq = 12, sizes = [[64, 3, 7, 7], []]", 10, 90)
      .Range("aten::add, seq = 45440, op_id = 990760", 20, 30)
      .Range("autograd::engine::evaluate_function: AddmmBackward0, op_id = 7", 40, 50)
      .Range("FSDP::post_forward (blocks.2), op_id = 990874", 60, 70)
      .Range("aten::mul, seq = 3, op_id = 4, sizes = [[2], [2]], input_op_ids = [(3, 0), (1, 0)]", 75, 80);
  Make();
  ASSERT_EQ(frames_.frames.size(), 6u);
  EXPECT_EQ(Name(0), "my layer");
  EXPECT_EQ(frames_.frames[0].kind, FrameKind::kAnnotation);
  EXPECT_EQ(frames_.frames[0].detail, capture::kNone);
  EXPECT_EQ(Name(1), "aten::conv2d");
  EXPECT_EQ(frames_.frames[1].kind, FrameKind::kOperator);
  EXPECT_EQ(Detail(1).sequence, 12);
  EXPECT_EQ(Text(Detail(1).shapes), "[[64, 3, 7, 7], []]");
  EXPECT_EQ(Detail(2).sequence, 45440);
  EXPECT_EQ(Detail(2).shapes, kNoName);
  EXPECT_EQ(frames_.frames[3].kind, FrameKind::kOperator);
  EXPECT_EQ(frames_.frames[4].kind, FrameKind::kAnnotation);
  EXPECT_EQ(Text(Detail(5).shapes), "[[2], [2]]");
}

TEST_F(NvtxFrames, ReadsPyProfMarkersWithTheirCallTrace) {
  Range("{'traceMarker': ['train.py:80', 'model.py:12']}", 0, 100)
      .Range(
          "{'mod': 'torch.nn.functional', 'op': 'conv2d', 'args': [{'name': '', 'type': 'tensor', 'shape': "
          "(64, 3, 224, 224), 'dtype': "
          "'float16'}, {'name': '', 'type': 'tensor', 'shape': (64,), 'dtype': 'float32'}, {'name': "
          "'stride', 'type': 'tuple', 'value': (2, 2)}]}",
          1, 99);
  Make();
  ASSERT_EQ(frames_.frames.size(), 1u);
  EXPECT_EQ(Name(0), "torch.nn.functional.conv2d");
  EXPECT_EQ(frames_.frames[0].kind, FrameKind::kOperator);
  EXPECT_EQ(Text(Detail(0).shapes), "[[64, 3, 224, 224], [64], []]");
  EXPECT_EQ(Text(Detail(0).types), R"(["c10::Half", "float", "Scalar"])");
  EXPECT_EQ(Text(Detail(0).values), R"(["", "", "stride=[2, 2]"])");
  EXPECT_EQ(Text(Detail(0).stack), "model.py:12;train.py:80");
}

TEST_F(NvtxFrames, OtherTextsArePlainNames) {
  const std::string deep = "{'mod': 'm', 'op': 'o', 'args': " + std::string(5000, '[');
  const std::string texts[] = {"{'mod': 'torch', 'op': 'add', 'args': [",
                               "{'mod'",
                               "{'mod': 5, 'op': }",
                               "{'traceMarker': 'no list'}",
                               "{\"mod\": \"x\"}",
                               deep,
                               "{'mod': 'm', 'op': 'o\\"};
  double at = 0;
  for (const std::string& text : texts) Range(text, at, at + 1), at += 2;
  Make();
  ASSERT_EQ(frames_.frames.size(), std::size(texts));
  for (size_t i = 0; i < std::size(texts); ++i) {
    EXPECT_EQ(Name(i), texts[i]);
    EXPECT_EQ(frames_.frames[i].kind, FrameKind::kAnnotation);
  }
}

TEST_F(NvtxFrames, LeavesOutDamagedPartsOfAnOperator) {
  Range("aten::mm, seq = 99999999999999999999, sizes = [[1, 2", 0, 1)
      .Range("aten::mm, seq = -4, sizes = [[1], 'x']", 2, 3)
      .Range("aten::mm, seq = 5, sizes = [[[[[1]]]]]", 4, 5)
      .Range(", seq = 5", 6, 7)
      .Range("{'mod': 'm', 'op': 'o', 'args': [{'type': 'tensor', 'shape': (2, 'x')}, 7]}", 8, 9);
  Make();
  ASSERT_EQ(frames_.frames.size(), 5u);
  EXPECT_EQ(frames_.frames[0].detail, capture::kNone);
  EXPECT_EQ(frames_.frames[1].detail, capture::kNone);
  EXPECT_EQ(Detail(2).sequence, 5);
  EXPECT_EQ(Detail(2).shapes, kNoName);
  EXPECT_EQ(Name(3), ", seq = 5");
  EXPECT_EQ(Text(Detail(4).shapes), "[[], []]");
}

TEST_F(NvtxFrames, IgnoresMarksAndReadsNcclCallsAsOperators) {
  Range("mark", 5, 5).Range("ncclAllReduce", 6, 8, "NCCL");
  Make();
  ASSERT_EQ(frames_.frames.size(), 1u);
  EXPECT_EQ(Name(0), "ncclAllReduce");
  EXPECT_EQ(frames_.frames[0].kind, FrameKind::kOperator);
}

TEST(AddNvtxFrames, AddsFramesOnlyToProcessesWithoutFrames) {
  TimelineBuilder t;
  t.Rank(0).Range("aten::mm, seq = 1", 0, 10).Kernel("gemm", 5, 10);
  t.Rank(1).Kernel("gemm", 5, 10);
  t.Rank(2).Range("aten::mm, seq = 1", 0, 10).Kernel("gemm", 5, 10);
  capture::Capture capture = t.Build();
  const auto own = std::make_shared<const capture::HostFrames>();
  capture.ranks[2].frames = own;
  AddNvtxFrames(capture);
  ASSERT_NE(capture.ranks[0].frames, nullptr);
  EXPECT_EQ(capture.Text(capture.ranks[0].frames->frames.at(0).name), "aten::mm");
  EXPECT_EQ(capture.ranks[1].frames, nullptr);
  EXPECT_EQ(capture.ranks[2].frames, own);
}

}  // namespace
}  // namespace lockstep::formats
