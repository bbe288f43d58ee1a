#include "analysis/compare/kernel_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace lockstep::analysis {
namespace {

constexpr std::array<std::string_view, 6> kGroupedWords = {"grouped", "group_gemm", "groupgemm",
                                                           "moe",     "expert",     "gmm_"};
// Kernels of expert layers that route tokens, not products.
constexpr std::array<std::string_view, 9> kRoutingWords = {
    "topk", "softmax", "align", "permute", "sort", "histogram", "gather", "scatter", "moe_sum"};
constexpr std::array<std::string_view, 6> kAttentionWords = {"flash", "fmha", "attention",
                                                             "attn",  "sdpa", "_mha"};
constexpr std::array<std::string_view, 16> kMatrixWords = {
    "gemm",   "cutlass", "cublas",   "xmma",     "wgrad",  "dgrad", "convolve", "conv2d",
    "matmul", "nvjet",   "winograd", "implicit", "splitk", "cijk_", "_mma_",    "fprop"};
constexpr std::array<std::string_view, 37> kMemoryWords = {
    "elementwise", "vectorized",    "reduce",       "norm",       "softmax",    "dropout",  "embedding",
    "adam",        "sgd",           "multi_tensor", "lamb",       "optimizer",  "copy",     "catarray",
    "transpose",   "permute",       "gelu",         "relu",       "silu",       "swiglu",   "rope",
    "rotary",      "indexing",      "index_put",    "gather",     "scatter",    "fill",     "cast",
    "nll",         "cross_entropy", "triton_poi",   "triton_red", "triton_per", "residual", "bias",
    "pooling",     "activation"};

// A block of a matrix product works at least this long on its tile. A block that streams through memory needs
// less.
constexpr int64_t kWaveNs = 15'000;
constexpr int64_t kUsualMultiprocessors = 108;

template <size_t N>
bool HasAny(std::string_view name, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view w) { return name.find(w) != std::string_view::npos; });
}

}  // namespace

std::optional<KernelKind> KindByName(std::string_view kernel) {
  std::string name(kernel);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (HasAny(name, kGroupedWords))
    return HasAny(name, kRoutingWords) ? KernelKind::kMemory : KernelKind::kGrouped;
  if (HasAny(name, kAttentionWords)) return KernelKind::kAttention;
  if (HasAny(name, kMatrixWords)) return KernelKind::kMatrix;
  if (HasAny(name, kMemoryWords)) return KernelKind::kMemory;
  return std::nullopt;
}

KernelKinds::KernelKinds(const capture::Capture& capture) {
  by_name_.reserve(capture.strings.size());
  for (uint32_t i = 0; i < capture.strings.size(); ++i)
    by_name_.push_back(KindByName(capture.Text(NameId(i))));
}

KernelKind KernelKinds::Of(const capture::RankData& rank, const capture::DeviceActivity& kernel) const {
  if (kernel.name.value() < by_name_.size() && by_name_[kernel.name.value()])
    return *by_name_[kernel.name.value()];
  int64_t waves = 1;
  if (kernel.detail < rank.kernel_details.size()) {
    const capture::KernelDetail& d = rank.kernel_details[kernel.detail];
    const int64_t blocks = std::max<int64_t>(1, int64_t{d.grid[0]} * d.grid[1] * d.grid[2]);
    const int64_t sms =
        rank.has_properties && rank.properties.sms > 0 ? rank.properties.sms : kUsualMultiprocessors;
    waves = (blocks + sms - 1) / sms;
  }
  return (kernel.end - kernel.start).ns() / waves >= kWaveNs ? KernelKind::kMatrix : KernelKind::kMemory;
}

}  // namespace lockstep::analysis
