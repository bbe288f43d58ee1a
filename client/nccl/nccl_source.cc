#include "client/nccl/nccl_source.h"

#include <unistd.h>

#include <cstring>

#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

namespace nccl = foreign::nccl;
namespace cupti = foreign::cupti;
using ring::RecordKind;

constexpr int32_t kCaptureMask = nccl::kEventGroup | nccl::kEventColl | nccl::kEventP2p |
                                 nccl::kEventGroupApi | nccl::kEventCollApi | nccl::kEventP2pApi |
                                 nccl::kEventKernelLaunch | nccl::kEventCeColl;

// For the table of progress. The other bits are of events that enclose these.
constexpr int32_t kProgressMask = nccl::kEventGroup | nccl::kEventColl | nccl::kEventP2p |
                                  nccl::kEventKernelChannel | nccl::kEventGroupApi | nccl::kEventCollApi |
                                  nccl::kEventP2pApi | nccl::kEventCeColl;

// For the table of network operations.
constexpr int32_t kNetworkMask = nccl::kEventProxyOp | nccl::kEventProxyStep;

// A stop needs to know only the kind of its handle. These addresses are multiples of 4, so they count as
// NcclHandle::kOther.
alignas(4) char g_nothing_to_stop;
alignas(4) char g_pushed_launch;

int32_t MaskOf(uint32_t activities) {
  int32_t mask = kCaptureMask;
  if (activities & ring::kActivityNcclKernelTimes) mask |= nccl::kEventKernelChannel;
  if (activities & ring::kActivityNcclProxy) mask |= nccl::kEventProxyOp | nccl::kEventProxyStep;
  return mask;
}

// Returns the event types that NCCL emits for `mask`: it adds the ancestors.
int32_t WithAncestors(int32_t mask) {
  constexpr int32_t kOfOperations = nccl::kEventColl | nccl::kEventP2p;
  if (mask & nccl::kEventNetPlugin) mask |= nccl::kEventProxyStep;
  if (mask & nccl::kEventProxyStep) mask |= nccl::kEventProxyOp;
  if (mask & (nccl::kEventCeSync | nccl::kEventCeBatch)) mask |= nccl::kEventCeColl;
  if (mask & (nccl::kEventProxyOp | nccl::kEventKernelChannel)) mask |= kOfOperations;
  if (mask & nccl::kEventColl) mask |= nccl::kEventGroup | nccl::kEventCollApi;
  if (mask & nccl::kEventP2p) mask |= nccl::kEventGroup | nccl::kEventP2pApi;
  if (mask & (kCaptureMask & ~kOfOperations)) mask |= nccl::kEventGroupApi;
  return mask;
}

// Returns the bytes of an element of the types that NCCL's plugin names; 0: unknown.
uint64_t ElementBytes(const char* datatype) {
  if (datatype == nullptr) return 0;
  const size_t length = std::strlen(datatype);
  if (std::strstr(datatype, "loat8") != nullptr) return 1;
  if (length >= 2 && std::strcmp(datatype + length - 2, "64") == 0) return 8;
  if (length >= 2 && std::strcmp(datatype + length - 2, "32") == 0) return 4;
  if (length >= 2 && std::strcmp(datatype + length - 2, "16") == 0) return 2;
  return length >= 1 && datatype[length - 1] == '8' ? 1 : 0;
}

}  // namespace

void NcclSource::Ask(int32_t bits) {
  captured_.store(bits);
  if (progress_.on()) bits |= kProgressMask;
  if (network_.on()) bits |= kNetworkMask;
  int32_t* word = mask_.load(std::memory_order_acquire);
  if (word != nullptr) {
    const int32_t there = __atomic_load_n(word, __ATOMIC_ACQUIRE);
    // Bits that we did not write are those of the chained plugin. Without one, only we write.
    const int32_t before = asked_.load(std::memory_order_relaxed);
    if (!chained_.load(std::memory_order_relaxed)) {
      others_.store(0);
    } else if (before == 0 || there != (others_.load() | before)) {
      others_.store(there);
    }
    __atomic_store_n(word, others_.load() | bits, __ATOMIC_RELEASE);
  }
  asked_.store(bits);
}

void NcclSource::Refresh() { Ask(captured_.load(std::memory_order_relaxed)); }

bool NcclSource::ChainedWants(uint64_t type) const {
  // While we request nothing, the chained plugin requested every event.
  return asked_.load(std::memory_order_relaxed) == 0 ||
         (static_cast<uint64_t>(WithAncestors(others_.load(std::memory_order_relaxed))) & type) != 0;
}

