// How the client gets into a process, as `lockstep run`, `lockstep doctor` and the daemon name it to each
// other and to the user.
#ifndef LOCKSTEP_COMMON_BASE_CLIENT_ENTRY_H_
#define LOCKSTEP_COMMON_BASE_CLIENT_ENTRY_H_

namespace lockstep {

inline constexpr char kClientLibrary[] = "liblockstep_client.so";
inline constexpr char kClientLibraryInFolder[] = "/liblockstep_client.so";  // the end of every path to it
// Read by CUDA, by the first library that uses NVTX, and by NCCL.
inline constexpr char kCudaInjection[] = "CUDA_INJECTION64_PATH";
inline constexpr char kNvtxInjection[] = "NVTX_INJECTION64_PATH";
inline constexpr char kNcclPlugin[] = "NCCL_PROFILER_PLUGIN";
// What to do about a launcher that drops the environment.
inline constexpr char kRunBeforeProgram[] = "put `lockstep run --` directly before the program";

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_BASE_CLIENT_ENTRY_H_
