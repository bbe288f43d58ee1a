#include "client/nvtx/nccl_calls.h"

#include <cstring>

namespace lockstep::client {
namespace {

using ring::RecordKind;

constexpr char kPrefix[] = "nccl";
constexpr size_t kPrefixLength = sizeof kPrefix - 1;
constexpr size_t kFunctionBytes = 24;

// "AllReduce" of "ncclAllReduce"; empty: not a function of NCCL.
struct Function {
  char name[kFunctionBytes] = {};

  explicit Function(RangeMessage message) {
    if (message.length <= kPrefixLength || message.length - kPrefixLength >= kFunctionBytes ||
        std::memcmp(message.text, kPrefix, kPrefixLength) != 0) {
      return;
    }
    std::memcpy(name, message.text + kPrefixLength, message.length - kPrefixLength);
  }
  bool Is(const char* function) const { return std::strcmp(name, function) == 0; }
};

bool IsMessage(const char* function) {
  return std::strcmp(function, "Send") == 0 || std::strcmp(function, "Recv") == 0;
}

}  // namespace

// The first call of this thread in this capture. It removes everything that an earlier capture left pushed.
void NcclCalls::Begin(ThreadSlot& slot) {
  slot.nccl.begun = true;
  if (!nccl_.plugged_in()) nccl_.UnpushAll();
}

void NcclCalls::OnPush(RangeMessage name, const NvtxPayload& payload) {
  if (!Recording()) return;
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) {
    if (payload.Has(NvtxPayload::kBytes) && !nccl_.plugged_in())
      recorder_.CountNoRing(payload.Has(NvtxPayload::kPeer) ? RecordKind::kPointToPoint
                                                            : RecordKind::kCollective);
    return;
  }
  if (!slot->nccl.begun) Begin(*slot);
  ++slot->nccl.depth;
  Enter(*slot, Function(name).name, payload);
  recorder_.Leave(*slot);
}

void NcclCalls::Enter(ThreadSlot& slot, const char* function, const NvtxPayload& payload) {
  NcclThread& t = slot.nccl;
  const bool starts_group = std::strcmp(function, "GroupStart") == 0;
  const bool ends_group = std::strcmp(function, "GroupEnd") == 0;
  const bool operation = payload.Has(NvtxPayload::kBytes);
  // The serial covers the kernels that this group, or this call alone, launches.
  if (starts_group && t.group++ == 0) t.launch = 0;
  if (operation && t.launch == 0 && !nccl_.plugged_in()) t.launch = nccl_.NewLaunch();
  if (operation) Operation(slot, function, payload, t.launch);
  if (ends_group && t.group > 0) --t.group;
  const bool launches = (operation || ends_group) && t.group == 0 && t.pushed_at == 0;
  if (launches && nccl_.Push(t.launch)) t.pushed_at = t.depth;
}

void NcclCalls::OnPop() {
  if (!Recording()) return;
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) return;
  NcclThread& t = slot->nccl;
  // At depth 0 the range was pushed before tracking began.
  if (t.depth > 0) {
    if (t.pushed_at == t.depth) {
      nccl_.Unpush();
      t.pushed_at = 0;
      t.launch = 0;
    }
    --t.depth;
    // The plugin has described the operations of this call or group. Those that it did not describe ran
    // elsewhere.
    if (t.depth == 0 && t.group == 0) t.reductions = 0;
  }
  recorder_.Leave(*slot);
}

void NcclCalls::Operation(ThreadSlot& slot, const char* function, const NvtxPayload& payload,
                          uint64_t launch) {
  const auto comm = static_cast<uint64_t>(payload.Get(NvtxPayload::kCommunicator, 0));
  if (nccl_.plugged_in()) {
    if (payload.Has(NvtxPayload::kReduction)) {
      const auto number = static_cast<uint64_t>(payload.values[NvtxPayload::kReduction]);
      slot.nccl.Remember(
          function, comm, static_cast<uint64_t>(payload.values[NvtxPayload::kBytes]),
          payload.reduction != nullptr ? payload.reduction : foreign::nccl::ReductionName(number));
    }
    return;
  }
  if (IsMessage(function)) {
    Message(slot, function, payload, launch);
  } else {
    Collective(slot, function, payload, launch);
  }
}