void NcclSource::CountNoPlace(uint64_t type) {
  if (flags_.nccl.load(std::memory_order_relaxed) == 0) return;
  if (type != nccl::kEventColl && type != nccl::kEventP2p && type != nccl::kEventCeColl) return;
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) return;
  slot->ring.Lose(ring::LossReason::kNoPlace,
                  type == nccl::kEventP2p ? RecordKind::kPointToPoint : RecordKind::kCollective);
  recorder_.Leave(*slot);
}

uint32_t NcclSource::Intern(ThreadSlot& slot, const char* text) {
  return text == nullptr || text[0] == '\0' ? 0 : slot.names.Intern(slot.ring, text, std::strlen(text));
}

NcclSource::Communicator* NcclSource::TakePlace() {
  for (Communicator& place : communicators_) {
    uint32_t expected = Communicator::kFree;
    if (place.state.compare_exchange_strong(expected, Communicator::kFilling)) {
      place.chained = nullptr;
      place.is_chained = false;
      place.progress = NcclProgress::kNoSlot;
      return &place;
    }
  }
  return nullptr;
}

NcclSource::Communicator* NcclSource::OnInitUnnamed(int32_t* mask) {
  mask_.store(mask, std::memory_order_release);
  Ask(captured_.load());
  Communicator* made = TakePlace();
  if (made != nullptr) made->state.store(Communicator::kUnnamed, std::memory_order_release);
  return made;
}

NcclSource::Communicator* NcclSource::OnInit(uint64_t id, int32_t* mask, const char* name, int32_t nodes,
                                             int32_t ranks, int32_t rank) {
  mask_.store(mask, std::memory_order_release);
  Ask(captured_.load());
  Communicator* made = TakePlace();
  if (made == nullptr) return nullptr;
  Fill(*made, id, name, nodes, ranks, rank);
  if (flags_.nccl.load() == 0) return made;
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) {
    recorder_.CountNoRing(RecordKind::kCommunicator);
    return made;
  }
  WriteCommunicator(*slot, *made);
  recorder_.Leave(*slot);
  return made;
}

void NcclSource::Fill(Communicator& place, uint64_t id, const char* name, int32_t nodes, int32_t ranks,
                      int32_t rank) {
  place.id = id;
  place.rank = rank;
  place.ranks = ranks;
  place.nodes = nodes;
  size_t length = name == nullptr ? 0 : std::strlen(name);
  if (length > Communicator::kNameBytes - 1) length = Communicator::kNameBytes - 1;
  if (length > 0) std::memcpy(place.name, name, length);
  place.name[length] = '\0';
  // Version 4, which first gives the number of ranks at init, also reports the kernels' channels.
  const uint32_t stages = ranks > 0 ? ring::kStageLaunched | ring::kStageKernel : 0;
  if (progress_.on()) place.progress = progress_.Add(id, place.name, rank, ranks, stages);
  place.state.store(Communicator::kLiving, std::memory_order_release);
}

// Several threads may receive the first event of a communicator at once. One of them fills the place.
bool NcclSource::Learn(Communicator& communicator, const NcclEvent& event) {
  uint32_t expected = Communicator::kUnnamed;
  if (event.comm == 0 || !communicator.state.compare_exchange_strong(expected, Communicator::kFilling))
    return false;
  Fill(communicator, event.comm, event.comm_name, 0, 0, event.rank);
  return true;
}

void NcclSource::OnFinalize(Communicator* communicator) {
  if (communicator == nullptr) return;
  if (progress_.on()) progress_.Remove(communicator->progress);
  communicator->state.store(Communicator::kFree, std::memory_order_release);
}

void NcclSource::WriteCommunicator(ThreadSlot& slot, const Communicator& communicator) {
  const uint32_t name = Intern(slot, communicator.name);
  if (auto* to = slot.ring.New<ring::CommunicatorRecord>()) {
    to->comm = communicator.id;
    to->name = name;
    to->rank = communicator.rank;
    to->ranks = communicator.ranks;
    to->nodes = communicator.nodes;
    to->device_plus_1 = 0;
  }
  slot.ring.Commit();
}

void NcclSource::WriteCommunicators(ThreadSlot& slot) {
  for (const Communicator& communicator : communicators_) {
    if (communicator.state.load(std::memory_order_acquire) == Communicator::kLiving)
      WriteCommunicator(slot, communicator);
  }
}

void NcclSource::Begin(const CuptiApi* api, uint32_t activities) {
  push_.store(api == nullptr ? nullptr : api->PushExternalCorrelationId);
  pop_.store(api == nullptr ? nullptr : api->PopExternalCorrelationId);
  pairs_.Reset();
  proxy_.Begin(flags_.nccl.load(), ::getpid());
  Ask(MaskOf(activities));
}

// pop_ stays set, because the stop of a launch that pushed may still come.
void NcclSource::End() {
  Ask(0);
  push_.store(nullptr);
}

