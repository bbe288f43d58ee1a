// Compares FLOP and bytes with arithmetic done by hand.
#include "views/host/operator_cost.h"

#include <gtest/gtest.h>

#include "views/host/device_peak.h"

namespace lockstep::views {
namespace {

// A call of an operator, built from a frame's texts. It owns the texts.
class Call {
 public:
  Call(std::string_view name, std::string_view shapes, std::string_view types, std::string_view values = "") {
    detail_ = {.shapes = strings_.Intern(shapes),
               .types = strings_.Intern(types),
               .values = strings_.Intern(values)};
    call_ = {.name = name, .arguments = ArgumentsOf(detail_, strings_)};
  }
  Call& Output(Shape shape) {
    call_.output = std::move(shape);
    return *this;
  }
  Call& Around(const Call& other) {
    call_.around = &other.call_;
    return *this;
  }
  OperatorCost Cost() const { return CostOf(call_); }
  const OperatorCall& call() const { return call_; }

 private:
  capture::StringTable strings_;
  capture::FrameDetail detail_;
  OperatorCall call_;
};

void Expect(const Call& call, std::optional<int64_t> flop, std::optional<int64_t> bytes) {
  const OperatorCost cost = call.Cost();
  EXPECT_EQ(cost.flop, flop) << call.call().name;
  EXPECT_EQ(cost.bytes, bytes) << call.call().name;
}

// The four rows in PyProf's README, in half precision. The shapes follow from its figures.
TEST(OperatorCost, AgreesWithTheReadmeOfPyProf) {
  Expect({"torch.relu", "[[64, 64, 112, 112]]", R"(["c10::Half"])"}, 51380224, 205520896);
  Expect({"torch.nn.functional.conv2d", "[[64, 64, 56, 56], [64, 64, 1, 1], [], [], [], [], []]",
          R"(["c10::Half", "c10::Half", "Scalar", "Scalar", "Scalar", "Scalar", "Scalar"])",
          R"(["", "", "None", "[1, 1]", "[0, 0]", "[1, 1]", "1"])"},
         1644167168, 51388416);
  Expect({"torch.relu", "[[64, 64, 56, 56]]", R"(["c10::Half"])"}, 12845056, 51380224);
  Expect({"torch.nn.functional.conv2d", "[[64, 64, 56, 56], [256, 64, 1, 1], [], [], [], [], []]",
          R"(["c10::Half", "c10::Half", "Scalar", "Scalar", "Scalar", "Scalar", "Scalar"])",
          R"(["", "", "None", "[1, 1]", "[0, 0]", "[1, 1]", "1"])"},
         6576668672, 128483328);
}

TEST(OperatorCost, Products) {
  // 2·32·1000·2048 FLOP; (32·1000 + 1000·2048 + 32·2048)·4 bytes.
  Expect({"aten::mm", "[[32, 1000], [1000, 2048]]", R"(["float", "float"])"}, 131072000, 8582144);
  // 2·16·256·13 FLOP; (256 + 16·13 + 13·256 + 16·256)·4 bytes.
  Expect({"aten::addmm", "[[256], [16, 13], [13, 256], [], []]",
          R"(["float", "float", "float", "Scalar", "Scalar"])"},
         106496, 31552);
  // 2·16·16·27·27 FLOP; (16·16·27 + 16·27·27 + 16·16·27)·4 bytes.
  Expect({"aten::bmm", "[[16, 16, 27], [16, 27, 27]]", R"(["float", "float"])"}, 373248, 101952);
  // 2·16·256·13 FLOP; (16·13 + 256·13 + 256 + 16·256)·4 bytes.
  Expect({"aten::linear", "[[16, 13], [256, 13], [256]]", R"(["float", "float", "float"])"}, 106496, 31552);
  // Batches are broadcast: 2·5·3·4·6·2 FLOP; (3·4·6 + 5·1·6·2 + 5·3·4·2)·2 bytes.
  Expect({"aten::matmul", "[[3, 4, 6], [5, 1, 6, 2]]", R"(["c10::Half", "c10::Half"])"}, 1440, 504);
  // A vector on the right: 2·4·6 FLOP; (4·6 + 6 + 4)·8 bytes.
  Expect({"aten::mv", "[[4, 6], [6]]", R"(["double", "double"])"}, 48, 272);
  Expect({"aten::mm", "[[2, 3], [4, 5]]", R"(["float", "float"])"}, std::nullopt, std::nullopt);
  // Without types, FLOP are known and bytes are not.
  Expect({"aten::mm", "[[2, 3], [3, 5]]", ""}, 60, std::nullopt);
}

TEST(OperatorCost, Convolutions) {
  // The cost is unknown if neither values nor the backward pass give the output.
  Expect({"aten::conv2d", "[[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], []]",
          R"(["float", "float", "", "GenericList", "GenericList", "GenericList", "Int"])"},
         std::nullopt, std::nullopt);
  // ResNet's first convolution, with the output [32, 64, 112, 112]: 2·25690112·3·7·7 FLOP; (4816896 + 9408 +
  // 25690112)·4 bytes.
  Call reported("aten::cudnn_convolution", "[[32, 3, 224, 224], [64, 3, 7, 7], [], []]",
                R"(["float", "float", "GenericList", "GenericList"])");
  Expect(reported.Output({32, 64, 112, 112}), 7552892928, 122065664);
  // The same output from the values: (224 + 6 - 6 - 1) / 2 + 1 = 112.
  Expect({"aten::convolution", "[[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]",
          R"(["float", "float", "", "", "", "", "Scalar", "", "Scalar"])",
          R"(["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False", "[0, 0]", "1"])"},
         7552892928, 122065664);
  // Depthwise with 8 groups, output [1, 8, 4, 4]: 2·128·1·3·3 FLOP; (1·8·4·4 + 8·1·3·3 + 128)·2 bytes.
  Expect({"aten::convolution", "[[1, 8, 4, 4], [8, 1, 3, 3], [], [], [], [], [], [], []]",
          R"(["c10::Half", "c10::Half", "", "", "", "", "", "", ""])",
          R"(["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "8"])"},
         2304, 656);
  // One dimension and one value for all, output [2, 4, 8]: 2·64·3·3 FLOP; (2·3·10 + 4·3·3 + 64)·4 bytes.
  Expect({"conv1d", "[[2, 3, 10], [4, 3, 3], [], [], [], []]",
          R"(["float", "float", "Scalar", "Scalar", "Scalar", "Scalar"])",
          R"(["", "", "None", "stride=1", "padding=0", "dilation=1"])"},
         1152, 640);
  // Transposed, with the weight [8, 3, 3, 3]: 2 · 1·8·4·4 · 3·3·3 FLOP. The output is unknown, so bytes are,
  // too.
  Expect({"aten::conv_transpose2d", "[[1, 8, 4, 4], [8, 3, 3, 3]]", R"(["float", "float"])"}, 6912,
         std::nullopt);
}

TEST(OperatorCost, GradientsOfConvolutions) {
  // Each gradient takes 2·(32·2048·7·7)·512 FLOP. grad has 3211264, weight 1048576, input 802816 elements.
  const Call all("aten::cudnn_convolution_backward", "[[32, 512, 7, 7], [32, 2048, 7, 7], [2048, 512, 1, 1]]",
                 R"(["float", "float", "float"])");
  Expect(Call("aten::cudnn_convolution_backward_input", "[[], [32, 2048, 7, 7], [2048, 512, 1, 1]]",
              R"(["GenericList", "float", "float"])")
             .Around(all),
         3288334336, 20250624);
  Expect(Call("aten::cudnn_convolution_backward_weight", "[[], [32, 2048, 7, 7], [32, 512, 7, 7]]",
              R"(["GenericList", "float", "float"])")
             .Around(all),
         3288334336, 20250624);
  Expect(Call("aten::cudnn_convolution_backward_weight", "[[], [32, 2048, 7, 7], [32, 512, 7, 7]]",
              R"(["GenericList", "float", "float"])"),
         std::nullopt, std::nullopt);
  const std::string shapes =
      "[[32, 2048, 7, 7], [32, 512, 7, 7], [2048, 512, 1, 1], [], [], [], [], [], [], [], []]";
  const std::string types = R"(["float", "float", "float", "", "", "", "", "", "", "", ""])";
  const auto masked = [&](const std::string& mask) {
    return Call(
        "aten::convolution_backward", shapes, types,
        R"(["", "", "", "[0]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", ")" + mask + "\"]");
  };
  Expect(masked("[True, True, False]"), 6576668672, 40501248);
  Expect(masked("[False, True, False]"), 3288334336, 20250624);
  Expect(masked(""), std::nullopt, std::nullopt);
}

