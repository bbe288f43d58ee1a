#include "views/host/layers.h"

#include <gtest/gtest.h>

#include "views/host/frames_fixture.h"

namespace lockstep::views {
namespace {

using capture::FrameKind;
using capture::TimelineBuilder;

constexpr char kFloats[] = R"(["float", "float"])";

// One step: a linear layer forward on thread 1, its backward pass on thread 2, then an optimizer without
// shapes.
class LayersTest : public ::testing::Test {
 protected:
  LayersTest() {
    TimelineBuilder t;
    auto& rank = t.Rank(0);
    rank.Kernel("volta_sgemm_32x32", 100, 10, 7, 6).Kernel("splitK", 112, 2, 7, 7);  // forward
    rank.Kernel("volta_s884gemm", 120, 20, 7, 36).Kernel("reduce", 145, 4, 7, 46);   // backward
    rank.Kernel("adam", 160, 5, 7, 56).Kernel("unknown", 170, 5, 7);
    capture_ = t.Build();
    capture::RankData& data = capture_.ranks[0];
    data.properties = {
        .sms = 80, .compute_major = 7, .memory_bytes_per_s = 900'000'000'000, .clock_khz = 1'530'000};
    data.kernel_details.push_back({.grid = {4, 2, 1}, .block = {128, 1, 1}});
    data.activities[0].detail = 0;
    // The builder launches from thread 1.
    for (capture::ApiCall& call : data.api_calls) {
      if (call.start >= TimelineBuilder::At(30) && call.start < TimelineBuilder::At(50))
        call.thread = ThreadId(2);
    }
    AddFrames();
  }

  void AddFrames() {
    frames_.Frame("ProfilerStep#3", 0, 60, FrameKind::kAnnotation)
        .Frame("layer:fc1", 1, 20, FrameKind::kAnnotation);
    frames_.Frame("aten::linear", 2, 10)
        .With("[[32, 8], [16, 8]]", "model.py(7): forward")
        .Types(kFloats)
        .Sequence(41);
    frames_.Frame("aten::t", 3, 4).Sequence(41);
    frames_.Frame("aten::mm", 5, 9).With("[[32, 8], [8, 16]]").Types(kFloats).Sequence(42);
    frames_.Frame("autograd::engine::evaluate_function: MmBackward0", 30, 50, FrameKind::kOperator, 2)
        .Sequence(42, 1);
    frames_.Frame("MmBackward0", 31, 49, FrameKind::kOperator, 2)
        .With("[[32, 16]]")
        .Types(R"(["float"])")
        .Sequence(42, 1);
    frames_.Frame("aten::mm", 35, 40, FrameKind::kOperator, 2).With("[[32, 16], [16, 8]]").Types(kFloats);
    frames_.Frame("aten::sum", 45, 48, FrameKind::kOperator, 2);
    frames_.Frame("Optimizer.step#Adam.step", 55, 58);
    frames_.To(0);
  }

  capture::Capture capture_;
  FramesBuilder frames_{capture_};
};

TEST_F(LayersTest, KernelsHaveOperatorLayerAndShapes) {
  const Layers layers = LayersOf(capture_, LayerGrouping::kNone);
  ASSERT_EQ(layers.rows.size(), 6u);
  const LayerRow& row = layers.rows[0];
  EXPECT_EQ(row.kernel, "volta_sgemm_32x32");
  EXPECT_EQ(row.layer, "fc1");
  EXPECT_EQ(row.module, "aten");
  EXPECT_EQ(row.op, "linear");
  EXPECT_EQ(row.called, "aten::mm");
  EXPECT_EQ(row.direction, Direction::kForward);
  EXPECT_EQ(row.sequence, 42);
  EXPECT_EQ(row.alternate_sequence, 41);
  EXPECT_EQ(row.thread, ThreadId(1));
  EXPECT_EQ(row.trace, "model.py(7): forward");
  EXPECT_EQ(row.parameters, "float[32,8];float[16,8]");
  EXPECT_EQ(row.tensor_cores, false) << "it could, and its kernel does not";
  EXPECT_EQ(row.launch->grid[0], 4u);
  EXPECT_EQ(row.sub, 0u);
  EXPECT_EQ(layers.rows[1].sub, 1u);
}

TEST_F(LayersTest, CountsACallOnceWithItsRateOverAllKernels) {
  const Layers layers = LayersOf(capture_, LayerGrouping::kNone);
  // The inner operator alone has 2·32·16·8 FLOP and (32·8 + 8·16 + 32·16)·4 bytes.
  EXPECT_EQ(layers.rows[0].flop, 8192);
  EXPECT_EQ(layers.rows[0].bytes, 3584);
  EXPECT_EQ(layers.rows[0].flop_time, Nanos::Micros(12));
  EXPECT_FALSE(layers.rows[1].flop);
  // 12 us at 80·1.53e9·128 FLOP/s, and at 900 GB/s.
  EXPECT_NEAR(*layers.rows[0].peak_flop, 15.6672e12 * 12e-6, 1);
  EXPECT_NEAR(*layers.rows[0].peak_bytes, 900e9 * 12e-6, 1);
  EXPECT_FALSE(layers.rows[2].peak_flop) << "a V100 has no tensor cores for float";
}

TEST_F(LayersTest, BackwardKernelsHaveTheForwardOperatorsNames) {
  const Layers layers = LayersOf(capture_, LayerGrouping::kNone);
  const LayerRow& row = layers.rows[2];
  EXPECT_EQ(row.direction, Direction::kBackward);
  EXPECT_EQ(row.op, "linear");
  EXPECT_EQ(row.called, "aten::mm");
  EXPECT_EQ(row.layer, "fc1");
  EXPECT_EQ(row.trace, "model.py(7): forward");
  EXPECT_EQ(row.parameters, "float[32,8];float[16,8]");
  EXPECT_EQ(row.sequence, 42);
  EXPECT_FALSE(row.alternate_sequence);
  EXPECT_EQ(row.thread, ThreadId(2));
  EXPECT_EQ(row.flop, 8192);
  EXPECT_EQ(row.tensor_cores, true);
  EXPECT_EQ(layers.rows[3].called, "aten::sum");
  EXPECT_FALSE(layers.rows[3].flop) << "its shapes are not known";
}

TEST_F(LayersTest, UnknownFieldsAreEmpty) {
  const Layers layers = LayersOf(capture_, LayerGrouping::kNone);
  EXPECT_EQ(layers.rows[4].op, "") << "an optimizer's range is no operator";
  EXPECT_EQ(layers.rows[4].layer, "Optimizer.step#Adam.step");
  const LayerRow& row = layers.rows[5];
  EXPECT_EQ(row.direction, Direction::kUnknown);
  EXPECT_FALSE(row.thread);
  EXPECT_FALSE(row.tensor_cores);
  EXPECT_EQ(row.launch, nullptr);
}

TEST_F(LayersTest, SumsByLayerAndByOperator) {
  const Layers by_op = LayersOf(capture_, LayerGrouping::kOperator);
  ASSERT_EQ(by_op.rows.size(), 4u);
  EXPECT_EQ(by_op.rows[0].op, "linear");
  EXPECT_EQ(by_op.rows[0].direction, Direction::kBackward);
  EXPECT_EQ(by_op.rows[0].time, Nanos::Micros(24));
  EXPECT_EQ(by_op.rows[0].kernels, 2u);
  EXPECT_EQ(by_op.rows[0].flop, 8192);
  EXPECT_EQ(by_op.rows[0].flop_time, Nanos::Micros(20));
  const Layers by_layer = LayersOf(capture_, LayerGrouping::kLayer);
  ASSERT_EQ(by_layer.rows.size(), 4u);
  EXPECT_EQ(by_layer.rows[0].layer, "fc1");
  EXPECT_EQ(by_layer.rows[0].op, "");
}

TEST_F(LayersTest, ASequenceNumberOfTwoThreadsLinksNothing) {
  FramesBuilder frames(capture_);
  frames.Frame("aten::mm", 5, 9).With("[[32, 8], [8, 16]]").Types(kFloats).Sequence(42);
  frames.Frame("aten::mm", 5, 9, FrameKind::kOperator, 3).Sequence(42);
  frames.Frame("MmBackward0", 31, 49, FrameKind::kOperator, 2).With("[[32, 16]]").Sequence(42, 1);
  frames.To(0);
  const Layers layers = LayersOf(capture_, LayerGrouping::kNone);
  EXPECT_EQ(layers.ambiguous, 1u);
  EXPECT_EQ(layers.rows[2].op, "MmBackward0");
}

TEST_F(LayersTest, ListsKernelsWithoutFrames) {
  capture_.ranks[0].frames = nullptr;
  const Layers layers = LayersOf(capture_, LayerGrouping::kNone);
  ASSERT_EQ(layers.rows.size(), 6u);
  EXPECT_EQ(layers.rows[2].tensor_cores, true);
  EXPECT_EQ(layers.rows[0].op, "");
}

// An operator's own kernel counts in addition to those of the operators that it called. A kernel without a
// rule does not count its caller again.
TEST_F(LayersTest, CountsCalledOperatorsSeparately) {
  FramesBuilder frames(capture_);
  frames.Frame("aten::linear", 2, 10).With("[[32, 8], [16, 8]]").Types(kFloats);
  frames.Frame("aten::mm", 5, 9).With("[[32, 8], [8, 16]]").Types(kFloats);
  frames.Frame("aten::fill_", 5.5, 6.5).With("[[32, 16], []]").Types(R"(["float", "Scalar"])");
  frames.Frame("aten::linear", 30, 50).With("[[32, 8], [16, 8]]").Types(kFloats);
  frames.Frame("aten::mm", 35, 40).With("[[32, 8], [8, 16]]").Types(kFloats);
  frames.Frame("mystery", 45, 48);
  frames.To(0);
  for (capture::ApiCall& call : capture_.ranks[0].api_calls) call.thread = ThreadId(1);
  const Layers layers = LayersOf(capture_, LayerGrouping::kNone);
  EXPECT_EQ(layers.rows[0].bytes, 2048) << "fill_ writes 32·16 floats";
  EXPECT_EQ(layers.rows[1].flop, 8192) << "mm's own kernel, though it called one that was counted";
  EXPECT_EQ(layers.rows[2].flop, 8192);
  EXPECT_FALSE(layers.rows[3].flop) << "linear was counted in mm";
}

// The backward node gives the size of a convolution's output if the forward pass does not.
TEST_F(LayersTest, TakesAConvolutionsOutputShapeFromItsGradient) {
  FramesBuilder frames(capture_);
  frames.Frame("aten::conv2d", 2, 10).With("[[32, 3, 224, 224], [64, 3, 7, 7]]").Types(kFloats).Sequence(42);
  frames.Frame("aten::cudnn_convolution", 3, 9)
      .With("[[32, 3, 224, 224], [64, 3, 7, 7]]")
      .Types(kFloats)
      .Sequence(42);
  frames.Frame("CudnnConvolutionBackward", 31, 49, FrameKind::kOperator, 2)
      .With("[[32, 64, 112, 112]]")
      .Types(R"(["float"])")
      .Sequence(42, 1);
  frames.To(0);
  const Layers layers = LayersOf(capture_, LayerGrouping::kNone);
  EXPECT_EQ(layers.rows[0].flop, 7552892928);
  EXPECT_EQ(layers.rows[0].bytes, 122065664);
  EXPECT_EQ(layers.rows[2].op, "conv2d");
}

}  // namespace
}  // namespace lockstep::views
