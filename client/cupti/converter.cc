#include "client/cupti/converter.h"

#include <cstring>

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::LossReason;
using ring::RecordKind;

// Publishes records in groups of this size, because each publication writes a shared cache line.
constexpr uint32_t kRecordsPerCommit = 32;

constexpr uint64_t kBytesPerKilobyte = 1000;

constexpr RecordKind kWorkKinds[Tracks::kWorks] = {RecordKind::kKernel, RecordKind::kMemcpy,
                                                   RecordKind::kMemset};

template <typename Record>
const Record& As(const cupti::Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

// Copies the fields that all work on a stream has. `with_graph`: this CUPTI's record is long enough for the
// graph's fields.
template <typename Activity, typename Record>
void CopyCommon(const Activity& from, bool with_graph, bool graph_correlation, Record* to) {
  to->start_ns = static_cast<int64_t>(from.start);
  to->end_ns = static_cast<int64_t>(from.end);
  to->correlation = from.correlation_id;
  to->device = from.device_id;
  to->context = from.context_id;
  to->stream = from.stream_id;
  to->graph_node = with_graph ? from.graph_node_id : 0;
  to->graph = with_graph ? from.graph_id : 0;
  if (to->graph != 0 && !graph_correlation) to->correlation = 0;
}

template <typename Activity>
void CopyKinds(const Activity& from, ring::MemcpyRecord* to) {
  to->copy_kind = from.copy_kind;
  to->src_kind = from.src_kind;
  to->dst_kind = from.dst_kind;
  to->copy_flags = from.flags;
}

}  // namespace

void Converter::Begin(const CuptiApi& api, const ConverterOptions& options, const Window& window,
                      ring::RingWriter ring, Memory names, StringIds& ids) {
  api_ = &api;
  window_ = &window;
  options_ = options;
  ring_ = ring;
  names_.Begin(api, names, ids);
  dependents_.Begin();
  outside_ = 0;
  tracks_.Clear();
  buffers_inside_.store(0, std::memory_order_relaxed);
}

void Converter::Convert(uint8_t* buffer, size_t valid_bytes) {
  ReadWindow();
  inside_ = false;
  cupti::Activity* record = nullptr;
  uint32_t since_commit = 0;
  while (api_->GetNextRecord(buffer, valid_bytes, &record) == cupti::Result::kSuccess) {
    ConvertOne(record);
    if (++since_commit == kRecordsPerCommit) {
      ring_.Commit();
      since_commit = 0;
    }
  }
  ring_.Commit();
  ring_.FlushStatistics();
  if (inside_) buffers_inside_.fetch_add(1, std::memory_order_relaxed);
}

void Converter::ReadWindow() {
  open_ = window_->open();
  t0_ = window_->t0();
  t1_ = window_->t1();
}

void Converter::ToHostClock(cupti::Activity* record) const {
  const auto pair = [this](auto* r) {
    r->start = options_.ticks->ToHost(r->start);
    r->end = options_.ticks->ToHost(r->end);
  };
  switch (record->kind) {
    case cupti::ActivityKind::kKernel:
    case cupti::ActivityKind::kConcurrentKernel:
      return pair(reinterpret_cast<cupti::Kernel10*>(record));
    case cupti::ActivityKind::kRuntime:
    case cupti::ActivityKind::kDriver:
      return pair(reinterpret_cast<cupti::Api*>(record));
    case cupti::ActivityKind::kMemcpy:
      return pair(reinterpret_cast<cupti::Memcpy6*>(record));
    case cupti::ActivityKind::kMemcpyPeer:
      return pair(reinterpret_cast<cupti::MemcpyPeer4*>(record));
    case cupti::ActivityKind::kMemset:
      return pair(reinterpret_cast<cupti::Memset4*>(record));
    case cupti::ActivityKind::kSynchronization:
      return pair(reinterpret_cast<cupti::Synchronization2*>(record));
    case cupti::ActivityKind::kOverhead:
      return pair(reinterpret_cast<cupti::Overhead3*>(record));
    case cupti::ActivityKind::kMemory: {
      auto* memory = reinterpret_cast<cupti::Memory4*>(record);
      memory->timestamp = options_.ticks->ToHost(memory->timestamp);
      return;
    }
    case cupti::ActivityKind::kCudaEvent: {
      if (options_.sizes.cuda_event < cupti::kCudaEventBytesWithTimestamp) return;
      auto* event = reinterpret_cast<cupti::CudaEvent2*>(record);
      event->device_timestamp = options_.ticks->ToHost(event->device_timestamp);
      return;
    }
    default:
      return;
  }
}

