// Implements kernel launches: the functions that nvcc's host code calls at program start to register kernels,
// and at each <<<>>>.
#include <cstring>

#include "sim/cudart/runtime.h"

using namespace lockstep::foreign::cudart;
using lockstep::sim::ApiCall;
using lockstep::sim::Gpu;
using lockstep::sim::Runtime;
namespace sim = lockstep::sim;
namespace cupti = lockstep::foreign::cupti;

namespace {

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes = 0;
  CUstream_st* stream = nullptr;
};
thread_local CallConfiguration t_configuration;

cudaError_t Launch(uint32_t cbid, const char* call_name, const void* host, const dim3& grid,
                   const dim3& block, size_t shared_bytes, const void* stream_handle) {
  const char* kernel = Runtime::Get().KernelName(host);
  Runtime::Get().gpu().BeforeKernelLaunch();
  return sim::RuntimeCall(
      cbid, call_name,
      [&](Gpu& gpu, ApiCall& call) {
        if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
        const uint64_t threads = uint64_t{block.x} * block.y * block.z;
        if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0)
          return cudaErrorInvalidConfiguration;
        sim::Stream* stream = gpu.Find(stream_handle);
        if (stream == nullptr) return cudaErrorInvalidResourceHandle;
        // The runtime calls the driver, and CUPTI records that call too.
        ApiCall driver(gpu.activity(), cupti::CallbackDomain::kDriverApi, cupti::driver_cbid::kLaunchKernel,
                       "cuLaunchKernel", kernel);
        sim::Work work;
        auto& record = work.Make<cupti::Kernel10>(cupti::ActivityKind::kConcurrentKernel);
        record.name = kernel;
        record.grid_x = static_cast<int32_t>(grid.x);
        record.grid_y = static_cast<int32_t>(grid.y);
        record.grid_z = static_cast<int32_t>(grid.z);
        record.block_x = static_cast<int32_t>(block.x);
        record.block_y = static_cast<int32_t>(block.y);
        record.block_z = static_cast<int32_t>(block.z);
        record.dynamic_shared_memory = static_cast<int32_t>(shared_bytes);
        record.registers_per_thread = 32;
        const sim::KernelShape shape = {
            {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<uint32_t>(shared_bytes)};
        work.duration_ns = gpu.KernelNs(kernel, shape);
        gpu.Submit(*stream, std::move(work), call.correlation());
        return cudaSuccess;
      },
      kernel);
}

}  // namespace

LOCKSTEP_SIM_EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
LOCKSTEP_SIM_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
LOCKSTEP_SIM_EXPORT void __cudaUnregisterFatBinary(void**) {}
LOCKSTEP_SIM_EXPORT char __cudaInitModule(void**) { return 1; }

LOCKSTEP_SIM_EXPORT void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int,
                                                uint3*, uint3*, dim3*, dim3*, int*) {
  Runtime::Get().RegisterKernel(host, name);
}
// The host's variable serves as the device's variable too.
LOCKSTEP_SIM_EXPORT void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

LOCKSTEP_SIM_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                         CUstream_st* stream) {
  t_configuration = {grid, block, shared_bytes, stream};
  return 0;
}

LOCKSTEP_SIM_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                           void* stream) {
  *grid = t_configuration.grid;
  *block = t_configuration.block;
  *shared_bytes = t_configuration.shared_bytes;
  std::memcpy(stream, &t_configuration.stream, sizeof t_configuration.stream);
  return cudaSuccess;
}

// The host function's address serves as the kernel's handle.
LOCKSTEP_SIM_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

LOCKSTEP_SIM_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**,
                                                   size_t shared_bytes, cudaStream_t stream) {
  return Launch(cupti::runtime_cbid::kLaunchKernel, "cudaLaunchKernel", kernel, grid, block, shared_bytes,
                stream);
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaLaunchKernel(const void* host, dim3 grid, dim3 block, void**,
                                                 size_t shared_bytes, cudaStream_t stream) {
  return Launch(cupti::runtime_cbid::kLaunchKernel, "cudaLaunchKernel", host, grid, block, shared_bytes,
                stream);
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host,
                                                    void**) {
  if (config == nullptr) return Runtime::LastError() = cudaErrorInvalidValue;
  return Launch(cupti::runtime_cbid::kLaunchKernelExC, "cudaLaunchKernelExC", host, config->gridDim,
                config->blockDim, config->dynamicSmemBytes, config->stream);
}

namespace {

// Runs the host function. The stream continues when the function has returned.
class HostFunction : public sim::ExternalCompletion {
 public:
  HostFunction(Gpu& gpu, cudaHostFn_t function, void* data) : gpu_(gpu), function_(function), data_(data) {}
  void Entered(const sim::ItemRef&, int64_t) override {}
  void Begin(const sim::ItemRef& item) override {
    gpu_.host_callbacks().Run([&gpu = gpu_, function = function_, data = data_, item] {
      function(data);
      gpu.timeline().SetEnd(item, sim::MonotonicNs());
      gpu.timeline().SetDone(item);
    });
  }

 private:
  Gpu& gpu_;
  const cudaHostFn_t function_;
  void* const data_;
};

}  // namespace

LOCKSTEP_SIM_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return sim::RuntimeCall(cupti::runtime_cbid::kLaunchHostFunc, "cudaLaunchHostFunc",
                          [&](Gpu& gpu, ApiCall& call) {
                            sim::Stream* stream = gpu.Find(handle);
                            if (stream == nullptr) return cudaErrorInvalidResourceHandle;
                            if (function == nullptr) return cudaErrorInvalidValue;
                            sim::Work work;
                            work.make_external = [&gpu, function, data](sim::Launch) {
                              return std::make_shared<HostFunction>(gpu, function, data);
                            };
                            gpu.Submit(*stream, std::move(work), call.correlation());
                            return cudaSuccess;
                          });
}
