// CUDA's and NCCL's API for the test programs. It comes from the toolkit's headers under nvcc, else from the
// project's own declarations.
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
