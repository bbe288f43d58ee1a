// Implements memory allocation, copies and sets.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "sim/cudart/runtime.h"

using namespace lockstep::foreign::cudart;
using lockstep::sim::ApiCall;
using lockstep::sim::Gpu;
namespace sim = lockstep::sim;
namespace cupti = lockstep::foreign::cupti;
namespace cbid = lockstep::foreign::cupti::runtime_cbid;
using cupti::MemcpyKind;
using cupti::MemoryKind;

namespace {

using cupti::MemoryOperation;
using sim::Memory;

constexpr uint64_t kFirstPool = 1ull << 40;  // the pool's address in records; no block has such an address

// Records an operation on `block` for CUPTI. `stream` orders the operation; null means that it takes effect
// at once.
void RecordMemory(Gpu& gpu, const ApiCall& call, MemoryOperation operation, const Memory::Block& block,
                  const sim::Stream* stream) {
  if (!gpu.activity().Wants(cupti::ActivityKind::kMemory)) return;
  const int64_t now = sim::RealtimeNs();
  const auto device = static_cast<uint32_t>(block.device);
  cupti::Memory4 r{};
  r.kind = cupti::ActivityKind::kMemory;
  r.operation = operation;
  r.memory_kind = static_cast<uint32_t>(block.kind);
  r.correlation_id = call.correlation();
  r.address = reinterpret_cast<uintptr_t>(block.first);
  r.bytes = block.bytes;
  r.timestamp = static_cast<uint64_t>(now);
  r.process_id = static_cast<uint32_t>(getpid());
  r.device_id = device;
  r.context_id = sim::kSimContextId + device;
  r.stream_id = stream != nullptr ? stream->id : cupti::kDoesNotApply;
  r.is_async = stream != nullptr ? 1 : 0;
  if (block.origin == Memory::Origin::kPool) {
    const uint64_t used = gpu.memory().PoolBytes(block.device);
    r.pool = {cupti::MemoryPool::kLocal, 0, kFirstPool * (device + 1), 0, used, used};
  }
  gpu.activity().Record(&r, sizeof r, {}, now);
}

cudaError_t New(Gpu& gpu, const ApiCall& call, void** memory, size_t bytes, MemoryKind kind,
                const sim::Stream* stream = nullptr) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = stream != nullptr && !stream->is_default ? stream->device : gpu.device();
  *memory = gpu.memory().New(bytes, kind, device,
                             stream != nullptr ? Memory::Origin::kPool : Memory::Origin::kDevice);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  RecordMemory(gpu, call, MemoryOperation::kAllocation, gpu.memory().Of(*memory), stream);
  return cudaSuccess;
}

// Waits for the device before it frees the block, as CUDA does, because queued work may still use the block.
cudaError_t Delete(Gpu& gpu, const ApiCall& call, void* memory) {
  if (memory == nullptr) return cudaSuccess;
  gpu.SynchronizeAll();
  const Memory::Block block = gpu.memory().Of(memory);
  if (!gpu.memory().Delete(memory)) return cudaErrorInvalidValue;
  RecordMemory(gpu, call, MemoryOperation::kRelease, block, nullptr);
  return cudaSuccess;
}

bool OnDevice(const sim::Memory::Block& block) { return block.kind == MemoryKind::kDevice; }

// The places of the two blocks decide the kind that CUPTI reports, so that cudaMemcpyDefault needs no extra
// rule.
MemcpyKind KindOf(const sim::Memory::Block& to, const sim::Memory::Block& from) {
  if (OnDevice(to)) return OnDevice(from) ? MemcpyKind::kDeviceToDevice : MemcpyKind::kHostToDevice;
  return OnDevice(from) ? MemcpyKind::kDeviceToHost : MemcpyKind::kHostToHost;
}

enum class Wait { kNo, kYes };

