#include "sim/cupti/callback_names.h"

namespace lockstep::sim {
namespace {

struct Row {
  uint32_t cbid;
  const char* name;
};

constexpr Row kRuntime[] = {
    {1, "cudaDriverGetVersion_v3020"},
    {2, "cudaRuntimeGetVersion_v3020"},
    {3, "cudaGetDeviceCount_v3020"},
    {4, "cudaGetDeviceProperties_v3020"},
    {10, "cudaGetLastError_v3020"},
    {11, "cudaPeekAtLastError_v3020"},
    {15, "cudaFuncGetAttributes_v3020"},
    {16, "cudaSetDevice_v3020"},
    {17, "cudaGetDevice_v3020"},
    {20, "cudaMalloc_v3020"},
    {22, "cudaFree_v3020"},
    {25, "cudaMallocHost_v3020"},
    {26, "cudaFreeHost_v3020"},
    {27, "cudaHostAlloc_v3020"},
    {28, "cudaHostGetDevicePointer_v3020"},
    {30, "cudaMemGetInfo_v3020"},
    {31, "cudaMemcpy_v3020"},
    {41, "cudaMemcpyAsync_v3020"},
    {49, "cudaMemset_v3020"},
    {51, "cudaMemsetAsync_v3020"},
    {129, "cudaStreamCreate_v3020"},
    {131, "cudaStreamSynchronize_v3020"},
    {132, "cudaStreamQuery_v3020"},
    {133, "cudaEventCreate_v3020"},
    {134, "cudaEventCreateWithFlags_v3020"},
    {135, "cudaEventRecord_v3020"},
    {136, "cudaEventDestroy_v3020"},
    {137, "cudaEventSynchronize_v3020"},
    {138, "cudaEventQuery_v3020"},
    {139, "cudaEventElapsedTime_v3020"},
    {147, "cudaStreamWaitEvent_v3020"},
    {150, "cudaThreadGetCacheConfig_v3020"},
    {151, "cudaPointerGetAttributes_v4000"},
    {152, "cudaHostRegister_v4000"},
    {161, "cudaMemcpyPeerAsync_v4000"},
    {164, "cudaDeviceReset_v3020"},
    {165, "cudaDeviceSynchronize_v3020"},
    {171, "cudaProfilerStart_v4000"},
    {172, "cudaProfilerStop_v4000"},
    {198, "cudaStreamCreateWithFlags_v5000"},
    {200, "cudaDeviceGetAttribute_v5000"},
    {201, "cudaStreamDestroy_v5050"},
    {202, "cudaStreamCreateWithPriority_v5050"},
    {203, "cudaStreamGetPriority_v5050"},
    {205, "cudaDeviceGetStreamPriorityRange_v5050"},
    {210, "cudaOccupancyMaxActiveBlocksPerMultiprocessor_v6050"},
    {211, "cudaLaunchKernel_v7000"},
    {214, "cudaLaunchKernel_ptsz_v7000"},
    {225, "cudaMemcpyAsync_ptsz_v7000"},
    {235, "cudaMemsetAsync_ptsz_v7000"},
    {239, "cudaStreamSynchronize_ptsz_v7000"},
    {240, "cudaStreamQuery_ptsz_v7000"},
    {242, "cudaEventRecord_ptsz_v7000"},
    {247, "cudaStreamWaitEvent_ptsz_v7000"},
    {251, "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000"},
    {273, "cudaFuncSetAttribute_v9000"},
    {284, "cudaLaunchHostFunc_v10000"},
    {311, "cudaGraphLaunch_v10000"},
    {312, "cudaGraphLaunch_ptsz_v10000"},
    {313, "cudaGraphExecDestroy_v10000"},
    {314, "cudaGraphDestroy_v10000"},
    {315, "cudaStreamBeginCapture_v10000"},
    {317, "cudaStreamIsCapturing_v10000"},
    {318, "cudaStreamIsCapturing_ptsz_v10000"},
    {319, "cudaStreamEndCapture_v10000"},
    {324, "cudaStreamGetCaptureInfo_v10010"},
    {373, "cudaMallocAsync_v11020"},
    {375, "cudaFreeAsync_v11020"},
    {409, "cudaStreamGetCaptureInfo_v2_v11030"},
    {418, "cudaGraphInstantiateWithFlags_v11040"},
    {430, "cudaLaunchKernelExC_v11060"},
    {431, "cudaLaunchKernelExC_ptsz_v11060"},
    {440, "cudaGetDeviceProperties_v12000"},
    {443, "cudaGraphInstantiate_v12000"},
    {486, "cudaEventElapsedTime_v12080"},
};

constexpr Row kDriver[] = {
    {307, "cuLaunchKernel"},     {442, "cuLaunchKernel_ptsz"}, {514, "cuGraphLaunch"},
    {515, "cuGraphLaunch_ptsz"}, {652, "cuLaunchKernelEx"},    {653, "cuLaunchKernelEx_ptsz"},
};

template <size_t n>
const char* Find(const Row (&rows)[n], uint32_t cbid) {
  for (const Row& row : rows) {
    if (row.cbid == cbid) return row.name;
  }
  return nullptr;
}

}  // namespace

const char* CallbackName(foreign::cupti::CallbackDomain domain, uint32_t cbid) {
  switch (domain) {
    case foreign::cupti::CallbackDomain::kRuntimeApi:
      return Find(kRuntime, cbid);
    case foreign::cupti::CallbackDomain::kDriverApi:
      return Find(kDriver, cbid);
    default:
      return nullptr;
  }
}

}  // namespace lockstep::sim