uint64_t NcclSource::FollowStart(Communicator* communicator, const NcclEvent& event) {
  if (event.type == nccl::kEventKernelChannel) {
    const uint64_t operation = OperationOf(event.parent);
    if (!NcclProgress::IsOperation(operation)) return 0;
    progress_.ChannelStarts(operation);
    return operation;
  }
  if (communicator == nullptr) return 0;
  if (communicator->state.load(std::memory_order_acquire) != Communicator::kLiving &&
      !Learn(*communicator, event))
    return 0;
  switch (event.type) {
    case nccl::kEventCollApi:
    case nccl::kEventP2pApi:
      progress_.Enter(communicator->progress, event);
      return 0;
    case nccl::kEventColl:
    case nccl::kEventP2p:
    case nccl::kEventCeColl:
      return progress_.Launch(communicator->progress, event);
    default:
      return 0;
  }
}

void* NcclSource::FollowNetwork(uint64_t comm, const NcclEvent& event) {
  if (event.type == nccl::kEventProxyStep) {
    NcclEvent step = event;
    if (!NcclNetwork::IsHandle(step.parent)) step.parent = proxy_.FollowedBy(step.parent);
    return network_.OnStart(comm, 0, step);
  }
  // With PXN, the parent is a handle of another process.
  const uint64_t operation = event.pid == ::getpid() ? OperationOf(event.parent) : 0;
  return network_.OnStart(comm, NcclProgress::PositionOf(operation), event);
}

void* NcclSource::OnStart(Communicator* communicator, const NcclEvent& event) {
  if (event.type == nccl::kEventProxyOp || event.type == nccl::kEventProxyStep)
    return OnProxyStart(communicator, event);
  const uint64_t operation = progress_.on() ? FollowStart(communicator, event) : 0;
  void* const followed = operation == 0                            ? &g_nothing_to_stop
                         : event.type == nccl::kEventKernelChannel ? ChannelHandle(operation)
                                                                   : OperationHandle(operation);
  if (flags_.nccl.load(std::memory_order_relaxed) == 0) return followed;
  const bool living =
      communicator != nullptr && communicator->state.load(std::memory_order_acquire) == Communicator::kLiving;
  const uint64_t comm = event.comm != 0 ? event.comm : living ? communicator->id : 0;
  if (event.type == nccl::kEventKernelChannel) {
    // NCCL emits an operation for each channel that it must time.
    void* recorded = Captures(event.type) ? proxy_.OnStart(comm, event, nullptr) : nullptr;
    return recorded != nullptr ? recorded : followed;
  }
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) {
    if (event.type == nccl::kEventColl || event.type == nccl::kEventCeColl)
      recorder_.CountNoRing(RecordKind::kCollective);
    if (event.type == nccl::kEventP2p) recorder_.CountNoRing(RecordKind::kPointToPoint);
    return followed;
  }
  if (communicator != nullptr && !living && Learn(*communicator, event))
    WriteCommunicator(*slot, *communicator);
  void* const recorded = Record(*slot, comm, event, operation);
  recorder_.Leave(*slot);
  return recorded != &g_nothing_to_stop ? recorded : followed;
}

void* NcclSource::OnProxyStart(const Communicator* communicator, const NcclEvent& event) {
  const bool living =
      communicator != nullptr && communicator->state.load(std::memory_order_acquire) == Communicator::kLiving;
  const uint64_t comm = living ? communicator->id : 0;
  void* const followed = network_.on() ? FollowNetwork(comm, event) : nullptr;
  void* const recorded = flags_.nccl.load(std::memory_order_relaxed) != 0 && Captures(event.type)
                             ? proxy_.OnStart(comm, event, followed)
                             : nullptr;
  if (recorded != nullptr) return recorded;
  return followed != nullptr ? followed : &g_nothing_to_stop;
}

void* NcclSource::Record(ThreadSlot& slot, uint64_t comm, const NcclEvent& event, uint64_t operation) {
  switch (event.type) {
    case nccl::kEventGroupApi:
      slot.launch = 0;
      break;  // a new call; the previous call's kernel does not belong to it
    case nccl::kEventKernelLaunch:
      return LaunchStarts(slot);
    case nccl::kEventColl:
      return Collective(slot, comm, event, operation);
    case nccl::kEventP2p:
      return PointToPoint(slot, comm, event, operation);
    case nccl::kEventCeColl:
      return CopyEngineCollective(slot, comm, event, operation);
    default:
      break;
  }
  return &g_nothing_to_stop;
}

uint64_t NcclSource::NewLaunch() {
  if (push_.load(std::memory_order_acquire) == nullptr || pop_.load(std::memory_order_relaxed) == nullptr)
    return 0;
  return next_launch_.fetch_add(1, std::memory_order_relaxed);
}