void Converter::ConvertOne(cupti::Activity* record) {
  if (options_.ticks != nullptr && options_.ticks->active()) ToHostClock(record);
  switch (record->kind) {
    case cupti::ActivityKind::kKernel:
    case cupti::ActivityKind::kConcurrentKernel:
      return Kernel(As<cupti::Kernel10>(record));
    case cupti::ActivityKind::kRuntime:
    case cupti::ActivityKind::kDriver:
      return Api(As<cupti::Api>(record));
    case cupti::ActivityKind::kMemcpy:
      return Memcpy(As<cupti::Memcpy6>(record));
    case cupti::ActivityKind::kMemcpyPeer:
      return MemcpyPeer(As<cupti::MemcpyPeer4>(record));
    case cupti::ActivityKind::kMemset:
      return Memset(As<cupti::Memset4>(record));
    case cupti::ActivityKind::kSynchronization:
      return Sync(As<cupti::Synchronization2>(record));
    case cupti::ActivityKind::kExternalCorrelation:
      return dependents_.Add(ring_, As<cupti::ExternalCorrelation>(record));
    case cupti::ActivityKind::kCudaEvent:
      return CudaEvent(As<cupti::CudaEvent2>(record));
    case cupti::ActivityKind::kOverhead:
      return Overhead(As<cupti::Overhead3>(record));
    case cupti::ActivityKind::kDevice:
      return Device(As<cupti::Device5>(record));
    case cupti::ActivityKind::kContext:
      return Context(As<cupti::Context3>(record));
    case cupti::ActivityKind::kStream:
      return Stream(As<cupti::Stream>(record));
    case cupti::ActivityKind::kMemory:
      return MemoryOp(As<cupti::Memory4>(record));
    default:
      LoseUnknown();
  }
}

bool Converter::Keep(uint64_t start, uint64_t end, RecordKind kind, uint64_t lane) {
  const HostTime started(static_cast<int64_t>(start));
  if (!open_ || (start != 0 && started < t0_)) {
    ++outside_;
    return false;
  }
  if (start != 0 && lane != kNoTrack) LoseUnstamped(lane);
  if (start != 0 && started >= t1_) {
    if (lane != kNoTrack) tracks_.SeenBehind(lane);
    ++outside_;
    return false;
  }
  if (start == 0 || end == 0 || end < start) {
    if (start != 0 || lane == kNoTrack || !MayNotHaveRun(kind, lane)) ring_.Lose(LossReason::kBadStamp, kind);
    return false;
  }
  if (lane != kNoTrack) tracks_.SeenInside(lane);
  inside_ = true;
  return true;
}

// A forced flush also returns work that has not run yet. After the window such work is not a loss.
bool Converter::MayNotHaveRun(RecordKind kind, uint64_t lane) {
  if (tracks_.IsBehind(lane)) {
    ++outside_;
    return true;
  }
  const Tracks::Work work = kind == RecordKind::kKernel   ? Tracks::kKernels
                            : kind == RecordKind::kMemcpy ? Tracks::kCopies
                                                          : Tracks::kSets;
  return tracks_.Wait(lane, work);
}

// Later work of the stream has stamps, so the waiting records had run, and CUPTI lost their stamps.
void Converter::LoseUnstamped(uint64_t lane) {
  const Tracks::Unstamped lost = tracks_.Take(lane);
  for (uint32_t work = 0; work < Tracks::kWorks; ++work) {
    if (lost.of[work] != 0) ring_.Lose(LossReason::kBadStamp, kWorkKinds[work], lost.of[work]);
  }
}

