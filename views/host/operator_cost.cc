#include "views/host/operator_cost.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "views/host/matrix_cost.h"
#include "views/host/shape_math.h"

namespace lockstep::views {
namespace {

// Reads the tensors among the first `inputs` arguments, and writes a result of their broadcast shape.
OperatorCost Pointwise(const OperatorCall& call, int flop, size_t inputs) {
  std::optional<Shape> out;
  Count read = 0;
  int element_bytes = 0;
  for (size_t i = 0; i < inputs; ++i) {
    const Argument* a = call.Tensor(i);
    if (a == nullptr) continue;
    out = out ? Broadcast(*out, a->shape) : std::optional(a->shape);
    if (!out) return {};
    read = read + BytesOf(*a);
    // A tensor of one number does not widen the type of the result.
    if (!a->shape.empty() || element_bytes == 0) element_bytes = std::max(element_bytes, a->element_bytes);
  }
  if (!out) return {};
  const Count elements = Elements(*out);
  return {(elements * flop).value(), (read + elements * element_bytes).value()};
}

// A comparison writes one byte per element.
OperatorCost Compare(const OperatorCall& call, int, size_t) {
  const OperatorCost read = Pointwise(call, 1, 2);
  const Argument* a = call.Tensor(0);
  if (a == nullptr || !read.flop || !read.bytes) return {read.flop, std::nullopt};
  int element_bytes = a->element_bytes;
  if (const Argument* b = call.Tensor(1); b != nullptr)
    element_bytes = std::max(element_bytes, b->shape.empty() ? 0 : b->element_bytes);
  return {read.flop, *read.bytes - *read.flop * (element_bytes - 1)};
}

// Reads all tensors of the call and writes one like the first. `flop` is per element of the result; 0:
// unknown.
OperatorCost LikeFirst(const OperatorCall& call, int flop, size_t inputs) {
  const Argument* first = call.Tensor(0);
  if (first == nullptr) return {};
  Count bytes = BytesOf(*first);
  for (size_t i = 0; i < call.arguments.size() && i < inputs; ++i) {
    if (const Argument* a = call.Tensor(i)) bytes = bytes + BytesOf(*a);
  }
  return {flop == 0 ? std::nullopt : (Elements(first->shape) * flop).value(), bytes.value()};
}

// The statistics of the batch are computed only in training.
OperatorCost BatchNorm(const OperatorCall& call, int flop, size_t) {
  const std::string_view training =
      call.arguments.size() > 5 ? std::string_view(call.arguments[5].value) : "";
  return LikeFirst(call, training == "True" ? flop : training == "False" ? 4 : 0, 5);
}

OperatorCost Copy(const OperatorCall& call, int, size_t) {
  const Argument* to = call.Tensor(0);
  const Argument* from = call.Tensor(1);
  if (to == nullptr || from == nullptr) return {};
  return {0, (BytesOf(*to) + BytesOf(*from)).value()};
}

OperatorCost Clone(const OperatorCall& call, int, size_t) {
  const Argument* from = call.Tensor(0);
  return from == nullptr ? OperatorCost() : OperatorCost{0, (BytesOf(*from) * 2).value()};
}

OperatorCost Fill(const OperatorCall& call, int, size_t) {
  const Argument* to = call.Tensor(0);
  return to == nullptr ? OperatorCost() : OperatorCost{0, BytesOf(*to).value()};
}

// The result's size is known if all is reduced to one number, or if the backward pass gives it.
OperatorCost Reduce(const OperatorCall& call, int flop, size_t whole_arguments) {
  const Argument* in = call.Tensor(0);
  if (in == nullptr) return {};
  OperatorCost cost{(Elements(in->shape) * flop).value(), std::nullopt};
  std::optional<Shape> out = call.output;
  if (!out && call.arguments.size() <= whole_arguments) out.emplace();
  if (out) cost.bytes = (BytesOf(*in) + Elements(*out) * in->element_bytes).value();
  return cost;
}

OperatorCost Embedding(const OperatorCall& call, int, size_t) {
  const Argument* table = call.Tensor(0);
  const Argument* indices = call.Tensor(1);
  if (table == nullptr || indices == nullptr || table->shape.size() != 2) return {};
  const Count rows = Elements(indices->shape) * table->shape[1] * table->element_bytes;
  return {0, table->element_bytes == 0 ? std::nullopt : (rows * 2 + BytesOf(*indices)).value()};
}

// gather(self, dim, index) reads an index and an element and writes an element, per index.
OperatorCost Gather(const OperatorCall& call, int, size_t) {
  const Argument* from = call.Tensor(0);
  const Argument* index = call.Tensor(2);
  if (from == nullptr || index == nullptr || from->element_bytes == 0) return {};
  return {0, (BytesOf(*index) + Elements(index->shape) * from->element_bytes * 2).value()};
}

OperatorCost Dropout(const OperatorCall& call, int flop, size_t) {
  const Argument* in = call.Tensor(0);
  if (in == nullptr) return {};
  // The mask has one byte per element.
  return {(Elements(in->shape) * flop).value(), (BytesOf(*in) * 2 + Elements(in->shape)).value()};
}

// `indices` is 1 if the operator also writes indices.
OperatorCost Pool(const OperatorCall& call, int indices, size_t) {
  const Argument* in = call.Tensor(0);
  if (in == nullptr || in->element_bytes == 0) return {};
  const std::optional<Shape> out = call.output;
  if (!out) return {};
  const std::optional<Shape> window = SpatialValue(call, 1, "kernel_size", in->shape);
  OperatorCost cost;
  if (window) cost.flop = (Elements(*out) * Elements(*window)).value();
  cost.bytes = (BytesOf(*in) + Elements(*out) * (in->element_bytes + indices * 8)).value();
  return cost;
}

// max_pool2d_with_indices_backward(grad, self, …, indices) reads grad and indices, and writes a tensor like
// self.
OperatorCost PoolBackward(const OperatorCall& call, int, size_t) {
  const Argument* grad = call.Tensor(0);
  const Argument* self = call.Tensor(1);
  if (grad == nullptr || self == nullptr) return {};
  return {Elements(grad->shape).value(),
          (BytesOf(*grad) + Elements(grad->shape) * 8 + BytesOf(*self)).value()};
}

// Reads one element of the scores per target. `scores` is the index of an argument with the
// scores' element type. The target follows it.
OperatorCost NllLoss(const OperatorCall& call, int, size_t scores) {
  const Argument* score = call.Tensor(scores);
  const Argument* target = call.Tensor(scores + 1);
  if (score == nullptr || target == nullptr || score->element_bytes == 0) return {};
  const Count targets = Elements(target->shape);
  return {targets.value(), (BytesOf(*target) + targets * score->element_bytes).value()};
}

// Takes lists of tensors, and counts all elements of the first list.
OperatorCost Foreach(const OperatorCall& call, int flop, size_t) {
  if (call.arguments.empty() || call.arguments[0].list.empty()) return {};
  Count elements = 0;
  for (const Shape& shape : call.arguments[0].list) elements = elements + Elements(shape);
  return {(elements * flop).value(), std::nullopt};
}

using Rule = OperatorCost (*)(const OperatorCall& call, int flop, size_t inputs);

struct RuleOf {
  Rule rule;
  int flop;
  size_t inputs;
};

const absl::flat_hash_map<std::string_view, RuleOf>& Rules() {
  static const auto& rules = *new absl::flat_hash_map<std::string_view, RuleOf>([] {
    absl::flat_hash_map<std::string_view, RuleOf> r;
    for (const std::string_view op :
         {"relu",     "clamp_min",  "clamp_max", "clamp",      "neg",     "abs",        "exp",
          "log",      "sqrt",       "rsqrt",     "reciprocal", "sigmoid", "tanh",       "gelu",
          "silu",     "erf",        "sin",       "cos",        "floor",   "ceil",       "sign",
          "hardtanh", "leaky_relu", "elu",       "softplus",   "pow",     "nan_to_num", "threshold",
          "relu6",    "mish",       "hardswish", "log1p",      "expm1",   "log2"}) {
      r[op] = {&Pointwise, 1, 1};
    }
    for (const std::string_view op : {"add",
                                      "sub",
                                      "mul",
                                      "div",
                                      "rsub",
                                      "maximum",
                                      "minimum",
                                      "remainder",
                                      "fmod",
                                      "floor_divide",
                                      "true_divide",
                                      "divide",
                                      "__add__",
                                      "__iadd__",
                                      "__sub__",
                                      "__isub__",
                                      "__mul__",
                                      "__imul__",
                                      "__truediv__",
                                      "__itruediv__",
                                      "__radd__",
                                      "__rmul__",
                                      "__rsub__",
                                      "threshold_backward",
                                      "sigmoid_backward",
                                      "tanh_backward",
                                      "gelu_backward",
                                      "silu_backward",
                                      "leaky_relu_backward",
                                      "native_dropout_backward",
                                      "atan2",
                                      "bitwise_and",
                                      "bitwise_or"}) {
      r[op] = {&Pointwise, 1, 2};
    }
    r["addcmul"] = r["addcdiv"] = r["lerp"] = {&Pointwise, 3, 3};
    for (const std::string_view op :
         {"eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})
      r[op] = {&Compare, 1, 2};
    for (const std::string_view op : {"_softmax", "softmax", "_log_softmax", "log_softmax"})
      r[op] = {&LikeFirst, 5, 1};
    r["_softmax_backward_data"] = r["_log_softmax_backward_data"] = {&LikeFirst, 4, 2};
    for (const std::string_view op : {"native_layer_norm", "layer_norm"}) r[op] = {&LikeFirst, 8, 4};
    r["native_group_norm"] = r["group_norm"] = {&LikeFirst, 8, 3};
    r["native_layer_norm_backward"] = r["native_group_norm_backward"] = {&LikeFirst, 13, 2};
    for (const std::string_view op :
         {"batch_norm", "native_batch_norm", "cudnn_batch_norm", "_batch_norm_impl_index"})
      r[op] = {&BatchNorm, 8, 5};
    r["cudnn_batch_norm_backward"] = r["native_batch_norm_backward"] = {&LikeFirst, 9, 2};
    r["copy"] = {&Copy, 0, 2};
    r["clone"] = r["contiguous"] = {&Clone, 0, 1};
    r["fill"] = r["zero"] = {&Fill, 0, 1};
    // The last value is the largest number of arguments of a call that reduces all dimensions.
    for (const std::string_view op : {"sum", "mean", "prod", "max", "min", "any", "all"})
      r[op] = {&Reduce, 1, 2};
    r["norm"] = r["linalg_vector_norm"] = {&Reduce, 2, 2};
    r["argmax"] = r["argmin"] = {&Reduce, 1, 0};
    r["cumsum"] = r["cumprod"] = {&LikeFirst, 1, 1};
    r["embedding"] = {&Embedding, 0, 2};
    r["gather"] = {&Gather, 0, 3};
    for (const std::string_view op : {"dropout", "native_dropout", "_fused_dropout", "fused_dropout"})
      r[op] = {&Dropout, 2, 1};
    r["max_pool2d_with_indices"] = {&Pool, 1, 1};
    r["max_pool2d"] = r["avg_pool2d"] = {&Pool, 0, 1};
    r["max_pool2d_with_indices_backward"] = {&PoolBackward, 1, 2};
    r["nll_loss_forward"] = r["nll_loss"] = {&NllLoss, 1, 0};
    r["nll_loss_backward"] = {&NllLoss, 1, 1};
    for (const std::string_view op :
         {"_foreach_add", "_foreach_mul", "_foreach_sub", "_foreach_div", "_foreach_sqrt", "_foreach_neg"})
      r[op] = {&Foreach, 1, 1};
    r["_foreach_addcmul"] = r["_foreach_addcdiv"] = r["_foreach_lerp"] = {&Foreach, 3, 1};
    r["_fused_adam"] = r["_fused_adamw"] = {&Foreach, 13, 1};
    r["_fused_sgd"] = {&Foreach, 4, 1};
    return r;
  }());
  return rules;
}

}  // namespace

std::string_view BareName(std::string_view name) {
  if (const size_t at = name.find_last_of(".:"); at != std::string_view::npos) name.remove_prefix(at + 1);
  if (name.size() > 1 && name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

OperatorCost CostOf(const OperatorCall& call) {
  const std::string_view name = BareName(call.name);
  if (const auto cost = MatrixCost(name, call)) return *cost;
  const auto rule = Rules().find(name);
  return rule == Rules().end() ? OperatorCost()
                               : rule->second.rule(call, rule->second.flop, rule->second.inputs);
}

}  // namespace lockstep::views
