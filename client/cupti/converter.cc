#include "client/cupti/converter.h"

#include <cstring>

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::LossReason;
using ring::RecordKind;

// The reader sees records in groups of this many: one store to a shared cache line per group.
constexpr uint32_t kRecordsPerCommit = 32;

constexpr RecordKind kWorkKinds[Lanes::kWorks] = {RecordKind::kKernel, RecordKind::kMemcpy,
                                                  RecordKind::kMemset};

// "cudaLaunchKernel_v7000" and "cudaMemcpyAsync_ptsz_v7000" are one function each to everybody but CUPTI.
size_t LengthWithoutVersion(const char* name) {
  size_t length = std::strlen(name);
  size_t digits = length;
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  if (digits < length && digits >= 2 && name[digits - 1] == 'v' && name[digits - 2] == '_')
    length = digits - 2;
  if (length >= 5 &&
      (std::memcmp(name + length - 5, "_ptsz", 5) == 0 || std::memcmp(name + length - 5, "_ptds", 5) == 0)) {
    length -= 5;
  }
  return length;
}

template <typename Record>
const Record& As(const cupti::Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

// What everything on a stream has in common. `with_graph`: this CUPTI's record is long enough to have the
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
  names_.Reset(names, &ids);
  outside_ = 0;
  last_kept_ = false;
  last_decided_ = 0;
  pending_count_ = 0;
  lanes_.Clear();
  buffers_inside_.store(0, std::memory_order_relaxed);
  std::memset(pointers_, 0, sizeof pointers_);
  std::memset(functions_, 0, sizeof functions_);
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

void Converter::ConvertOne(cupti::Activity* record) {
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
      return External(As<cupti::ExternalCorrelation>(record));
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
  if (start != 0 && lane != kNoLane) LoseUnstamped(lane);
  if (start != 0 && started >= t1_) {
    if (lane != kNoLane) lanes_.SeenBehind(lane);
    ++outside_;
    return false;
  }
  if (start == 0 || end == 0 || end < start) {
    if (start != 0 || lane == kNoLane || !MayNotHaveRun(kind, lane)) ring_.Lose(LossReason::kBadStamp, kind);
    return false;
  }
  if (lane != kNoLane) lanes_.SeenInside(lane);
  inside_ = true;
  return true;
}

// A forced flush gives out what has not run yet. Behind the window it is nobody's loss.
bool Converter::MayNotHaveRun(RecordKind kind, uint64_t lane) {
  if (lanes_.IsBehind(lane)) {
    ++outside_;
    return true;
  }
  const Lanes::Work work = kind == RecordKind::kKernel   ? Lanes::kKernels
                           : kind == RecordKind::kMemcpy ? Lanes::kCopies
                                                         : Lanes::kSets;
  return lanes_.Wait(lane, work);
}

// The stream went on, so those had run.
void Converter::LoseUnstamped(uint64_t lane) {
  const Lanes::Unstamped lost = lanes_.Take(lane);
  for (uint32_t work = 0; work < Lanes::kWorks; ++work) {
    if (lost.of[work] != 0) ring_.Lose(LossReason::kBadStamp, kWorkKinds[work], lost.of[work]);
  }
}

// Of what a stream has not finished by now, long behind the window, only the first can have begun in it.
void Converter::SettleUnstamped() {
  lanes_.ForEachWaiting([this](const Lanes::Unstamped& waiting) {
    bool first = true;
    for (uint32_t work = 0; work < Lanes::kWorks; ++work) {
      if (waiting.of[work] == 0) continue;
      if (first) ring_.Lose(LossReason::kBadStamp, kWorkKinds[work]);
      outside_ += waiting.of[work] - (first ? 1 : 0);
      first = false;
    }
  });
}

template <typename Activity>
bool Converter::KeepOnDevice(const Activity& from, RecordKind kind) {
  const bool keep = Keep(from.start, from.end, kind, Lanes::OfStream(from.device_id, from.stream_id));
  if (!options_.decided_by_api) Decide(from.correlation_id, keep);
  return keep;
}

void Converter::Kernel(const cupti::Kernel10& from) {
  if (!KeepOnDevice(from, RecordKind::kKernel)) return;
  const uint32_t name = TextOf(from.name);
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
  to->reserved0 = 0;
  to->reserved1 = 0;
}

void Converter::TellTrigger(const cupti::Api& from) {
  const bool driver = from.kind == cupti::ActivityKind::kDriver;
  const HostTime called(static_cast<int64_t>(from.start));
  // What came before is thrown away already, so a window that opens with this call opens now, not then.
  uint64_t now = 0;
  if (api_->GetTimestamp(&now) != cupti::Result::kSuccess) return;
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
  if (options_.trigger != nullptr && options_.trigger->watching()) TellTrigger(from);
  const bool driver = from.kind == cupti::ActivityKind::kDriver;
  const bool keep = Keep(from.start, from.end, RecordKind::kApi, Lanes::OfThread(from.thread_id));
  if (options_.decided_by_api) Decide(from.correlation_id, keep);
  if (!keep) return;
  if (driver && !options_.driver_records) {
    ++outside_;
    return;
  }
  const uint32_t name = FunctionName(
      driver ? cupti::CallbackDomain::kDriverApi : cupti::CallbackDomain::kRuntimeApi, from.cbid);
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
  to->reserved0 = 0;
}

void Converter::Sync(const cupti::Synchronization2& from) {
  if (!Keep(from.start, from.end, RecordKind::kSync, kNoLane)) return;
  auto* to = ring_.New<ring::SyncRecord>();
  if (to == nullptr) return;
  to->start_ns = static_cast<int64_t>(from.start);
  to->end_ns = static_cast<int64_t>(from.end);
  to->correlation = from.correlation_id;
  to->context = from.context_id;
  to->stream = from.stream_id;
  to->type = static_cast<uint32_t>(from.type);
  to->event = from.cuda_event_id;
  to->reserved0 = 0;
}

void Converter::External(const cupti::ExternalCorrelation& from) {
  Wait({from.external_id, from.correlation_id, static_cast<uint32_t>(from.external_kind), last_kept_, 0});
}

void Converter::Wait(const PendingExternal& pending) {
  if (pending_count_ == kPending) {
    SettleOrphan(pending_[0]);
    std::memmove(pending_, pending_ + 1, (kPending - 1) * sizeof pending_[0]);
    --pending_count_;
  }
  pending_[pending_count_++] = pending;
}

void Converter::SettleOrphan(const PendingExternal& orphan) {
  if (orphan.among_kept) {
    WriteExternal(orphan);
  } else {
    ++outside_;
  }
}

void Converter::WriteExternal(const PendingExternal& external) {
  if (external.kind == kEventPending) {
    auto* to = ring_.New<ring::CudaEventRecord>();
    if (to == nullptr) return;
    to->device_ns = 0;
    to->correlation = external.correlation;
    to->context = static_cast<uint32_t>(external.external >> 32);
    to->stream = static_cast<uint32_t>(external.external);
    to->event = external.event;
    return;
  }
  auto* to = ring_.New<ring::ExternalCorrelationRecord>();
  if (to == nullptr) return;
  to->external = external.external;
  to->correlation = external.correlation;
  to->external_kind = external.kind;
}

void Converter::Decide(uint32_t correlation, bool keep) {
  last_kept_ = keep;
  last_decided_ = correlation;
  uint32_t left = 0;
  for (uint32_t i = 0; i < pending_count_; ++i) {
    const PendingExternal& pending = pending_[i];
    if (pending.correlation != correlation) {
      pending_[left++] = pending;
      continue;
    }
    if (keep) {
      WriteExternal(pending);
    } else {
      ++outside_;
    }
  }
  pending_count_ = left;
}

void Converter::CudaEvent(const cupti::CudaEvent2& from) {
  // Its only stamp is the device's, and that only where CUPTI was asked for it.
  const bool stamped =
      options_.sizes.cuda_event >= cupti::kCudaEventBytesWithTimestamp && from.device_timestamp != 0;
  if (!stamped) {
    const PendingExternal event{uint64_t{from.context_id} << 32 | from.stream_id, from.correlation_id,
                                kEventPending, last_kept_, from.event_id};
    if (from.correlation_id != last_decided_) return Wait(event);
    if (last_kept_) {
      WriteExternal(event);
    } else {
      ++outside_;
    }
    return;
  }
  if (!Keep(from.device_timestamp, from.device_timestamp, RecordKind::kCudaEvent, kNoLane)) return;
  auto* to = ring_.New<ring::CudaEventRecord>();
  if (to == nullptr) return;
  to->device_ns = static_cast<int64_t>(from.device_timestamp);
  to->correlation = from.correlation_id;
  to->context = from.context_id;
  to->stream = from.stream_id;
  to->event = from.event_id;
}

void Converter::Overhead(const cupti::Overhead3& from) {
  if (!Keep(from.start, from.end, RecordKind::kOverhead, kNoLane)) return;
  auto* to = ring_.New<ring::OverheadRecord>();
  if (to == nullptr) return;
  to->start_ns = static_cast<int64_t>(from.start);
  to->end_ns = static_cast<int64_t>(from.end);
  to->overhead_kind = static_cast<uint32_t>(from.overhead_kind);
  to->thread = from.object_kind == cupti::ObjectKind::kThread ? from.object.thread_or_context : 0;
}

uint32_t Converter::TextOf(const char* name) {
  if (name == nullptr) return 0;
  // Most kernels repeat. The address only says where to look first: a module loaded anew may put another name
  // there.
  const auto bits = reinterpret_cast<uintptr_t>(name);
  CachedPointer& cached = pointers_[(bits >> 4 ^ bits >> 14) % kPointerCache];
  if (cached.pointer == name && std::strcmp(cached.entry->text, name) == 0)
    return names_.Define(ring_, *cached.entry);
  const size_t length = std::strlen(name);
  Interner::Entry* entry = names_.Find(name, length);
  if (entry == nullptr) return names_.Intern(ring_, name, length);
  cached = {name, entry};
  return names_.Define(ring_, *entry);
}

uint32_t Converter::FunctionName(cupti::CallbackDomain domain, uint32_t cbid) {
  if (api_->GetCallbackName == nullptr || cbid >= kCallbackNames) return 0;
  Interner::Entry*& entry = functions_[domain == cupti::CallbackDomain::kDriverApi ? 1 : 0][cbid];
  if (entry == nullptr) {
    const char* name = nullptr;
    if (api_->GetCallbackName(domain, cbid, &name) != cupti::Result::kSuccess || name == nullptr) return 0;
    entry = names_.Find(name, LengthWithoutVersion(name));
    if (entry == nullptr) return names_.Intern(ring_, name, LengthWithoutVersion(name));
  }
  return names_.Define(ring_, *entry);
}

void Converter::End() {
  SettleUnstamped();
  for (uint32_t i = 0; i < pending_count_; ++i) SettleOrphan(pending_[i]);
  pending_count_ = 0;
  ring_.Commit();
  ring_.FlushStatistics();
}

}  // namespace lockstep::client
