// Contains the host code that nvcc generates from kernels.cu: registration before main, a stub per kernel,
// and the calls behind <<<>>>. It serves machines without nvcc. Only the simulated libcudart can run it,
// because it has no device code.
#include "tests/cuda/kernels.h"

namespace {

constexpr char kMatmul[] = "_Z12train_matmulPKfS0_Pfi";
constexpr char kScale[] = "_Z11train_scalePffi";
constexpr unsigned kTile = 16;

void LaunchStub(const void* stub, void** arguments) {
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
  if (__cudaPopCallConfiguration(&grid, &block, &shared, &stream) != cudaSuccess) return;
  cudaKernel_t kernel = nullptr;
  if (__cudaGetKernel(&kernel, stub) != cudaSuccess) return;
  __cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

void MatmulStub(const float* a, const float* b, float* c, int n) {
  void* arguments[] = {&a, &b, &c, &n};
  LaunchStub(reinterpret_cast<const void*>(&MatmulStub), arguments);
}

void ScaleStub(float* x, float factor, int n) {
  void* arguments[] = {&x, &factor, &n};
  LaunchStub(reinterpret_cast<const void*>(&ScaleStub), arguments);
}

struct Registration {
  Registration() {
    static char fat_binary = 0;
    handle = __cudaRegisterFatBinary(&fat_binary);
    Register(reinterpret_cast<const char*>(&MatmulStub), kMatmul);
    Register(reinterpret_cast<const char*>(&ScaleStub), kScale);
    __cudaRegisterFatBinaryEnd(handle);
  }
  ~Registration() { __cudaUnregisterFatBinary(handle); }
  void Register(const char* stub, const char* name) {
    __cudaRegisterFunction(handle, stub, const_cast<char*>(name), name, -1, nullptr, nullptr, nullptr,
                           nullptr, nullptr);
  }
  void** handle;
};
const Registration registration;

}  // namespace

void LaunchMatmul(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(n) / kTile;
  if (__cudaPushCallConfiguration(dim3(blocks, blocks), dim3(kTile, kTile), 0, stream) == 0)
    MatmulStub(a, b, c, n);
}

void LaunchScale(float* x, float factor, int n, cudaStream_t stream) {
  if (__cudaPushCallConfiguration(dim3((static_cast<unsigned>(n) + 255) / 256), dim3(256), 0, stream) == 0)
    ScaleStub(x, factor, n);
}