bool NcclSource::Push(uint64_t launch) {
  const auto push = push_.load(std::memory_order_acquire);
  return launch != 0 && push != nullptr &&
         push(cupti::ExternalCorrelationKind::kCustom2, launch) == cupti::Result::kSuccess;
}

void NcclSource::Unpush() {
  const auto pop = pop_.load(std::memory_order_acquire);
  uint64_t last = 0;
  if (pop != nullptr) pop(cupti::ExternalCorrelationKind::kCustom2, &last);
}

void NcclSource::UnpushAll() {
  constexpr int kMost = 64;
  const auto pop = pop_.load(std::memory_order_acquire);
  uint64_t last = 0;
  for (int i = 0; pop != nullptr && i < kMost; ++i) {
    if (pop(cupti::ExternalCorrelationKind::kCustom2, &last) != cupti::Result::kSuccess) return;
  }
}

void* NcclSource::LaunchStarts(ThreadSlot& slot) {
  const uint64_t serial = NewLaunch();
  if (!Push(serial)) return &g_nothing_to_stop;
  slot.launch = serial;
  return &g_pushed_launch;
}

void NcclSource::OnStop(void* handle) {
  if (handle == &g_pushed_launch) return Unpush();
  if (NcclNetwork::IsHandle(handle)) return network_.OnStop(handle);
  const NcclHandle kind = KindOfHandle(handle);
  if (kind == NcclHandle::kProxy) network_.OnStop(proxy_.FollowedBy(handle));
  const uint64_t ended = kind == NcclHandle::kProxy     ? proxy_.OnStop(handle)
                         : kind == NcclHandle::kChannel ? OperationOf(handle)
                                                        : 0;
  if (NcclProgress::IsOperation(ended) && progress_.on()) progress_.ChannelEnds(ended);
}

void* NcclSource::Collective(ThreadSlot& slot, uint64_t comm, const NcclEvent& event, uint64_t operation) {
  const HostTime now = clock_.now();
  if (!window_.Contains(now)) {
    ++slot.outside;
    return &g_nothing_to_stop;
  }
  const char* reduces = event.reduction;
  if (reduces == nullptr && slot.nccl.reductions > 0 && event.function != nullptr)
    reduces = slot.nccl.Take(event.function, comm, event.count * ElementBytes(event.datatype));
  const uint32_t function = Intern(slot, event.function);
  const uint32_t datatype = Intern(slot, event.datatype);
  const uint32_t algorithm = Intern(slot, event.algorithm);
  const uint32_t protocol = Intern(slot, event.protocol);
  const uint32_t reduction = Intern(slot, reduces);
  if (operation == 0) operation = NewOperation();
  if (auto* to = slot.ring.New<ring::CollectiveRecord>()) {
    to->header.flags = event.sequence_of == Sequence::kOfThisRank ? ring::kSequenceIsLocal : 0;
    to->enqueued_ns = now.ns();
    to->comm = comm;
    to->sequence = event.sequence;
    to->launch = slot.launch;
    to->count = event.count;
    to->function = function;
    to->datatype = datatype;
    to->algorithm = algorithm;
    to->protocol = protocol;
    to->root = event.root;
    to->channels = event.channels;
    to->bytes = 0;
    to->operation = operation;
    to->reduction = reduction;
  }
  slot.ring.Commit();
  return OperationHandle(operation);
}

// Its copies are launched between its start and its stop.
void* NcclSource::CopyEngineCollective(ThreadSlot& slot, uint64_t comm, const NcclEvent& event,
                                       uint64_t operation) {
  const uint64_t launch_of_kernel = slot.launch;
  slot.launch = 0;
  void* launch = LaunchStarts(slot);
  Collective(slot, comm, event, operation);
  slot.launch = launch_of_kernel;
  return launch;
}

void* NcclSource::PointToPoint(ThreadSlot& slot, uint64_t comm, const NcclEvent& event, uint64_t operation) {
  const HostTime now = clock_.now();
  const uint16_t direction = DirectionOf(event);
  // Operations outside the window count too, because the peers must agree on the numbers of those inside.
  const uint64_t sequence = NextInPair(comm, event.peer, direction);
  if (!window_.Contains(now)) {
    ++slot.outside;
    return &g_nothing_to_stop;
  }
  const uint32_t datatype = Intern(slot, event.datatype);
  if (operation == 0) operation = NewOperation();
  if (auto* to = slot.ring.New<ring::PointToPointRecord>()) {
    to->header.flags = direction;
    to->enqueued_ns = now.ns();
    to->comm = comm;
    to->sequence = sequence;
    to->launch = slot.launch;
    to->count = event.count;
    to->datatype = datatype;
    to->peer = event.peer;
    to->bytes = 0;
    to->operation = operation;
  }
  slot.ring.Commit();
  return OperationHandle(operation);
}

}  // namespace lockstep::client
