#include "client/nccl/nccl_proxy.h"

namespace lockstep::client {
namespace {

namespace nccl = foreign::nccl;
using ring::LossReason;
using ring::RecordKind;

RecordKind KindOfType(uint64_t type) {
  return type == nccl::kEventKernelChannel ? RecordKind::kKernelChannel : RecordKind::kProxyOp;
}

// A use is a capture in the high half and a serial in the low half. A handle has the serial from bit 14 on,
// the place from bit 2 on, and its tag.
constexpr uint32_t kPlaceBits = 12;
constexpr uint64_t kSerialMask = 0xFFFFFFFFu;

}  // namespace

NcclProxy::Open* NcclProxy::Take(uint32_t type, void** handle) {
  static_assert(kPlaces == 1u << kPlaceBits);
  const uint64_t capture = capture_.load(std::memory_order_relaxed);
  Open* places = places_.load(std::memory_order_relaxed);
  if (places == nullptr) return nullptr;
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const uint32_t serial = next_.fetch_add(1, std::memory_order_relaxed);
    if (serial == 0) continue;
    const uint32_t place = serial & (kPlaces - 1);
    Open& open = places[place];
    uint64_t use = open.use.load(std::memory_order_relaxed);
    // A place of an earlier capture whose stop never came can be reused.
    if (use != 0 && use >> 32 == (capture & kSerialMask)) continue;
    if (!open.use.compare_exchange_strong(use, capture << 32 | serial, std::memory_order_acquire)) continue;
    open.type = type;
    for (int64_t& wait : open.waits) wait = 0;
    open.bytes = open.gpu_start = open.gpu_end = 0;
    open.steps = open.chunk_bytes = open.steps_seen = 0;
    open.flags = 0;
    open.wait = kNone;
    open.parent = open.followed = nullptr;
    for (void*& step : open.open_steps) step = nullptr;
    *handle = reinterpret_cast<void*>(uint64_t{serial} << (kPlaceBits + 2) | uint64_t{place} << 2 |
                                      static_cast<uintptr_t>(NcclHandle::kProxy));
    return &open;
  }
  return nullptr;
}

NcclProxy::Open* NcclProxy::Find(const void* handle) {
  if (KindOfHandle(handle) != NcclHandle::kProxy) return nullptr;
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  Open* places = places_.load(std::memory_order_relaxed);
  if (places == nullptr) return nullptr;
  Open& open = places[bits >> 2 & (kPlaces - 1)];
  const uint64_t use = open.use.load(std::memory_order_acquire);
  return use != 0 && (use & kSerialMask) == bits >> (kPlaceBits + 2) ? &open : nullptr;
}

void NcclProxy::Begin(uint64_t capture, int32_t pid) {
  pid_ = pid;
  capture_.store(capture);
}

void* NcclProxy::FollowedBy(const void* handle) {
  const Open* open = Find(handle);
  return open == nullptr ? nullptr : open->followed;
}

void* NcclProxy::StartedAgain(const Open& op, const NcclEvent& event) {
  void* const handle = op.open_steps[event.step % ring::kStepsAtOnce];
  const Open* step = Find(handle);
  return step != nullptr && step->step == event.step && step->wait == kNone ? handle : nullptr;
}

void* NcclProxy::OnStart(uint64_t comm, const NcclEvent& event, void* followed) {
  const bool step = event.type == nccl::kEventProxyStep;
  Open* const op = step ? Find(event.parent) : nullptr;
  if (step) {
    if (op == nullptr) return nullptr;
    if (void* again = StartedAgain(*op, event)) return again;
  }
  const HostTime now = clock_.now();
  void* handle = nullptr;
  Open* open = Take(static_cast<uint32_t>(event.type), &handle);
  if (open == nullptr) {
    if (ThreadSlot* slot = recorder_.Enter()) {
      slot->ring.Lose(LossReason::kNoPlace, KindOfType(event.type));
      recorder_.Leave(*slot);
    }
    return nullptr;
  }
  open->comm = comm;
  open->start = now;
  open->since = now;
  open->channel = event.channel;
  open->parent = event.parent;
  open->step = event.step;
  open->followed = followed;
  if (op != nullptr) op->open_steps[event.step % ring::kStepsAtOnce] = handle;
  // A parent of another process is a number of that process.
  const bool remote = event.type == nccl::kEventProxyOp && event.pid != pid_;
  open->operation = remote ? 0 : OperationOf(event.parent);
  open->gpu_start = event.gpu_timer_ns;
  open->peer = event.peer;
  open->steps = event.steps;
  open->chunk_bytes = event.chunk_bytes;
  open->flags =
      static_cast<uint16_t>((event.is_send ? ring::kProxySend : 0) | (remote ? ring::kProxyRemote : 0));
  return handle;
}

