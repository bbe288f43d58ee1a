#include "capture/model/collective_op.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::capture {
namespace {

using Op = CollectiveOp;

struct Case {
  const char* name;
  Op op;
};

TEST(CollectiveOp, RecognisesOperationsInNamesOfAllNcclVersions) {
  for (const Case& c : {
           Case{"ncclAllReduceRingLLKernel_sum_f32(ncclColl)", Op::kAllReduce},
           Case{"ncclBroadcastRingLLKernel_copy_i8(ncclColl)", Op::kBroadcast},
           Case{"ncclReduceScatterRingLLKernel_sum_f16(ncclColl)", Op::kReduceScatter},
           Case{"ncclReduceRingLLKernel_sum_f32(ncclColl)", Op::kReduce},
           Case{"ncclAllGatherRingLLKernel_copy_i8(ncclColl)", Op::kAllGather},
           Case{"ncclSendRecvKernel_copy_i8(ncclColl)", Op::kSendReceive},
           Case{"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
                Op::kAllReduce},
           Case{"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", Op::kSendReceive},
           Case{"ncclKernel_Reduce_RING_LL_Sum_float(ncclWorkElem)", Op::kReduce},
           Case{"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Op::kAllReduce},
           Case{"ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(ncclDevKernelArgsStorage<4096ul>)",
                Op::kReduceScatter},
           Case{"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Op::kSendReceive},
           Case{"ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Op::kBroadcast},
           Case{"ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)", Op::kAllGather},
           Case{"ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32(ncclSymkDevWorkArgs)", Op::kAllReduce},
       }) {
    EXPECT_TRUE(ClassifyKernelName(c.name).communication) << c.name;
    EXPECT_EQ(ClassifyKernelName(c.name).op, c.op) << c.name;
  }
}

TEST(CollectiveOp, RcclsGenericKernelIsAnUnknownCollective) {
  for (const char* name :
       {"ncclDevKernel_Generic(ncclDevComm*, unsigned long, ncclWork*)", "ncclDevKernel_Generic_1(x)",
        "mscclKernel_Sum_float_Simple_false(ncclDevComm*)"}) {
    EXPECT_TRUE(ClassifyKernelName(name).communication) << name;
    EXPECT_EQ(ClassifyKernelName(name).op, Op::kUnknown) << name;
  }
}

TEST(CollectiveOp, RecognisesCollectivesOfOtherLibraries) {
  for (const Case& c : {
           Case{"void dpsk::ep::internode::dispatch<false, 8, true, 20>(int4*, float*)", Op::kAllToAllV},
           Case{"void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(int)", Op::kAllToAllV},
           Case{"void deep_ep::intranode::notify_dispatch<8>(int const*)", Op::kBarrier},
           Case{"void deep_ep::intranode::barrier<8>(int**, int)", Op::kBarrier},
           Case{"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", Op::kAllReduce},
           Case{"void sglang::cross_device_reduce_2stage<half, 4>(sglang::RankData*)", Op::kAllReduce},
           Case{"void aiter::allgather_naive<float>(aiter::RankData*)", Op::kAllGather},
           Case{"nvshmemi_barrier_all_on_stream_kernel()", Op::kBarrier},
           Case{"void nvshmem_alltoall_kernel<int>(int)", Op::kAllToAll},
           Case{"void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
                Op::kAllReduce},
           Case{"void (anonymous namespace)::two_shot_all_reduce_kernel<float, 16, 8>(float**)",
                Op::kAllReduce},
           Case{"void c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**)",
                Op::kBarrier},
           Case{"void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<int>(int)",
                Op::kAllReduce},
           Case{"void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8, true>(int)", Op::kAllReduce},
       }) {
    EXPECT_TRUE(ClassifyKernelName(c.name).communication) << c.name;
    EXPECT_EQ(ClassifyKernelName(c.name).op, c.op) << c.name;
  }
}

TEST(CollectiveOp, SimilarNamesAreNotCommunication) {
  for (const char* name : {
           "hipLaunchKernelGGL_gemm(float*)",
           "dmaGemmKernel(float*)",
           "void cub::DeviceReduceKernel<Sync>(float*)",
           "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> "
           ">(at::native::ReduceOp<float>)",
           "void at::native::vectorized_elementwise_kernel<4, ncclDevKernel_Fake>(ncclKernel_AllReduce)",
           "triton_poi_fused_all_gather_into_tensor_copy_wait_tensor_0",
           "triton_red_fused_all_reduce_native_layer_norm_3",
           "void blockAllReduceSum<float, 4>(float*)",
           "void deep_ep::layout::get_dispatch_layout<256, 32, 1>(long const*)",
           "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
           "void at::native::index_elementwise_kernel<128, 4, gather>(long)",
           "void split_embedding_forward_kernel<broadcast>(float)",
           "my_nccl_helper(float*)",
           "",
           "(",
           "<<<<",
       }) {
    EXPECT_FALSE(ClassifyKernelName(name).communication) << name;
  }
}

TEST(CollectiveOp, NamesOfPyTorchNcclAndNvtxGiveTheSameOperation) {
  for (const Case& c : {
           Case{"allreduce", Op::kAllReduce},
           Case{"AllReduce", Op::kAllReduce},
           Case{"ncclAllReduce", Op::kAllReduce},
           Case{"nccl:all_reduce", Op::kAllReduce},
           Case{"allreduce_coalesced", Op::kAllReduce},
           Case{"_allgather_base", Op::kAllGather},
           Case{"nccl:_all_gather_base", Op::kAllGather},
           Case{"_reduce_scatter_base", Op::kReduceScatter},
           Case{"reduce_scatter_tensor_coalesced", Op::kReduceScatter},
           Case{"all_to_all", Op::kAllToAll},
           Case{"all_to_allv", Op::kAllToAllV},
           Case{"alltoallv", Op::kAllToAllV},
           Case{"broadcast", Op::kBroadcast},
           Case{"_broadcast_oop", Op::kBroadcast},
           Case{"reduce", Op::kReduce},
           Case{"nccl:send 0->1", Op::kSend},
           Case{"nccl:recv 1<-0", Op::kReceive},
           Case{"SendRecv", Op::kSendReceive},
           Case{"barrier", Op::kBarrier},
           Case{"gather", Op::kGather},
           Case{"scatter", Op::kScatter},
           Case{"wait", Op::kUnknown},
           Case{"", Op::kUnknown},
       }) {
    EXPECT_EQ(CollectiveOpFromText(c.name), c.op) << c.name;
  }
}

TEST(CollectiveOp, OnlyAllToAllDependenciesAreSymmetric) {
  for (Op op : {Op::kAllReduce, Op::kAllGather, Op::kReduceScatter, Op::kAllToAll, Op::kBarrier}) {
    EXPECT_TRUE(IsSymmetric(op)) << CollectiveOpName(op);
  }
  for (Op op : {Op::kUnknown, Op::kAllToAllV, Op::kBroadcast, Op::kReduce, Op::kGather, Op::kScatter,
                Op::kSend, Op::kReceive, Op::kSendReceive}) {
    EXPECT_FALSE(IsSymmetric(op)) << CollectiveOpName(op);
  }
}

TEST(CollectiveOp, EveryNameParsesBackToItsOperation) {
  for (int i = 1; i <= static_cast<int>(Op::kBarrier); ++i) {
    const Op op = static_cast<Op>(i);
    EXPECT_EQ(CollectiveOpFromText(CollectiveOpName(op)), op) << CollectiveOpName(op);
  }
}

TEST(CollectiveOp, AllSpellingsOfATypeHaveTheSameElementSize) {
  EXPECT_EQ(ElementBytes("Float"), 4);
  EXPECT_EQ(ElementBytes("ncclFloat32"), 4);
  EXPECT_EQ(ElementBytes("BFloat16"), 2);
  EXPECT_EQ(ElementBytes("ncclBfloat16"), 2);
  EXPECT_EQ(ElementBytes("Half"), 2);
  EXPECT_EQ(ElementBytes("Long"), 8);
  EXPECT_EQ(ElementBytes("ncclInt64"), 8);
  EXPECT_EQ(ElementBytes("Byte"), 1);
  EXPECT_EQ(ElementBytes("Float8_e4m3fn"), 1);
  EXPECT_EQ(ElementBytes("ncclFloat8e5m2"), 1);
  EXPECT_EQ(ElementBytes("N/A"), 0);
  EXPECT_EQ(ElementBytes(""), 0);
}

}  // namespace
}  // namespace lockstep::capture