TEST(OperatorCost, PointwiseOperatorsAndCopies) {
  Expect({"aten::clamp_min", "[[32, 64, 112, 112], [], [32, 64, 112, 112]]", R"(["float", "Int", "float"])"},
         25690112, 205520896);
  Expect({"aten::add_", "[[32, 256, 56, 56], [32, 256, 56, 56], []]", R"(["float", "float", "Int"])"},
         25690112, 308281344);
  // Adds a row to each of 4 rows: 12 FLOP; (12 + 3 + 12)·4 bytes.
  Expect({"aten::add", "[[4, 3], [3], []]", R"(["float", "float", "Scalar"])"}, 12, 108);
  // Three inputs and a result of 48 elements each.
  Expect({"aten::addcmul_", "[[3, 16], [3, 16], [3, 16], []]", R"(["float", "float", "float", "Scalar"])"},
         144, 768);
  // 2·6·4 bytes read, 6 bytes written.
  Expect({"aten::gt", "[[2, 3], [2, 3]]", R"(["float", "float"])"}, 6, 54);
  Expect({"aten::copy_", "[[10], [10], []]", R"(["c10::Half", "float", "Scalar"])"}, 0, 60);
  Expect({"aten::fill_", "[[64, 3, 7, 7], []]", R"(["float", "Int"])"}, 0, 37632);
  Expect({"aten::add", "[[4, 3], [5], []]", R"(["float", "float", "Scalar"])"}, std::nullopt, std::nullopt);
}