void NcclCalls::Collective(ThreadSlot& slot, const char* function, const NvtxPayload& payload,
                           uint64_t launch) {
  const HostTime now = clock_.now();
  if (!window_.Contains(now)) {
    ++slot.outside;
    return;
  }
  uint32_t reduction = 0;
  if (payload.Has(NvtxPayload::kReduction)) {
    const auto number = static_cast<uint64_t>(payload.values[NvtxPayload::kReduction]);
    const char* text =
        payload.reduction != nullptr ? payload.reduction : foreign::nccl::ReductionName(number);
    reduction = slot.names.Intern(slot.ring, text, std::strlen(text));
  }
  const uint32_t name = slot.names.Intern(slot.ring, function, std::strlen(function));
  if (auto* to = slot.ring.New<ring::CollectiveRecord>()) {
    to->header.flags = ring::kFromNvtx;
    to->enqueued_ns = now.ns();
    to->comm = static_cast<uint64_t>(payload.Get(NvtxPayload::kCommunicator, 0));
    to->sequence = 0;
    to->launch = launch;
    to->count = 0;
    to->function = name;
    to->datatype = 0;
    to->algorithm = 0;
    to->protocol = 0;
    to->root = static_cast<int32_t>(payload.Get(NvtxPayload::kRoot, -1));
    to->channels = 0;
    to->bytes = static_cast<uint64_t>(payload.values[NvtxPayload::kBytes]);
    to->operation = nccl_.NewOperation();
    to->reduction = reduction;
  }
  slot.ring.Commit();
}

void NcclCalls::Message(ThreadSlot& slot, const char* function, const NvtxPayload& payload, uint64_t launch) {
  const HostTime now = clock_.now();
  const auto comm = static_cast<uint64_t>(payload.Get(NvtxPayload::kCommunicator, 0));
  const auto peer = static_cast<int32_t>(payload.Get(NvtxPayload::kPeer, -1));
  const uint16_t direction = function[0] == 'S' ? ring::kP2pSend : 0;
  // It is counted even if it is not recorded, as in the plugin.
  const uint64_t sequence = nccl_.NextInPair(comm, peer, direction);
  if (!window_.Contains(now)) {
    ++slot.outside;
    return;
  }
  if (auto* to = slot.ring.New<ring::PointToPointRecord>()) {
    to->header.flags = direction | ring::kFromNvtx;
    to->enqueued_ns = now.ns();
    to->comm = comm;
    to->sequence = sequence;
    to->launch = launch;
    to->count = 0;
    to->datatype = 0;
    to->peer = peer;
    to->bytes = static_cast<uint64_t>(payload.values[NvtxPayload::kBytes]);
    to->operation = nccl_.NewOperation();
  }
  slot.ring.Commit();
}

void NcclCalls::OnPopPayload(const NvtxPayload& payload) {
  const auto id = static_cast<uint64_t>(payload.Get(NvtxPayload::kCommunicator, 0));
  // A split has its own id and its parent's ranks. The payload of an abort or a shrink describes a
  // communicator that is already known, or gives correct values.
  const bool made = id != 0 && payload.Has(NvtxPayload::kRank) && payload.Has(NvtxPayload::kRanks) &&
                    !payload.Has(NvtxPayload::kParent);
  if (!made) return;
  for (const Communicator& known : communicators_) {
    if (known.state.load(std::memory_order_acquire) == 2 && known.id == id) return;
  }
  // The oldest communicator makes room, because the end of a communicator is not followed.
  Communicator& place = communicators_[next_communicator_.fetch_add(1) % kCommunicators];
  uint32_t state = place.state.load();
  if (state == 1 || !place.state.compare_exchange_strong(state, 1)) return;
  place.id = id;
  place.rank = static_cast<int32_t>(payload.values[NvtxPayload::kRank]);
  place.ranks = static_cast<int32_t>(payload.values[NvtxPayload::kRanks]);
  place.device_plus_1 = static_cast<uint32_t>(payload.Get(NvtxPayload::kDevice, -1) + 1);
  place.state.store(2, std::memory_order_release);
  if (!Recording() || nccl_.plugged_in()) return;
  if (ThreadSlot* slot = recorder_.Enter()) {
    WriteCommunicator(*slot, place);
    recorder_.Leave(*slot);
  } else {
    recorder_.CountNoRing(RecordKind::kCommunicator);
  }
}

void NcclCalls::WriteCommunicator(ThreadSlot& slot, const Communicator& communicator) {
  if (auto* to = slot.ring.New<ring::CommunicatorRecord>()) {
    to->comm = communicator.id;
    to->name = 0;
    to->rank = communicator.rank;
    to->ranks = communicator.ranks;
    to->nodes = 0;
    to->device_plus_1 = communicator.device_plus_1;
  }
  slot.ring.Commit();
}

void NcclCalls::WriteCommunicators(ThreadSlot& slot) {
  if (!Recording() || nccl_.plugged_in()) return;
  for (const Communicator& communicator : communicators_) {
    if (communicator.state.load(std::memory_order_acquire) == 2) WriteCommunicator(slot, communicator);
  }
}

}  // namespace lockstep::client