// Long after the window, only the first unfinished record of a stream can have begun inside it.
void Converter::SettleUnstamped() {
  tracks_.ForEachWaiting([this](const Tracks::Unstamped& waiting) {
    bool first = true;
    for (uint32_t work = 0; work < Tracks::kWorks; ++work) {
      if (waiting.of[work] == 0) continue;
      if (first) ring_.Lose(LossReason::kBadStamp, kWorkKinds[work]);
      outside_ += waiting.of[work] - (first ? 1 : 0);
      first = false;
    }
  });
}

template <typename Activity>
bool Converter::KeepOnDevice(const Activity& from, RecordKind kind) {
  const bool keep = Keep(from.start, from.end, kind, Tracks::OfStream(from.device_id, from.stream_id));
  if (!options_.decided_by_api) dependents_.Decide(ring_, from.correlation_id, keep);
  return keep;
}

void Converter::Kernel(const cupti::Kernel10& from) {
  if (!KeepOnDevice(from, RecordKind::kKernel)) return;
  const uint32_t name = names_.TextOf(ring_, from.name);
  auto* to = ring_.New<ring::KernelRecord>();
  if (to == nullptr) return;
  CopyCommon(from, options_.sizes.kernel >= cupti::kKernelBytesWithGraph, options_.graph_correlation, to);
  to->name = name;
  to->grid[0] = static_cast<uint32_t>(from.grid_x);
  to->grid[1] = static_cast<uint32_t>(from.grid_y);
  to->grid[2] = static_cast<uint32_t>(from.grid_z);
  to->block[0] = static_cast<uint16_t>(from.block_x);
  to->block[1] = static_cast<uint16_t>(from.block_y);
  to->block[2] = static_cast<uint16_t>(from.block_z);
  to->registers = from.registers_per_thread;
  to->static_shared_bytes = static_cast<uint32_t>(from.static_shared_memory);
  to->dynamic_shared_bytes = static_cast<uint32_t>(from.dynamic_shared_memory);
  to->channel = options_.sizes.kernel >= cupti::kKernelBytesWithChannel ? from.channel_id : 0;
  to->launch_type = static_cast<uint8_t>(from.launch_type + 1);  // 0: unknown
}

void Converter::Memcpy(const cupti::Memcpy6& from) {
  if (!KeepOnDevice(from, RecordKind::kMemcpy)) return;
  auto* to = ring_.New<ring::MemcpyRecord>();
  if (to == nullptr) return;
  CopyCommon(from, options_.sizes.memcpy >= cupti::kMemcpyBytesWithGraph, options_.graph_correlation, to);
  to->bytes = from.bytes;
  CopyKinds(from, to);
  to->src_device = 0;
  to->dst_device = 0;
}

void Converter::MemcpyPeer(const cupti::MemcpyPeer4& from) {
  if (!KeepOnDevice(from, RecordKind::kMemcpy)) return;
  auto* to = ring_.New<ring::MemcpyRecord>();
  if (to == nullptr) return;
  to->header.flags = ring::kMemcpyPeer;
  CopyCommon(from, options_.sizes.memcpy_peer >= cupti::kMemcpyPeerBytesWithGraph, options_.graph_correlation,
             to);
  to->bytes = from.bytes;
  CopyKinds(from, to);
  to->src_device = from.src_device_id;
  to->dst_device = from.dst_device_id;
}

void Converter::Memset(const cupti::Memset4& from) {
  if (!KeepOnDevice(from, RecordKind::kMemset)) return;
  auto* to = ring_.New<ring::MemsetRecord>();
  if (to == nullptr) return;
  CopyCommon(from, options_.sizes.memset >= cupti::kMemsetBytesWithGraph, options_.graph_correlation, to);
  to->bytes = from.bytes;
  to->value = from.value;
  to->memory_kind = from.memory_kind;
}

void Converter::NotifyTrigger(const cupti::Api& from) {
  const bool driver = from.kind == cupti::ActivityKind::kDriver;
  const HostTime called(static_cast<int64_t>(from.start));
  // Earlier records are already discarded, so a window that this call opens begins now, not at the call.
  uint64_t now = 0;
  if (api_->GetTimestamp(&now) != cupti::Result::kSuccess) return;
  if (options_.ticks != nullptr) now = options_.ticks->ToHost(now);
  if (from.cbid == (driver ? cupti::driver_cbid::kProfilerStart : cupti::runtime_cbid::kProfilerStart)) {
    options_.trigger->OnProfilerStart(called, HostTime(static_cast<int64_t>(now)));
  } else if (from.cbid == (driver ? cupti::driver_cbid::kProfilerStop : cupti::runtime_cbid::kProfilerStop)) {
    options_.trigger->OnProfilerStop(called);
  } else {
    return;
  }
  ReadWindow();
}