TEST(OperatorCost, ReductionsAndNorms) {
  // Reduces all elements to one number.
  Expect({"aten::mean", "[[16], []]", R"(["float", ""])"}, 16, 68);
  // Reduces some dimensions, so the result's size is unknown.
  Expect({"aten::sum", "[[32, 1000], [], [], []]", R"(["float", "", "Scalar", ""])"}, 32000, std::nullopt);
  Expect({"aten::_log_softmax", "[[32, 1000], [], []]", R"(["float", "Int", "Bool"])"}, 160000, 256000);
  Expect({"aten::_log_softmax_backward_data", "[[32, 1000], [32, 1000], [], [32, 1000]]",
          R"(["float", "float", "Int", "float"])"},
         128000, 384000);
  // Input and output, and a scale and a shift of 512 elements each.
  Expect({"aten::native_layer_norm", "[[1024, 512], [], [512], [512], []]",
          R"(["float", "", "float", "float", "Scalar"])"},
         4194304, 4198400);
  const std::string shapes = "[[2, 4, 3, 3], [4], [4], [4], [4], [], [], []]";
  const std::string types = R"(["float", "float", "float", "float", "float", "Bool", "Double", "Double"])";
  // (72 + 16 + 72)·4 bytes. The FLOP depend on a flag.
  Expect({"aten::cudnn_batch_norm", shapes, types}, std::nullopt, 640);
  Expect({"aten::cudnn_batch_norm", shapes, types, R"(["", "", "", "", "", "True", "0.1", "1e-05"])"}, 576,
         640);
  Expect({"aten::cudnn_batch_norm", shapes, types, R"(["", "", "", "", "", "False", "0.1", "1e-05"])"}, 288,
         640);
  Expect({"aten::cudnn_batch_norm_backward", "[[2, 4, 3, 3], [2, 4, 3, 3], [4]]",
          R"(["float", "float", "float"])"},
         648, 864);
}

