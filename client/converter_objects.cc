// Converter's records of devices, contexts and streams, which have no stamps, and of memory operations.
#include <cstring>

#include "client/cupti/converter.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::RecordKind;

constexpr uint64_t kBytesPerKilobyte = 1000;

}  // namespace

void Converter::Device(const cupti::Device5& from) {
  const size_t size = options_.sizes.device;
  if (size < cupti::kDeviceBytesOldest) return LoseUnknown();
  const bool with_mig = size >= cupti::kDeviceBytesWithMig;
  const uint32_t name = TextOf(from.name);
  auto* to = ring_.New<ring::DeviceRecord>();
  if (to == nullptr) return;
  if (size >= cupti::kDeviceBytesWithVisibility && from.is_cuda_visible == 0)
    to->header.flags |= ring::kDeviceHidden;
  if (with_mig && from.is_mig_enabled != 0) to->header.flags |= ring::kDeviceMig;
  if (from.ecc_enabled != 0) to->header.flags |= ring::kDeviceEcc;
  to->device = from.id;
  to->name = name;
  to->memory_bytes = from.memory_bytes;
  to->memory_bytes_per_s = from.memory_bandwidth * kBytesPerKilobyte;
  to->clock_khz = from.core_clock_khz;
  to->multiprocessors = from.multiprocessors;
  to->compute_major = from.compute_major;
  to->compute_minor = from.compute_minor;
  to->l2_bytes = from.l2_cache_bytes;
  to->copy_engines = from.copy_engines;
  to->threads_per_warp = from.threads_per_warp;
  to->warps_per_multiprocessor = from.max_warps_per_multiprocessor;
  to->shared_bytes_per_multiprocessor = from.max_shared_memory_per_multiprocessor;
  to->registers_per_multiprocessor = from.max_registers_per_multiprocessor;
  std::memcpy(to->uuid, from.uuid, sizeof to->uuid);
  std::memset(to->mig_uuid, 0, sizeof to->mig_uuid);
  if (with_mig) std::memcpy(to->mig_uuid, from.mig_uuid, sizeof to->mig_uuid);
  to->gpu_instance = with_mig ? from.gpu_instance_id : 0;
  to->compute_instance = with_mig ? from.compute_instance_id : 0;
  const bool numa = size >= cupti::kDeviceBytesWithNuma && from.is_numa_node != 0;
  to->numa_node_plus_1 = numa ? from.numa_id + 1 : 0;
  to->reserved0 = 0;
}

void Converter::Context(const cupti::Context3& from) {
  if (options_.sizes.context < cupti::kContextBytesOldest) return LoseUnknown();
  const bool with_parent = options_.sizes.context >= cupti::kContextBytesWithParent;
  auto* to = ring_.New<ring::ContextRecord>();
  if (to == nullptr) return;
  if (with_parent && from.is_green_context != 0) to->header.flags = ring::kContextGreen;
  to->context = from.context_id;
  to->device = from.device_id;
  to->api = from.compute_api_kind;
  to->null_stream = from.null_stream_id;
  to->parent = with_parent ? from.parent_context_id : 0;
  to->multiprocessors = with_parent ? from.multiprocessors : 0;
}

void Converter::Stream(const cupti::Stream& from) {
  if (options_.sizes.stream < sizeof(cupti::Stream)) return LoseUnknown();
  auto* to = ring_.New<ring::StreamRecord>();
  if (to == nullptr) return;
  to->context = from.context_id;
  to->stream = from.stream_id;
  to->priority = static_cast<int32_t>(from.priority);
  to->type = static_cast<uint32_t>(from.flag);
}

void Converter::MemoryOp(const cupti::Memory4& from) {
  if (options_.sizes.memory < cupti::kMemoryBytesOldest || from.operation == cupti::MemoryOperation::kInvalid)
    return LoseUnknown();
  if (!Keep(from.timestamp, from.timestamp, RecordKind::kMemoryOp, kNoLane)) return;
  const bool own_pool = from.pool.type == cupti::MemoryPool::kLocal;
  const bool with_utilized = options_.sizes.memory >= cupti::kMemoryBytesWithUtilized;
  auto* to = ring_.New<ring::MemoryOpRecord>();
  if (to == nullptr) return;
  if (from.operation == cupti::MemoryOperation::kRelease) to->header.flags |= ring::kMemoryRelease;
  if (from.is_async != 0) to->header.flags |= ring::kMemoryAsync;
  to->time_ns = static_cast<int64_t>(from.timestamp);
  to->address = from.address;
  to->bytes = from.bytes;
  to->pool_address = from.pool.type == cupti::MemoryPool::kNone ? 0 : from.pool.address;
  to->pool_bytes = own_pool ? from.pool.size_or_process : 0;
  to->pool_used_bytes = own_pool && with_utilized ? from.pool.utilized_bytes : 0;
  to->correlation = from.correlation_id;
  to->device = from.device_id;
  to->context = from.context_id;
  to->stream = from.is_async != 0 ? from.stream_id : cupti::kDoesNotApply;
  to->memory_kind = static_cast<uint8_t>(from.memory_kind);
  to->pool_type = static_cast<uint8_t>(from.pool.type);
  to->reserved0 = 0;
  to->reserved1 = 0;
}

}  // namespace lockstep::client
