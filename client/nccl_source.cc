#include "client/nccl_source.h"

#include <cstring>

namespace lockstep::client {
namespace {

namespace nccl = foreign::nccl;
namespace cupti = foreign::cupti;
using ring::RecordKind;

constexpr int32_t kCaptureMask = nccl::kEventGroup | nccl::kEventColl | nccl::kEventP2p |
                                 nccl::kEventGroupApi | nccl::kEventCollApi | nccl::kEventP2pApi |
                                 nccl::kEventKernelLaunch;

// Handles: what they are is all a stop needs to know.
char g_nothing_to_stop;
char g_pushed_launch;

}  // namespace

void NcclSource::SetMask(int32_t mask) {
  int32_t* word = mask_.load(std::memory_order_acquire);
  if (word != nullptr) __atomic_store_n(word, mask, __ATOMIC_RELEASE);
}

uint32_t NcclSource::Intern(ThreadSlot& slot, const char* text) {
  return text == nullptr || text[0] == '\0' ? 0 : slot.names.Intern(slot.ring, text, std::strlen(text));
}

NcclSource::Communicator* NcclSource::OnInit(uint64_t id, int32_t* mask, const char* name, int32_t nodes,
                                             int32_t ranks, int32_t rank) {
  mask_.store(mask, std::memory_order_release);
  SetMask(gate_.nccl.load() != 0 ? kCaptureMask : 0);
  Communicator* made = nullptr;
  for (Communicator& place : communicators_) {
    uint32_t expected = Communicator::kFree;
    if (!place.state.compare_exchange_strong(expected, Communicator::kFilling)) continue;
    place.id = id;
    place.rank = rank;
    place.ranks = ranks;
    place.nodes = nodes;
    size_t length = name == nullptr ? 0 : std::strlen(name);
    if (length > Communicator::kNameBytes - 1) length = Communicator::kNameBytes - 1;
    if (length > 0) std::memcpy(place.name, name, length);
    place.name[length] = '\0';
    place.state.store(Communicator::kLiving, std::memory_order_release);
    made = &place;
    break;
  }
  if (made == nullptr || gate_.nccl.load() == 0) return made;
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) {
    recorder_.CountNoRing(RecordKind::kCommunicator);
    return made;
  }
  WriteCommunicator(*slot, *made);
  recorder_.Leave(*slot);
  return made;
}

void NcclSource::OnFinalize(Communicator* communicator) {
  if (communicator != nullptr) communicator->state.store(Communicator::kFree, std::memory_order_release);
}

void NcclSource::WriteCommunicator(ThreadSlot& slot, const Communicator& communicator) {
  const uint32_t name = Intern(slot, communicator.name);
  if (auto* to = slot.ring.New<ring::CommunicatorRecord>()) {
    to->comm = communicator.id;
    to->name = name;
    to->rank = communicator.rank;
    to->ranks = communicator.ranks;
    to->nodes = communicator.nodes;
  }
  slot.ring.Commit();
}

void NcclSource::WriteCommunicators(ThreadSlot& slot) {
  for (const Communicator& communicator : communicators_) {
    if (communicator.state.load(std::memory_order_acquire) == Communicator::kLiving)
      WriteCommunicator(slot, communicator);
  }
}

void NcclSource::Begin(const CuptiApi* api) {
  push_.store(api == nullptr ? nullptr : api->PushExternalCorrelationId);
  pop_.store(api == nullptr ? nullptr : api->PopExternalCorrelationId);
  for (PairCount& pair : pairs_) {
    pair.key.store(0, std::memory_order_relaxed);
    pair.next.store(0, std::memory_order_relaxed);
  }
  SetMask(kCaptureMask);
}

// The pop stays: the stop of a launch that pushed may still come.
void NcclSource::End() {
  SetMask(0);
  push_.store(nullptr);
}

void* NcclSource::OnStart(const Communicator* communicator, uint64_t type,
                          const nccl::EventDescriptor& event) {
  if (gate_.nccl.load(std::memory_order_relaxed) == 0) return &g_nothing_to_stop;
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) {
    if (type == nccl::kEventColl) recorder_.CountNoRing(RecordKind::kCollective);
    if (type == nccl::kEventP2p) recorder_.CountNoRing(RecordKind::kPointToPoint);
    return &g_nothing_to_stop;
  }
  void* handle = &g_nothing_to_stop;
  switch (type) {
    case nccl::kEventGroupApi:
      slot->launch = 0;
      break;  // a new call: the last one's kernel is not its own
    case nccl::kEventKernelLaunch:
      handle = LaunchStarts(*slot);
      break;
    case nccl::kEventColl:
      Collective(*slot, communicator, event.detail);
      break;
    case nccl::kEventP2p:
      PointToPoint(*slot, communicator, event.detail);
      break;
    default:
      break;
  }
  recorder_.Leave(*slot);
  return handle;
}

