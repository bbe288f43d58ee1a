#include "analysis/compare/kernel_kind.h"

#include "gtest/gtest.h"

namespace lockstep::analysis {
namespace {

TEST(KernelKind, LibraryAndCompilerNamesGiveTheLimitingFactor) {
  EXPECT_EQ(KindByName("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"), KernelKind::kMatrix);
  EXPECT_EQ(KindByName("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm>"),
            KernelKind::kMatrix);
  EXPECT_EQ(KindByName("nvjet_hsh_128x256_64x4_2x1_v_bz_TNT"), KernelKind::kMatrix);
  EXPECT_EQ(KindByName("Cijk_Ailk_Bljk_BBS_BH_MT128x128x32"), KernelKind::kMatrix);
  EXPECT_EQ(KindByName("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>"),
            KernelKind::kAttention);
  EXPECT_EQ(KindByName("fmha_cutlassF_bf16_aligned_64x64_rf_sm80"), KernelKind::kAttention);
  EXPECT_EQ(KindByName("void grouped_gemm_kernel<__nv_bfloat16>"), KernelKind::kGrouped);
  EXPECT_EQ(
      KindByName("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"),
      KernelKind::kMemory);
  EXPECT_EQ(KindByName("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>"),
            KernelKind::kMemory);
  EXPECT_EQ(KindByName("triton_poi_fused_add_mul_0"), KernelKind::kMemory);
  EXPECT_EQ(KindByName("fused_moe_kernel"), KernelKind::kGrouped);
  EXPECT_EQ(KindByName("void moe_topk_softmax_kernel<float, 8, 64>(float const*, int*)"),
            KernelKind::kMemory);
  EXPECT_EQ(KindByName("my_kernel"), std::nullopt);
}

capture::Capture WithKernel(uint32_t blocks, int64_t ns) {
  capture::Capture capture;
  capture::RankData rank;
  rank.kernel_details.push_back({.grid = {blocks, 1, 1}, .block = {256, 1, 1}});
  rank.activities.push_back(
      {.start = HostTime(0), .end = HostTime(ns), .name = capture.strings.Intern("my_kernel"), .detail = 0});
  capture.ranks.push_back(std::move(rank));
  return capture;
}

TEST(KernelKind, UnnamedKernelsAreClassifiedByTheTimeOfOneWave) {
  const capture::Capture tiles = WithKernel(216, 200'000), streams = WithKernel(4096, 200'000);
  EXPECT_EQ(KernelKinds(tiles).Of(tiles.ranks[0], tiles.ranks[0].activities[0]), KernelKind::kMatrix);
  EXPECT_EQ(KernelKinds(streams).Of(streams.ranks[0], streams.ranks[0].activities[0]), KernelKind::kMemory);
}

TEST(KernelKind, AcceptsAKernelOfZeroLengthWithoutDetails) {
  capture::Capture capture = WithKernel(1, 0);
  capture.ranks[0].activities[0].detail = capture::kNone;
  EXPECT_EQ(KernelKinds(capture).Of(capture.ranks[0], capture.ranks[0].activities[0]), KernelKind::kMemory);
}

}  // namespace
}  // namespace lockstep::analysis
