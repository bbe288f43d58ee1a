#include "client/nccl/nccl_network.h"

#include <sys/mman.h>

#include "client/nccl/copy_field.h"

namespace lockstep::client {
namespace {

namespace nccl = foreign::nccl;
using ring::NetworkEntry;
using ring::NetworkWait;

constexpr auto kUnordered = std::memory_order_relaxed;

// The writer of `from` may run at the same time.
void CopyEntry(const NetworkEntry& from, NetworkEntry& to) {
  const uint64_t use = from.use.load(std::memory_order_acquire);
  to.use.store(0, kUnordered);
  std::atomic_thread_fence(std::memory_order_release);
  CopyField(from.communicator, to.communicator);
  CopyField(from.position, to.position);
  CopyField(from.started_ns, to.started_ns);
  CopyField(from.moved_ns, to.moved_ns);
  CopyField(from.waits, to.waits);
  CopyField(from.peer, to.peer);
  CopyField(from.channel, to.channel);
  CopyField(from.steps, to.steps);
  CopyField(from.steps_done, to.steps_done);
  // An entry that was given to another operation meanwhile is written by that operation's start.
  if (from.use.load(std::memory_order_acquire) == use) to.use.store(use, std::memory_order_release);
}

NetworkWait WaitOf(uint32_t state) {
  switch (static_cast<nccl::EventState>(state)) {
    case nccl::EventState::kProxyStepSendGpuWait:
    case nccl::EventState::kProxyStepRecvGpuWait:
      return NetworkWait::kGpu;
    case nccl::EventState::kProxyStepSendPeerWait:
      return NetworkWait::kPeer;
    case nccl::EventState::kProxyStepSendWait:
    case nccl::EventState::kProxyStepRecvWait:
      return NetworkWait::kNetwork;
    case nccl::EventState::kProxyStepRecvFlushWait:
      return NetworkWait::kFlush;
    default:
      return NetworkWait::kNone;
  }
}

}  // namespace

void NcclNetwork::TurnOn(const Timing& timing) {
  void* memory =
      ::mmap(nullptr, ring::kNetworkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  timing_ = &timing;
  own_ = static_cast<NetworkEntry*>(memory);
}

void NcclNetwork::Attach(NetworkEntry* table) {
  if (own_ == nullptr) return;
  // Writers reach the table first, so that no change after the copy is missing in it.
  shared_.store(table, std::memory_order_release);
  for (uint32_t i = 0; table != nullptr && i < ring::kNetworkEntries; ++i) {
    if (own_[i].use.load(std::memory_order_acquire) != 0) CopyEntry(own_[i], table[i]);
  }
}

template <typename Write>
void NcclNetwork::InBoth(uint32_t index, Write write) {
  write(own_[index]);
  if (NetworkEntry* shared = shared_.load(std::memory_order_acquire)) write(shared[index]);
}

void* NcclNetwork::HandleOf(Place place) {
  return reinterpret_cast<void*>(kMark | place.use << kUseShift | uintptr_t{place.index} << 2 | kTag);
}

NcclNetwork::Place NcclNetwork::Find(const void* handle) const {
  if (own_ == nullptr || !IsHandle(handle)) return {};
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  const Place place{static_cast<uint32_t>(bits >> 2) & (ring::kNetworkEntries - 1),
                    bits >> kUseShift & kUseMask};
  return own_[place.index].use.load(kUnordered) == place.use ? place : Place{};
}

NcclNetwork::Place NcclNetwork::Take() {
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const uint32_t use = next_.fetch_add(1, kUnordered);
    if (use == 0) continue;
    const uint32_t index = use & (ring::kNetworkEntries - 1);
    // Two threads may look for a place at once. The private copy decides.
    uint64_t free = 0;
    if (own_[index].use.compare_exchange_strong(free, use, std::memory_order_acquire)) return {index, use};
  }
  return {};
}

void* NcclNetwork::StartStep(const NcclEvent& event) {
  const Place place = Find(event.parent);
  if (place.use == 0) return nullptr;
  const uint64_t step = event.step & (ring::kStepsAtOnce - 1);
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(HandleOf(place)) | kStep | step << kStepShift);
}

void* NcclNetwork::OnStart(uint64_t communicator, uint64_t position, const NcclEvent& event) {
  if (own_ == nullptr) return nullptr;
  if (event.type == nccl::kEventProxyStep) return StartStep(event);
  const Place place = Take();
  if (place.use == 0) return nullptr;
  const int64_t now = NowNs();
  InBoth(place.index, [&](NetworkEntry& to) {
    // In the private copy the use is the claim, and only Attach reads the fields.
    if (&to != &own_[place.index]) to.use.store(0, kUnordered);
    std::atomic_thread_fence(std::memory_order_release);
    to.communicator.store(communicator, kUnordered);
    to.position.store(position, kUnordered);
    to.started_ns.store(now, kUnordered);
    to.moved_ns.store(now, kUnordered);
    to.waits.store(0, kUnordered);
    to.peer.store(event.peer, kUnordered);
    to.channel.store(event.channel | (event.is_send ? ring::kNetworkSend : 0), kUnordered);
    to.steps.store(event.steps, kUnordered);
    to.steps_done.store(0, kUnordered);
    to.use.store(place.use, std::memory_order_release);
  });
  return HandleOf(place);
}

void NcclNetwork::SetWait(Place place, uint32_t step, NetworkWait wait) {
  const int shift = static_cast<int>(8 * step);
  const uint64_t before = own_[place.index].waits.load(kUnordered);
  const uint64_t after = (before & ~(uint64_t{0xFF} << shift)) | static_cast<uint64_t>(wait) << shift;
  if (after == before) return;
  const int64_t now = NowNs();
  InBoth(place.index, [&](NetworkEntry& to) {
    to.waits.store(after, kUnordered);
    if (wait == NetworkWait::kNone) to.steps_done.store(to.steps_done.load(kUnordered) + 1, kUnordered);
    to.moved_ns.store(now, kUnordered);
  });
}

void NcclNetwork::OnState(const void* handle, uint32_t state) {
  const NetworkWait wait = WaitOf(state);
  if (wait == NetworkWait::kNone || (reinterpret_cast<uintptr_t>(handle) & kStep) == 0) return;
  const Place place = Find(handle);
  if (place.use == 0) return;
  SetWait(place, reinterpret_cast<uintptr_t>(handle) >> kStepShift & (ring::kStepsAtOnce - 1), wait);
}

void NcclNetwork::OnStop(const void* handle) {
  const Place place = Find(handle);
  if (place.use == 0) return;
  if ((reinterpret_cast<uintptr_t>(handle) & kStep) != 0) {
    SetWait(place, reinterpret_cast<uintptr_t>(handle) >> kStepShift & (ring::kStepsAtOnce - 1),
            NetworkWait::kNone);
    return;
  }
  // The private copy is last, because another thread may then take the place.
  if (NetworkEntry* shared = shared_.load(std::memory_order_acquire))
    shared[place.index].use.store(0, std::memory_order_release);
  own_[place.index].use.store(0, std::memory_order_release);
}

}  // namespace lockstep::client
