// Compares the project's declarations of CUDA's runtime API, of NCCL and of NVTX payload schemas with the
// real headers, if a CUDA toolkit is installed.
#define LOCKSTEP_FOREIGN_TYPES_ONLY
#include "tests/abi/same_as_header.h"
#include "wire/foreign/cuda_runtime.h"
#include "wire/foreign/nccl.h"
// The real headers come last, because they define macros with the names of the project's constants.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>

namespace {

namespace cudart = lockstep::foreign::cudart;
namespace ours = lockstep::foreign::ncclapi;

#define EXPECT_SAME_NAME(name) EXPECT_SAME_VALUE(cudart::name, ::name)
#define EXPECT_SAME_NCCL(name) EXPECT_SAME_VALUE(ours::name, ::name)

TEST(CudaDeclarations, NumbersEqualTheHeader) {
  EXPECT_SAME_NAME(cudaErrorInvalidValue);
  EXPECT_SAME_NAME(cudaErrorMemoryAllocation);
  EXPECT_SAME_NAME(cudaErrorInitializationError);
  EXPECT_SAME_NAME(cudaErrorInvalidConfiguration);
  EXPECT_SAME_NAME(cudaErrorInvalidDeviceFunction);
  EXPECT_SAME_NAME(cudaErrorNoDevice);
  EXPECT_SAME_NAME(cudaErrorInvalidDevice);
  EXPECT_SAME_NAME(cudaErrorInvalidResourceHandle);
  EXPECT_SAME_NAME(cudaErrorNotReady);
  EXPECT_SAME_NAME(cudaErrorNotSupported);
  EXPECT_SAME_NAME(cudaErrorStreamCaptureUnsupported);
  EXPECT_SAME_NAME(cudaErrorStreamCaptureUnmatched);
  EXPECT_SAME_NAME(cudaErrorStreamCaptureUnjoined);
  EXPECT_SAME_NAME(cudaMemcpyDeviceToHost);
  EXPECT_SAME_NAME(cudaMemcpyDefault);
  EXPECT_SAME_NAME(cudaStreamCaptureModeRelaxed);
  EXPECT_SAME_NAME(cudaStreamCaptureStatusActive);
  EXPECT_SAME_NAME(cudaMemoryTypeDevice);
  EXPECT_SAME_NAME(cudaDevAttrMaxThreadsPerBlock);
  EXPECT_SAME_NAME(cudaDevAttrWarpSize);
  EXPECT_SAME_NAME(cudaDevAttrMultiProcessorCount);
  EXPECT_SAME_NAME(cudaDevAttrMaxThreadsPerMultiProcessor);
  EXPECT_SAME_NAME(cudaDevAttrComputeCapabilityMajor);
  EXPECT_SAME_NAME(cudaDevAttrComputeCapabilityMinor);
}

TEST(CudaDeclarations, StructsEqualTheHeaderFieldByField) {
  using Ours = cudart::cudaDeviceProp;
  using Theirs = ::cudaDeviceProp;
  EXPECT_EQ(sizeof(Ours), sizeof(Theirs));
  EXPECT_SAME_FIELD(Ours, name, Theirs, name);
  EXPECT_SAME_FIELD(Ours, uuid, Theirs, uuid);
  EXPECT_SAME_FIELD(Ours, totalGlobalMem, Theirs, totalGlobalMem);
  EXPECT_SAME_FIELD(Ours, regsPerBlock, Theirs, regsPerBlock);
  EXPECT_SAME_FIELD(Ours, warpSize, Theirs, warpSize);
  EXPECT_SAME_FIELD(Ours, maxThreadsPerBlock, Theirs, maxThreadsPerBlock);
  EXPECT_SAME_FIELD(Ours, maxGridSize, Theirs, maxGridSize);
  EXPECT_SAME_FIELD(Ours, totalConstMem, Theirs, totalConstMem);
  EXPECT_SAME_FIELD(Ours, minor, Theirs, minor);
  EXPECT_SAME_FIELD(Ours, multiProcessorCount, Theirs, multiProcessorCount);
  EXPECT_SAME_FIELD(Ours, l2CacheSize, Theirs, l2CacheSize);
  EXPECT_SAME_FIELD(Ours, maxThreadsPerMultiProcessor, Theirs, maxThreadsPerMultiProcessor);
  EXPECT_EQ(sizeof(cudart::cudaPointerAttributes), sizeof(::cudaPointerAttributes));
  EXPECT_SAME_FIELD(cudart::cudaPointerAttributes, hostPointer, ::cudaPointerAttributes, hostPointer);
  EXPECT_EQ(sizeof(cudart::cudaLaunchConfig_t), sizeof(::cudaLaunchConfig_t));
  EXPECT_SAME_FIELD(cudart::cudaLaunchConfig_t, dynamicSmemBytes, ::cudaLaunchConfig_t, dynamicSmemBytes);
  EXPECT_SAME_FIELD(cudart::cudaLaunchConfig_t, stream, ::cudaLaunchConfig_t, stream);
  EXPECT_EQ(sizeof(cudart::dim3), sizeof(::dim3));
}

TEST(NcclDeclarations, NumbersAndStructsEqualTheHeader) {
  EXPECT_SAME_NCCL(ncclUnhandledCudaError);
  EXPECT_SAME_NCCL(ncclSystemError);
  EXPECT_SAME_NCCL(ncclInternalError);
  EXPECT_SAME_NCCL(ncclInvalidArgument);
  EXPECT_SAME_NCCL(ncclInvalidUsage);
  EXPECT_SAME_NCCL(ncclRemoteError);
  EXPECT_SAME_NCCL(ncclInProgress);
  EXPECT_SAME_NCCL(ncclAvg);
  EXPECT_SAME_NCCL(ncclMin);
  EXPECT_SAME_NCCL(ncclFloat16);
  EXPECT_SAME_NCCL(ncclFloat32);
  EXPECT_SAME_NCCL(ncclBfloat16);
  EXPECT_SAME_NCCL(ncclFloat8e5m2);
  EXPECT_EQ(sizeof(ours::ncclUniqueId), sizeof(::ncclUniqueId));
  EXPECT_EQ(sizeof(ours::ncclConfig_t), sizeof(::ncclConfig_t));
  EXPECT_SAME_FIELD(ours::ncclConfig_t, magic, ::ncclConfig_t, magic);
  EXPECT_SAME_FIELD(ours::ncclConfig_t, commName, ::ncclConfig_t, commName);
  const ::ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(initial.magic, ours::kNcclConfigMagic);
}

}  // namespace