TEST(OperatorCost, OtherOperators) {
  // Five rows of 8 elements read and written, and 5 indices.
  Expect({"aten::embedding", "[[100, 8], [5], [], [], []]",
          R"(["float", "long int", "Scalar", "Scalar", "Scalar"])"},
         0, 360);
  Expect({"aten::gather", "[[44], [], [10], []]", R"(["float", "Scalar", "long", "Scalar"])"}, 0, 160);
  Expect({"aten::native_dropout", "[[10], [], []]", R"(["float", "Scalar", "Scalar"])"}, 20, 90);
  Expect({"aten::nll_loss_forward", "[[32, 1000], [32], [], [], []]",
          R"(["float", "long int", "", "Int", "Int"])"},
         32, 384);
  // 6422528 results of 9 FLOP each; (25690112 read and 6422528 written)·4 bytes, and as many indices of 8
  // bytes.
  Expect(Call("aten::max_pool2d_with_indices", "[[32, 64, 112, 112], [], [], [], [], []]",
              R"(["float", "", "", "", "", ""])", R"(["", "[3, 3]", "[2, 2]", "[1, 1]", "[1, 1]", "False"])")
             .Output({32, 64, 56, 56}),
         57802752, 179830784);
  // 2·3·4·5 scores of 8 + 8 FLOP each, times 2; (q 192 + k 240 + v 240 + out 192)·2 bytes.
  Expect({"aten::_scaled_dot_product_flash_attention", "[[2, 3, 4, 8], [2, 3, 5, 8], [2, 3, 5, 8], [], []]",
          R"(["c10::Half", "c10::Half", "c10::Half", "", ""])"},
         3840, 1728);
  // 120 scores·(3·8 + 2·8)·2 FLOP; q, k and v twice (672·2), and grad and out of 192 each, times 2 bytes.
  Expect({"aten::_scaled_dot_product_flash_attention_backward",
          "[[2, 3, 4, 8], [2, 3, 4, 8], [2, 3, 5, 8], [2, 3, 5, 8], [2, 3, 4, 8]]",
          R"(["c10::Half", "c10::Half", "c10::Half", "c10::Half", "c10::Half"])"},
         9600, 3456);
  Expect({"aten::_foreach_add_", "[[[2, 3], [4]], [[2, 3], [4]], []]",
          R"(["TensorList", "TensorList", "Scalar"])"},
         10, std::nullopt);
  Expect({"aten::_fused_adam_", "[[[2, 3], [4]], [[2, 3], [4]]]", R"(["TensorList", "TensorList"])"}, 130,
         std::nullopt);
  Expect({"aten::unheard_of", "[[2]]", R"(["float"])"}, std::nullopt, std::nullopt);
}

TEST(OperatorCost, InvalidArgumentsGiveNoCost) {
  const std::string huge =
      "[[9000000000000000000, 9000000000000000000], [9000000000000000000, 9000000000000000000]]";
  Expect({"aten::mm", huge, R"(["float", "float"])"}, std::nullopt, std::nullopt);
  for (const char* shapes : {"[[-1, 2], [2, 3]]", "[[1, 2", "7", "[[1.5, 2], [2, 3]]", "[[\"x\"], [2]]",
                             "[[[[1]]], [2]]", "", "[]"}) {
    Expect({"aten::mm", shapes, R"(["float", "float"])"}, std::nullopt, std::nullopt);
  }
  Expect({"aten::conv2d", "[[1, 1, 4, 4], [1, 1, 9, 9], [], [], [], []]",
          R"(["float", "float", "", "", "", ""])", R"(["", "", "", "[0, 0]", "[x]", "[1, 1]"])"},
         std::nullopt, std::nullopt);
  Expect({"aten::conv2d", "[[1, 1, 4, 4], [1, 1, 3, 3], [], [], [], []]",
          R"(["float", "float", "", "", "", ""])", R"(["", "", "", "[0, 0]", "[0, 0]", "[1, 1]"])"},
         std::nullopt, std::nullopt);
  Expect({"aten::conv2d", "[[1, 1, 4, 4], [0, 1, 3, 3]]", R"(["float", "float"])"}, std::nullopt,
         std::nullopt);
}

TEST(DevicePeak, PeakIsClockTimesMultiprocessorsTimesThroughputOfTheType) {
  capture::DeviceProperties v100{.sms = 80, .compute_major = 7, .clock_khz = 1530000};
  // 80 · 1.53 GHz · 128, and · 1024: the 15.7 and 125 TFLOP/s of the V100's data sheet.
  EXPECT_DOUBLE_EQ(*PeakFlopPerS(v100, "float", MathUnits::kPlain), 15.6672e12);
  EXPECT_DOUBLE_EQ(*PeakFlopPerS(v100, "c10::Half", MathUnits::kTensorCores), 125.3376e12);
  EXPECT_FALSE(PeakFlopPerS(v100, "c10::BFloat16", MathUnits::kTensorCores)) << "it has none";
  capture::DeviceProperties a100{.sms = 108, .compute_major = 8, .clock_khz = 1410000};
  EXPECT_NEAR(*PeakFlopPerS(a100, "c10::BFloat16", MathUnits::kTensorCores), 312e12, 0.2e12);
  EXPECT_NEAR(*PeakFlopPerS(a100, "float", MathUnits::kTensorCores), 156e12, 0.1e12);
  a100.clock_khz = 0;
  EXPECT_FALSE(PeakFlopPerS(a100, "float", MathUnits::kPlain));
}

}  // namespace
}  // namespace lockstep::views
