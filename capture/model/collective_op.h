// The operation of a communication kernel, and its consequences for waiting.
#ifndef LOCKSTEP_CAPTURE_MODEL_COLLECTIVE_OP_H_
#define LOCKSTEP_CAPTURE_MODEL_COLLECTIVE_OP_H_

#include <cstdint>
#include <string_view>

namespace lockstep::capture {

enum class CollectiveOp : uint8_t {
  kUnknown = 0,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kAllToAllV,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kSend,
  kReceive,
  kSendReceive,
  kBarrier,
};

// Class of a kernel by its name. Covers every era of NCCL, RCCL, DeepEP, NVSHMEM, and custom all-reduce
// kernels (docs/analysis/matching.md). `communication` is false for every other kernel. A name never shows an
// all-to-all: those kernels are named SendRecv.
struct NameClass {
  bool communication = false;
  CollectiveOp op = CollectiveOp::kUnknown;
};
NameClass ClassifyKernelName(std::string_view name);

// The operation in the name of the kernel that runs `op`. Point-to-point operations, and operations that NCCL
// builds from them, run in SendRecv kernels.
CollectiveOp KernelFamily(CollectiveOp op);

// Reads the spellings of NCCL's profiler ("AllReduce"), PyTorch's "Collective name" ("allreduce",
// "_allgather_base", …) and NVTX ("ncclAllReduce").
CollectiveOp CollectiveOpFromText(std::string_view text);

// The operation's name in report.json: "all_reduce", …
std::string_view CollectiveOpName(CollectiveOp op);

// True if every member needs every member's data. Then no member leaves before the last one came, so its
// waiting is known without a clock.
bool IsSymmetric(CollectiveOp op);

// Size of one element in bytes, from the spelling of NCCL ("ncclFloat32") or PyTorch ("Float", "BFloat16").
// 0: unknown.
int ElementBytes(std::string_view datatype);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_COLLECTIVE_OP_H_