void NcclProxy::OnState(void* handle, uint32_t state, uint64_t transferred, uint64_t gpu_timer_ns) {
  Open* open = Find(handle);
  if (open == nullptr) return;
  Wait wait = kNone;
  switch (static_cast<nccl::EventState>(state)) {
    case nccl::EventState::kKernelChannelStop:
      open->gpu_end = gpu_timer_ns;
      return;
    case nccl::EventState::kProxyStepSendGpuWait:
    case nccl::EventState::kProxyStepRecvGpuWait:
      wait = kGpu;
      break;
    case nccl::EventState::kProxyStepSendPeerWait:
      wait = kPeer;
      break;
    case nccl::EventState::kProxyStepSendWait:
      wait = kNetwork;
      open->bytes += transferred;
      break;
    case nccl::EventState::kProxyStepRecvWait:
      wait = kNetwork;
      break;
    case nccl::EventState::kProxyStepRecvFlushWait:
      wait = kFlush;
      open->bytes += transferred;
      break;
    default:
      // Before version 4 the operation itself reports the sum so far.
      if (open->type == nccl::kEventProxyOp &&
          (state == nccl::kProxyOpSendTransmitted || state == nccl::kProxyOpRecvReceived))
        open->bytes = transferred;
      return;
  }
  if (open->type != nccl::kEventProxyStep) return;
  const HostTime now = clock_.now();
  if (open->wait != kNone) open->waits[open->wait] += (now - open->since).ns();
  open->wait = wait;
  open->since = now;
}

uint64_t NcclProxy::OnStop(void* handle) {
  Open* open = Find(handle);
  if (open == nullptr) return 0;
  const uint64_t ended = open->type == nccl::kEventKernelChannel ? open->operation : 0;
  const HostTime now = clock_.now();
  if (open->type == nccl::kEventProxyStep) {
    if (open->wait != kNone) open->waits[open->wait] += (now - open->since).ns();
    if (Open* op = Find(open->parent)) {
      for (int i = 0; i < kWaits; ++i) op->waits[i] += open->waits[i];
      op->bytes += open->bytes;
      ++op->steps_seen;
    }
  } else if (ThreadSlot* slot = recorder_.Enter()) {
    const uint64_t capture = open->use.load(std::memory_order_relaxed) >> 32;
    const bool inside = window_.Contains(open->start) && capture == (capture_.load() & kSerialMask);
    if (!inside) {
      ++slot->outside;
    } else if (open->type == nccl::kEventKernelChannel) {
      WriteChannel(*slot, *open, now);
    } else {
      WriteOp(*slot, *open, now);
    }
    recorder_.Leave(*slot);
  } else {
    recorder_.CountNoRing(KindOfType(open->type));
  }
  open->use.store(0, std::memory_order_release);
  return ended;
}

void NcclProxy::WriteChannel(ThreadSlot& slot, const Open& open, HostTime now) {
  if (auto* to = slot.ring.New<ring::KernelChannelRecord>()) {
    // If a stop has no time, the length is unknown. It must not become negative.
    const bool timed = open.gpu_start != 0 && open.gpu_end >= open.gpu_start;
    to->start_ns = open.start.ns();
    to->end_ns = now.ns();
    to->gpu_start_ns = timed ? open.gpu_start : 0;
    to->gpu_end_ns = timed ? open.gpu_end : 0;
    to->comm = open.comm;
    to->operation = open.operation;
    to->channel = open.channel;
  }
  slot.ring.Commit();
}

void NcclProxy::WriteOp(ThreadSlot& slot, const Open& open, HostTime now) {
  if (auto* to = slot.ring.New<ring::ProxyOpRecord>()) {
    to->header.flags = open.flags;
    to->start_ns = open.start.ns();
    to->end_ns = now.ns();
    to->comm = open.comm;
    to->operation = open.operation;
    to->peer = open.peer;
    to->channel = open.channel;
    to->steps = open.steps;
    to->chunk_bytes = open.chunk_bytes;
    to->steps_seen = open.steps_seen;
    to->bytes = open.bytes;
    to->gpu_wait_ns = open.waits[kGpu];
    to->peer_wait_ns = open.waits[kPeer];
    to->network_wait_ns = open.waits[kNetwork];
    to->flush_wait_ns = open.waits[kFlush];
  }
  slot.ring.Commit();
}

}  // namespace lockstep::client