void* NcclSource::LaunchStarts(ThreadSlot& slot) {
  const auto push = push_.load(std::memory_order_acquire);
  if (push == nullptr || pop_.load(std::memory_order_relaxed) == nullptr) return &g_nothing_to_stop;
  const uint64_t serial = next_launch_.fetch_add(1, std::memory_order_relaxed);
  if (push(cupti::ExternalCorrelationKind::kCustom2, serial) != cupti::Result::kSuccess)
    return &g_nothing_to_stop;
  slot.launch = serial;
  return &g_pushed_launch;
}

void NcclSource::OnStop(void* handle) {
  if (handle != &g_pushed_launch) return;
  const auto pop = pop_.load(std::memory_order_acquire);
  uint64_t last = 0;
  if (pop != nullptr) pop(cupti::ExternalCorrelationKind::kCustom2, &last);
}

void NcclSource::Collective(ThreadSlot& slot, const Communicator* communicator,
                            const nccl::EventDetail& detail) {
  const HostTime now = clock_.now();
  if (!window_.Contains(now)) {
    ++slot.outside;
    return;
  }
  const auto& coll = detail.coll;
  const uint32_t function = Intern(slot, coll.function);
  const uint32_t datatype = Intern(slot, coll.datatype);
  const uint32_t algorithm = Intern(slot, coll.algorithm);
  const uint32_t protocol = Intern(slot, coll.protocol);
  if (auto* to = slot.ring.New<ring::CollectiveRecord>()) {
    to->enqueued_ns = now.ns();
    to->comm = communicator == nullptr ? 0 : communicator->id;
    to->sequence = coll.sequence;
    to->launch = slot.launch;
    to->count = coll.count;
    to->function = function;
    to->datatype = datatype;
    to->algorithm = algorithm;
    to->protocol = protocol;
    to->root = coll.root;
    to->channels = coll.channels;
  }
  slot.ring.Commit();
}

void NcclSource::PointToPoint(ThreadSlot& slot, const Communicator* communicator,
                              const nccl::EventDetail& detail) {
  const HostTime now = clock_.now();
  const auto& p2p = detail.p2p;
  const uint64_t comm = communicator == nullptr ? 0 : communicator->id;
  const uint16_t direction =
      p2p.function != nullptr && std::strcmp(p2p.function, "Send") == 0 ? ring::kP2pSend : 0;
  // Counted whether or not it is recorded: the peers must agree on the numbers of those inside the window.
  const uint64_t sequence = NextInPair(comm, p2p.peer, direction);
  if (!window_.Contains(now)) {
    ++slot.outside;
    return;
  }
  const uint32_t datatype = Intern(slot, p2p.datatype);
  if (auto* to = slot.ring.New<ring::PointToPointRecord>()) {
    to->header.flags = direction;
    to->enqueued_ns = now.ns();
    to->comm = comm;
    to->sequence = sequence;
    to->launch = slot.launch;
    to->count = p2p.count;
    to->datatype = datatype;
    to->peer = p2p.peer;
  }
  slot.ring.Commit();
}

uint64_t NcclSource::NextInPair(uint64_t communicator, int32_t peer, uint16_t direction) {
  uint64_t key = (communicator ^ static_cast<uint64_t>(static_cast<uint32_t>(peer)) << 1 ^ direction) *
                 0x9E3779B97F4A7C15ull;
  key |= 1;  // 0 is a free place
  for (uint32_t probe = 0; probe < kPairs; ++probe) {
    PairCount& pair = pairs_[((key >> 32 ^ key) + probe) & (kPairs - 1)];
    uint64_t there = pair.key.load(std::memory_order_relaxed);
    if (there == 0 && pair.key.compare_exchange_strong(there, key)) there = key;
    if (there == key) return pair.next.fetch_add(1, std::memory_order_relaxed);
  }
  return 0;
}

}  // namespace lockstep::client
