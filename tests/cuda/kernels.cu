#include "tests/cuda/kernels.h"

namespace {
constexpr int kTile = 16;
}

__global__ void train_matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float part_a[kTile][kTile], part_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += kTile) {
    part_a[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
    part_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += part_a[threadIdx.y][i] * part_b[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void train_scale(float* x, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}

void LaunchMatmul(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  train_matmul<<<dim3(n / kTile, n / kTile), dim3(kTile, kTile), 0, stream>>>(a, b, c, n);
}

void LaunchScale(float* x, float factor, int n, cudaStream_t stream) {
  train_scale<<<(n + 255) / 256, 256, 0, stream>>>(x, factor, n);
}
