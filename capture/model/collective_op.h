// What a communication kernel does, and what that means for waiting.
#ifndef LOCKSTEP_AGGREGATOR_STORE_COLLECTIVE_OP_H_
#define LOCKSTEP_AGGREGATOR_STORE_COLLECTIVE_OP_H_

#include <cstdint>
#include <string_view>

namespace lockstep::store {

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

// Of a kernel's name (every NCCL era, RCCL, DeepEP, NVSHMEM, custom all-reduce: docs/analysis.md).
// `communication` is false for every other kernel. A name never tells an all-to-all: those kernels say
// SendRecv.
struct NameClass {
  bool communication = false;
  CollectiveOp op = CollectiveOp::kUnknown;
};
NameClass ClassifyKernelName(std::string_view name);

// What the kernel of an operation says: point-to-point operations, and what NCCL makes of them, run in
// kernels of one name.
CollectiveOp KernelFamily(CollectiveOp op);

// From NCCL's profiler ("AllReduce"), PyTorch's "Collective name" ("allreduce", "_allgather_base", …) and
// NVTX ("ncclAllReduce").
CollectiveOp CollectiveOpFromText(std::string_view text);

// As report.json writes it: "all_reduce", …
std::string_view CollectiveOpName(CollectiveOp op);

// Every member needs every member's data, so nobody can leave before the last one came: waiting needs no
// clock.
bool IsSymmetric(CollectiveOp op);

// Size in bytes of one element, from NCCL's ("ncclFloat32") and PyTorch's ("Float", "BFloat16") spelling; 0 =
// unknown.
int ElementBytes(std::string_view datatype);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_COLLECTIVE_OP_H_