void Converter::Api(const cupti::Api& from) {
  if (options_.trigger != nullptr && options_.trigger->watching()) NotifyTrigger(from);
  const bool driver = from.kind == cupti::ActivityKind::kDriver;
  const bool keep = Keep(from.start, from.end, RecordKind::kApi, Tracks::OfThread(from.thread_id));
  if (options_.decided_by_api) dependents_.Decide(ring_, from.correlation_id, keep);
  if (!keep) return;
  if (driver && !options_.driver_records) {
    ++outside_;
    return;
  }
  const uint32_t name = names_.FunctionName(
      ring_, driver ? cupti::CallbackDomain::kDriverApi : cupti::CallbackDomain::kRuntimeApi, from.cbid);
  auto* to = ring_.New<ring::ApiRecord>();
  if (to == nullptr) return;
  to->header.flags = driver ? ring::kApiDriver : 0;
  to->start_ns = static_cast<int64_t>(from.start);
  to->end_ns = static_cast<int64_t>(from.end);
  to->correlation = from.correlation_id;
  to->cbid = from.cbid;
  to->thread = from.thread_id;
  to->result = from.return_value;
  to->name = name;
}

void Converter::Sync(const cupti::Synchronization2& from) {
  if (!Keep(from.start, from.end, RecordKind::kSync, kNoTrack)) return;
  auto* to = ring_.New<ring::SyncRecord>();
  if (to == nullptr) return;
  to->start_ns = static_cast<int64_t>(from.start);
  to->end_ns = static_cast<int64_t>(from.end);
  to->correlation = from.correlation_id;
  to->context = from.context_id;
  to->stream = from.stream_id;
  to->type = static_cast<uint32_t>(from.type);
  to->event = from.cuda_event_id;
}

void Converter::CudaEvent(const cupti::CudaEvent2& from) {
  // Its only stamp is the device's, and CUPTI provides it only on request.
  const bool stamped =
      options_.sizes.cuda_event >= cupti::kCudaEventBytesWithTimestamp && from.device_timestamp != 0;
  if (!stamped) return dependents_.Add(ring_, from);
  if (!Keep(from.device_timestamp, from.device_timestamp, RecordKind::kCudaEvent, kNoTrack)) return;
  auto* to = ring_.New<ring::CudaEventRecord>();
  if (to == nullptr) return;
  to->device_ns = static_cast<int64_t>(from.device_timestamp);
  to->correlation = from.correlation_id;
  to->context = from.context_id;
  to->stream = from.stream_id;
  to->event = from.event_id;
}

void Converter::Overhead(const cupti::Overhead3& from) {
  if (!Keep(from.start, from.end, RecordKind::kOverhead, kNoTrack)) return;
  auto* to = ring_.New<ring::OverheadRecord>();
  if (to == nullptr) return;
  to->start_ns = static_cast<int64_t>(from.start);
  to->end_ns = static_cast<int64_t>(from.end);
  to->overhead_kind = static_cast<uint32_t>(from.overhead_kind);
  to->thread = from.object_kind == cupti::ObjectKind::kThread ? from.object.thread_or_context : 0;
}

void Converter::Device(const cupti::Device5& from) {
  const size_t size = options_.sizes.device;
  if (size < cupti::kDeviceBytesOldest) return LoseUnknown();
  const bool with_mig = size >= cupti::kDeviceBytesWithMig;
  const uint32_t name = names_.TextOf(ring_, from.name);
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
  if (!Keep(from.timestamp, from.timestamp, RecordKind::kMemoryOp, kNoTrack)) return;
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
}

void Converter::End() {
  SettleUnstamped();
  dependents_.End(ring_);
  ring_.Commit();
  ring_.FlushStatistics();
}

}  // namespace lockstep::client
