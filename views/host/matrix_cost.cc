#include "views/host/matrix_cost.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "views/host/shape_math.h"

namespace lockstep::views {
namespace {

Count BytesOr0(const Argument* tensor) { return tensor == nullptr ? Count(0) : BytesOf(*tensor); }

// Multiplies [.., m, k] by [.., k, n], and adds `added`.
OperatorCost Multiply(const Argument* a, const Argument* b, const Argument* added) {
  if (a == nullptr || b == nullptr || a->shape.empty() || b->shape.empty()) return {};
  // A vector is a row on the left and a column on the right. It adds no dimension to the result.
  Shape left = a->shape;
  Shape right = b->shape;
  if (left.size() == 1) left.insert(left.begin(), 1);
  if (right.size() == 1) right.push_back(1);
  const int64_t m = left[left.size() - 2];
  const int64_t k = left.back();
  const int64_t n = right.back();
  if (right[right.size() - 2] != k) return {};
  const auto batch = Broadcast(Shape(left.begin(), left.end() - 2), Shape(right.begin(), right.end() - 2));
  if (!batch) return {};
  const Count out = Elements(*batch) * m * n;
  return {(out * k * 2).value(),
          (BytesOf(*a) + BytesOf(*b) + BytesOr0(added) + out * a->element_bytes).value()};
}

OperatorCost Linear(const OperatorCall& call) {
  const Argument* x = call.Tensor(0);
  const Argument* weight = call.Tensor(1);
  if (x == nullptr || weight == nullptr || x->shape.empty() || weight->shape.size() != 2 ||
      weight->shape[1] != x->shape.back())
    return {};
  const Count rows = Elements(Shape(x->shape.begin(), x->shape.end() - 1));
  const Count out = rows * weight->shape[0];
  return {(out * weight->shape[1] * 2).value(),
          (BytesOf(*x) + BytesOf(*weight) + BytesOr0(call.Tensor(2)) + out * x->element_bytes).value()};
}

// Places of a convolution's stride, padding and dilation among its arguments.
struct ConvolutionPlaces {
  size_t stride, padding, dilation;
  size_t transposed;  // 0: the operator has no such argument
};

bool IsTransposed(std::string_view name, const OperatorCall& call, const ConvolutionPlaces& places) {
  if (name.find("transpose") != std::string_view::npos) return true;
  return places.transposed != 0 && places.transposed < call.arguments.size() &&
         call.arguments[places.transposed].value == "True";
}

std::optional<Shape> ConvolutionOutput(const OperatorCall& call, const ConvolutionPlaces& places) {
  const Shape& in = call.Tensor(0)->shape;
  const Shape& weight = call.Tensor(1)->shape;
  const auto stride = SpatialValue(call, places.stride, "stride", in);
  const auto padding = SpatialValue(call, places.padding, "padding", in);
  const auto dilation = SpatialValue(call, places.dilation, "dilation", in);
  if (!stride || !padding || !dilation) return std::nullopt;
  Shape out{in[0], weight[0]};
  for (size_t i = 0; i + 2 < in.size(); ++i) {
    constexpr int64_t kMost = int64_t{1} << 40;  // keeps the sums below from overflowing
    if ((*stride)[i] <= 0 || (*padding)[i] < 0 || (*dilation)[i] < 0) return std::nullopt;
    if (std::max({in[i + 2], weight[i + 2], (*padding)[i]}) > kMost || (*dilation)[i] > (1 << 20))
      return std::nullopt;
    const int64_t room = in[i + 2] + 2 * (*padding)[i] - (*dilation)[i] * (weight[i + 2] - 1) - 1;
    if (room < 0) return std::nullopt;
    out.push_back(room / (*stride)[i] + 1);
  }
  return out;
}

// The weight is [out, in / groups, …]. One element of the output takes as many multiply-adds as the weight
// has elements per output channel.
OperatorCost Convolution(std::string_view name, const OperatorCall& call, const ConvolutionPlaces& places) {
  const Argument* in = call.Tensor(0);
  const Argument* weight = call.Tensor(1);
  if (in == nullptr || weight == nullptr || in->shape.size() != weight->shape.size() ||
      in->shape.size() < 3 || weight->shape[0] <= 0)
    return {};
  const bool transposed = IsTransposed(name, call, places);
  const std::optional<Shape> out = call.output || transposed ? call.output : ConvolutionOutput(call, places);
  if (out && out->size() != in->shape.size()) return {};
  OperatorCost cost;
  // In a transposed convolution, each element of the input takes as many multiply-adds as an element of the
  // output in a normal one.
  const std::optional<Shape> slid = transposed ? std::optional(in->shape) : out;
  if (slid) cost.flop = (Elements(*slid) * (Elements(weight->shape) / weight->shape[0]) * 2).value();
  if (out && in->element_bytes != 0) {
    cost.bytes =
        (BytesOf(*in) + BytesOf(*weight) + BytesOr0(call.Tensor(2)) + Elements(*out) * in->element_bytes)
            .value();
  }
  return cost;
}

// A gradient of a convolution takes as many operations as the convolution, because each product has one
// element of the output's gradient.
std::optional<int64_t> GradientFlop(const Argument& grad, const Argument& weight) {
  if (weight.shape.empty() || weight.shape[0] <= 0) return std::nullopt;
  return (Elements(grad.shape) * (Elements(weight.shape) / weight.shape[0]) * 2).value();
}

OperatorCost GradientOfInput(const Argument* grad, const Argument* weight, const Argument* input) {
  if (grad == nullptr || weight == nullptr) return {};
  OperatorCost cost{GradientFlop(*grad, *weight), std::nullopt};
  if (input != nullptr) cost.bytes = (BytesOf(*grad) + BytesOf(*weight) + BytesOf(*input)).value();
  return cost;
}

OperatorCost GradientOfWeight(const Argument* grad, const Argument* weight, const Argument* input) {
  if (grad == nullptr || weight == nullptr || input == nullptr) return {};
  return {GradientFlop(*grad, *weight), (BytesOf(*grad) + BytesOf(*input) + BytesOf(*weight)).value()};
}

// cudnn_convolution_backward(input, grad, weight, …) calls both of these operators. Its arguments give the
// shapes that theirs lack.
OperatorCost CudnnGradient(std::string_view name, const OperatorCall& call) {
  const OperatorCall* all = call.around;
  const bool is_cudnn = all != nullptr && BareName(all->name) == "cudnn_convolution_backward";
  if (name == "cudnn_convolution_backward_input")
    return GradientOfInput(call.Tensor(1), call.Tensor(2), is_cudnn ? all->Tensor(0) : nullptr);
  return GradientOfWeight(call.Tensor(1), is_cudnn ? all->Tensor(2) : nullptr, call.Tensor(2));
}

OperatorCost Sum(const OperatorCost& a, const OperatorCost& b) {
  const auto add = [](std::optional<int64_t> x, std::optional<int64_t> y) {
    return (Count(x) + Count(y)).value();
  };
  return {add(a.flop, b.flop), add(a.bytes, b.bytes)};
}

// convolution_backward(grad, input, weight, …, output_mask) itself launches the kernels of both gradients.
OperatorCost ConvolutionBackward(const OperatorCall& call) {
  constexpr size_t kMask = 10;
  constexpr size_t kTransposed = 7;
  if (call.arguments.size() <= kMask || call.arguments[kTransposed].value != "False") return {};
  const std::string& mask = call.arguments[kMask].value;
  const bool input = mask.starts_with("[True");
  const bool weight = mask.starts_with("[True, True") || mask.starts_with("[False, True");
  if (!input && !weight) return {};
  const OperatorCost none{0, 0};
  return Sum(input ? GradientOfInput(call.Tensor(0), call.Tensor(2), call.Tensor(1)) : none,
             weight ? GradientOfWeight(call.Tensor(0), call.Tensor(2), call.Tensor(1)) : none);
}

// The shapes are q [B, H, S, D], k [B, H, T, D] and v [B, H, T, E].
struct AttentionSizes {
  Count scores, d, e;  // B·H·S·T, D, E
};

std::optional<AttentionSizes> SizesOf(const Argument* q, const Argument* k, const Argument* v) {
  if (q == nullptr || k == nullptr || v == nullptr) return std::nullopt;
  if (q->shape.size() != 4 || k->shape.size() != 4 || v->shape.size() != 4) return std::nullopt;
  return AttentionSizes{Count(q->shape[0]) * q->shape[1] * q->shape[2] * k->shape[2], q->shape[3],
                        v->shape[3]};
}

// Counts the scores and the sums of values weighted by them. Work that a mask saves is not subtracted.
OperatorCost Attention(const OperatorCall& call) {
  const Argument* q = call.Tensor(0);
  const Argument* v = call.Tensor(2);
  const auto sizes = SizesOf(q, call.Tensor(1), v);
  if (!sizes) return {};
  const Count out = Count(q->shape[0]) * q->shape[1] * q->shape[2] * sizes->e * q->element_bytes;
  return {(sizes->scores * (sizes->d + sizes->e) * 2).value(),
          (BytesOf(*q) + BytesOf(*call.Tensor(1)) + BytesOf(*v) + out).value()};
}

// The arguments are (grad, q, k, v, out, …). Counts the scores again, then the gradients of scores, v, q and
// k.
OperatorCost AttentionBackward(const OperatorCall& call) {
  const Argument* q = call.Tensor(1);
  const Argument* k = call.Tensor(2);
  const Argument* v = call.Tensor(3);
  const auto sizes = SizesOf(q, k, v);
  if (!sizes || call.Tensor(0) == nullptr) return {};
  const Count flop = sizes->scores * (sizes->d * 3 + sizes->e * 2) * 2;
  return {flop.value(),
          ((BytesOf(*q) + BytesOf(*k) + BytesOf(*v)) * 2 + BytesOf(*call.Tensor(0)) * 2).value()};
}

constexpr std::pair<std::string_view, ConvolutionPlaces> kConvolutions[] = {
    {"conv1d", {3, 4, 5, 0}},
    {"conv2d", {3, 4, 5, 0}},
    {"conv3d", {3, 4, 5, 0}},
    {"convolution", {3, 4, 5, 6}},
    {"_convolution", {3, 4, 5, 6}},
    {"convolution_overrideable", {3, 4, 5, 6}},
    {"cudnn_convolution", {3, 2, 4, 0}},
    {"conv_transpose1d", {3, 4, 7, 0}},
    {"conv_transpose2d", {3, 4, 7, 0}},
    {"conv_transpose3d", {3, 4, 7, 0}},
    {"cudnn_convolution_transpose", {4, 2, 5, 0}}};

std::optional<OperatorCost> ProductCost(std::string_view name, const OperatorCall& call) {
  const auto at = [&](size_t place) { return call.Tensor(place); };
  if (name == "mm" || name == "bmm" || name == "matmul" || name == "mv" || name == "dot" ||
      name == "__matmul__" || name == "_scaled_mm") {
    return Multiply(at(0), at(1), nullptr);
  }
  if (name == "addmm" || name == "baddbmm" || name == "addmv" || name == "_addmm_activation")
    return Multiply(at(1), at(2), at(0));
  if (name == "linear") return Linear(call);
  return std::nullopt;
}

}  // namespace

std::optional<Shape> SpatialValue(const OperatorCall& call, size_t place, std::string_view name,
                                  const Shape& input) {
  std::string_view text = place < call.arguments.size() ? std::string_view(call.arguments[place].value) : "";
  if (text.find('=') != std::string_view::npos) text = "";
  for (const Argument& a : call.arguments) {
    const std::string_view value = a.value;
    if (value.starts_with(name) && value.substr(name.size()).starts_with("="))
      text = value.substr(name.size() + 1);
  }
  if (text.empty() || input.size() < 3) return std::nullopt;
  Shape values;
  for (const auto word : absl::StrSplit(absl::string_view(text.data(), text.size()), absl::ByAnyChar("[], "),
                                        absl::SkipEmpty())) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(word, &number)) return std::nullopt;
    values.push_back(number);
  }
  if (values.size() == 1) values.resize(input.size() - 2, values[0]);
  return values.size() == input.size() - 2 ? std::optional(values) : std::nullopt;
}

std::optional<OperatorCost> MatrixCost(std::string_view name, const OperatorCall& call) {
  if (const auto product = ProductCost(name, call)) return product;
  for (const auto& [convolution, places] : kConvolutions) {
    if (name == convolution) return Convolution(name, call, places);
  }
  if (name == "cudnn_convolution_backward_input" || name == "cudnn_convolution_backward_weight")
    return CudnnGradient(name, call);
  if (name == "convolution_backward") return ConvolutionBackward(call);
  if (name.find("scaled_dot_product") != std::string_view::npos && !name.starts_with("_fused")) {
    return name.ends_with("backward") ? AttentionBackward(call) : Attention(call);
  }
  return std::nullopt;
}

}  // namespace lockstep::views
