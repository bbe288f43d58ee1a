// The names and environment variables by which a process loads the client. `lockstep run`, `lockstep doctor`
// and the daemon use them among each other and in messages to the user.
#ifndef LOCKSTEP_BASE_CLIENT_ENTRY_H_
#define LOCKSTEP_BASE_CLIENT_ENTRY_H_

namespace lockstep {

inline constexpr char kClientLibrary[] = "liblockstep_client.so";
inline constexpr char kClientLibraryInFolder[] = "/liblockstep_client.so";  // the end of every path to it
// CUDA reads the first, the first library that uses NVTX reads the second, and NCCL reads the third.
inline constexpr char kCudaInjection[] = "CUDA_INJECTION64_PATH";
inline constexpr char kNvtxInjection[] = "NVTX_INJECTION64_PATH";
inline constexpr char kNcclPlugin[] = "NCCL_PROFILER_PLUGIN";
// The advice for a launcher that drops the environment.
inline constexpr char kRunBeforeProgram[] = "put `lockstep run --` directly before the program";

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_CLIENT_ENTRY_H_
