// The kernels of the test programs: kernels.cu where nvcc is, kernels_by_hand.cc elsewhere.
#ifndef LOCKSTEP_TESTS_CUDA_KERNELS_H_
#define LOCKSTEP_TESTS_CUDA_KERNELS_H_

#include "tests/cuda/cuda_api.h"

// c = a * b, all n by n, n a multiple of 16.
void LaunchMatmul(const float* a, const float* b, float* c, int n, cudaStream_t stream);
// x *= factor.
void LaunchScale(float* x, float factor, int n, cudaStream_t stream);

#endif  // LOCKSTEP_TESTS_CUDA_KERNELS_H_