cudaError_t Copy(uint32_t call_id, const char* name, void* to, const void* from, size_t bytes,
                 const void* handle, Wait wait) {
  return sim::RuntimeCall(call_id, name, [&](Gpu& gpu, ApiCall& call) {
    sim::Stream* stream = gpu.Find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    if (to == nullptr || from == nullptr) return cudaErrorInvalidValue;
    const sim::Memory::Block to_block = gpu.memory().Of(to), from_block = gpu.memory().Of(from);
    const MemcpyKind kind = KindOf(to_block, from_block);
    sim::Work work;
    const bool peer = kind == MemcpyKind::kDeviceToDevice && to_block.device != from_block.device;
    if (peer) {
      auto& record = work.Make<cupti::MemcpyPeer4>(cupti::ActivityKind::kMemcpyPeer);
      record.copy_kind = static_cast<uint8_t>(MemcpyKind::kPeerToPeer);
      record.src_kind = record.dst_kind = static_cast<uint8_t>(MemoryKind::kDevice);
      record.bytes = bytes;
      record.src_device_id = static_cast<uint32_t>(from_block.device);
      record.dst_device_id = static_cast<uint32_t>(to_block.device);
      record.src_context_id = sim::kSimContextId + record.src_device_id;
      record.dst_context_id = sim::kSimContextId + record.dst_device_id;
    } else {
      auto& record = work.Make<cupti::Memcpy6>(cupti::ActivityKind::kMemcpy);
      record.copy_kind = static_cast<uint8_t>(kind);
      record.src_kind = static_cast<uint8_t>(from_block.kind);
      record.dst_kind = static_cast<uint8_t>(to_block.kind);
      record.flags = wait == Wait::kYes ? 0 : cupti::kMemcpyFlagAsync;
      record.bytes = bytes;
      record.copy_count = 1;
    }
    using Path = sim::KernelModel::Path;
    work.duration_ns = gpu.model().CopyNs(
        bytes, kind == MemcpyKind::kDeviceToDevice && !peer ? Path::kOnDevice : Path::kHostDevice);
    // A pageable source is copied to a staging buffer, because the caller may change it as soon as the call
    // returns. A copy to pageable memory is finished when the call returns.
    const bool capturing = gpu.Capturing(*stream);
    if (from_block.kind == MemoryKind::kPageable && wait == Wait::kNo && !capturing) {
      auto staged = std::make_shared<std::vector<uint8_t>>(static_cast<const uint8_t*>(from),
                                                           static_cast<const uint8_t*>(from) + bytes);
      work.effect = [to, staged] { std::memcpy(to, staged->data(), staged->size()); };
    } else {
      work.effect = [to, from, bytes] { std::memmove(to, from, bytes); };
    }
    gpu.Submit(*stream, std::move(work), call.correlation());
    const bool to_pageable = to_block.kind == MemoryKind::kPageable;
    if (!capturing && (wait == Wait::kYes || to_pageable)) {
      sim::RecordWait(gpu, call, cupti::SynchronizationType::kStreamSynchronize, stream, 0,
                      [&] { gpu.Synchronize(*stream); });
    }
    return cudaSuccess;
  });
}

cudaError_t Set(uint32_t call_id, const char* name, void* memory, int value, size_t bytes, const void* handle,
                Wait wait) {
  return sim::RuntimeCall(call_id, name, [&](Gpu& gpu, ApiCall& call) {
    sim::Stream* stream = gpu.Find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (bytes == 0) return cudaSuccess;
    const sim::Memory::Block block = gpu.memory().Of(memory);
    if (block.first == nullptr) return cudaErrorInvalidValue;
    sim::Work work;
    auto& record = work.Make<cupti::Memset4>(cupti::ActivityKind::kMemset);
    record.value = static_cast<uint8_t>(value);
    record.bytes = bytes;
    record.flags = wait == Wait::kYes ? 0 : cupti::kMemsetFlagAsync;
    record.memory_kind = static_cast<uint16_t>(block.kind);
    work.duration_ns = gpu.model().CopyNs(bytes, sim::KernelModel::Path::kOnDevice);
    work.effect = [memory, value, bytes] { std::memset(memory, value, bytes); };
    gpu.Submit(*stream, std::move(work), call.correlation());
    return cudaSuccess;
  });
}

}  // namespace

