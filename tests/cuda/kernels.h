// The kernels of the test programs. kernels.cu implements them under nvcc, kernels_by_hand.cc elsewhere.
#ifndef LOCKSTEP_TESTS_CUDA_KERNELS_H_
#define LOCKSTEP_TESTS_CUDA_KERNELS_H_

#include "tests/cuda/cuda_api.h"

// Computes c = a * b for n-by-n matrices. n must be a multiple of 16.
void LaunchMatmul(const float* a, const float* b, float* c, int n, cudaStream_t stream);
// Computes x *= factor.
void LaunchScale(float* x, float factor, int n, cudaStream_t stream);

#endif  // LOCKSTEP_TESTS_CUDA_KERNELS_H_
