// CUDA's and NCCL's API for the test programs: the toolkit's headers where they are built with nvcc, else our
// own declarations of the same.
#ifndef LOCKSTEP_TESTS_CUDA_CUDA_API_H_
#define LOCKSTEP_TESTS_CUDA_CUDA_API_H_

#ifdef LOCKSTEP_WITH_NVCC
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <nccl.h>
#else
#include "wire/foreign/cuda_runtime.h"
#include "wire/foreign/nccl.h"
using namespace lockstep::foreign::cudart;   // NOLINT: the names are CUDA's
using namespace lockstep::foreign::ncclapi;  // NOLINT
#endif

#endif  // LOCKSTEP_TESTS_CUDA_CUDA_API_H_