LOCKSTEP_SIM_EXPORT cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return sim::RuntimeCall(cbid::kMalloc, "cudaMalloc", [&](Gpu& gpu, ApiCall& call) {
    return New(gpu, call, memory, bytes, MemoryKind::kDevice);
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  return sim::RuntimeCall(cbid::kMallocHost, "cudaMallocHost", [&](Gpu& gpu, ApiCall& call) {
    return New(gpu, call, memory, bytes, MemoryKind::kPinned);
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return sim::RuntimeCall(cbid::kHostAlloc, "cudaHostAlloc", [&](Gpu& gpu, ApiCall& call) {
    return New(gpu, call, memory, bytes, MemoryKind::kPinned);
  });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t handle) {
  return sim::RuntimeCall(cbid::kMallocAsync, "cudaMallocAsync", [&](Gpu& gpu, ApiCall& call) {
    const sim::Stream* stream = gpu.Find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return New(gpu, call, memory, bytes, MemoryKind::kDevice, stream);
  });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaFree(void* memory) {
  return sim::RuntimeCall(cbid::kFree, "cudaFree",
                          [&](Gpu& gpu, ApiCall& call) { return Delete(gpu, call, memory); });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaFreeHost(void* memory) {
  return sim::RuntimeCall(cbid::kFreeHost, "cudaFreeHost",
                          [&](Gpu& gpu, ApiCall& call) { return Delete(gpu, call, memory); });
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  return sim::RuntimeCall(cbid::kFreeAsync, "cudaFreeAsync", [&](Gpu& gpu, ApiCall& call) {
    sim::Stream* stream = gpu.Find(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const Memory::Block block = gpu.memory().Of(memory);
    if (block.first != memory) return cudaErrorInvalidValue;
    RecordMemory(gpu, call, MemoryOperation::kRelease, block, stream);
    sim::Work work;
    work.effect = [&gpu, memory] { gpu.memory().Delete(memory); };
    gpu.Submit(*stream, std::move(work), call.correlation());
    return cudaSuccess;
  });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return sim::RuntimeCall(cbid::kMemGetInfo, "cudaMemGetInfo", [&](Gpu& gpu, ApiCall&) {
    if (free_bytes == nullptr || total_bytes == nullptr) return cudaErrorInvalidValue;
    *total_bytes = sim::kDeviceMemoryBytes;
    *free_bytes = sim::kDeviceMemoryBytes - std::min(sim::kDeviceMemoryBytes, gpu.memory().used_bytes());
    return cudaSuccess;
  });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* to, const void* pointer) {
  return sim::RuntimeCall(cbid::kPointerGetAttributes, "cudaPointerGetAttributes", [&](Gpu& gpu, ApiCall&) {
    if (to == nullptr) return cudaErrorInvalidValue;
    const sim::Memory::Block block = gpu.memory().Of(pointer);
    *to = {};
    to->device = block.first == nullptr ? -2 : block.device;
    if (block.kind == MemoryKind::kDevice) to->type = cudaMemoryTypeDevice;
    if (block.kind == MemoryKind::kPinned) to->type = cudaMemoryTypeHost;
    if (block.first != nullptr) to->devicePointer = const_cast<void*>(pointer);
    if (block.kind != MemoryKind::kDevice) to->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  });
}

LOCKSTEP_SIM_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return Copy(cbid::kMemcpy, "cudaMemcpy", to, from, bytes, nullptr, Wait::kYes);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                                cudaStream_t stream) {
  return Copy(cbid::kMemcpyAsync, "cudaMemcpyAsync", to, from, bytes, stream, Wait::kNo);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                                    cudaStream_t stream) {
  return Copy(cbid::kMemcpyPeerAsync, "cudaMemcpyPeerAsync", to, from, bytes, stream, Wait::kNo);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  return Set(cbid::kMemset, "cudaMemset", memory, value, bytes, nullptr, Wait::kYes);
}
LOCKSTEP_SIM_EXPORT cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  return Set(cbid::kMemsetAsync, "cudaMemsetAsync", memory, value, bytes, stream, Wait::kNo);
}
