// Shared parts of the CUDA test programs: their place in the job, NCCL's unique id through a file, and checks
// of calls.
#ifndef LOCKSTEP_TESTS_CUDA_NCCL_JOB_H_
#define LOCKSTEP_TESTS_CUDA_NCCL_JOB_H_

#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "tests/cuda/cuda_api.h"

namespace lockstep::cuda_tests {

struct Place {
  int rank = 0, ranks = 1, local_rank = 0;
};

[[noreturn]] inline void Die(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
  std::exit(1);
}
inline void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) Die(what, cudaGetErrorString(error));
}
inline void Check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess)
    Die(what, (std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(nullptr)).c_str());
}
#define CHECK(call) Check(call, #call)

inline int FromEnvironment(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return otherwise;
}

inline Place FindPlace() {
  Place p;
  p.rank = FromEnvironment({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
  p.ranks = FromEnvironment({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 1);
  p.local_rank =
      FromEnvironment({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}, 0);
  return p;
}

// Ranks of one host take its devices in turn.
inline void ChooseDevice(const Place& p) {
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  CHECK(cudaSetDevice(p.local_rank % devices));
}

// Rank 0 writes the file under a temporary name and renames it when it is complete.
inline ncclUniqueId ShareId(const std::string& id_file, const Place& p) {
  ncclUniqueId id;
  if (p.rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    const std::string partial = id_file + ".partial";
    std::FILE* file = std::fopen(partial.c_str(), "wb");
    if (file == nullptr || std::fwrite(&id, sizeof id, 1, file) != 1 || std::fclose(file) != 0)
      Die(partial.c_str(), "cannot be written");
    if (std::rename(partial.c_str(), id_file.c_str()) != 0) Die(id_file.c_str(), "cannot be made");
    return id;
  }
  for (int tries = 0; tries < 6000; ++tries) {
    std::FILE* file = std::fopen(id_file.c_str(), "rb");
    const bool whole = file != nullptr && std::fread(&id, sizeof id, 1, file) == 1;
    if (file != nullptr) std::fclose(file);
    if (whole) return id;
    usleep(10'000);
  }
  Die(id_file.c_str(), "rank 0 has not written it in a minute");
}

}  // namespace lockstep::cuda_tests

#endif  // LOCKSTEP_TESTS_CUDA_NCCL_JOB_H_
