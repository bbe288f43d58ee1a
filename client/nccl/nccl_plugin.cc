#include "client/nccl/nccl_plugin.h"

#include <unistd.h>

namespace lockstep::client {
namespace {

namespace nccl = foreign::nccl;

// NCCL's tables carry no user data, so these are globals.
NcclSource* g_source = nullptr;
void (*g_on_init)() = nullptr;
NcclChain* g_chain = nullptr;  // null: no chained plugin
// The context of a communicator for which we have no place and which the chained plugin refused.
char g_unknown_communicator;

// The ABI of each version: its descriptor, its state arguments and its table.
template <int version>
struct Abi;
template <>
struct Abi<1> {
  using Descriptor = nccl::EventDescriptorV1;
  using Args = nccl::EventStateArgsOld;
  using Table = nccl::ProfilerV1;
  static const Table& Own() { return ncclProfiler_v1; }
};
template <>
struct Abi<2> {
  using Descriptor = nccl::EventDescriptorV2;
  using Args = nccl::EventStateArgsOld;
  using Table = nccl::ProfilerV2;
  static const Table& Own() { return ncclProfiler_v2; }
};
template <>
struct Abi<3> {
  using Descriptor = nccl::EventDescriptorV3;
  using Args = nccl::EventStateArgsOld;
  using Table = nccl::ProfilerV3;
  static const Table& Own() { return ncclProfiler_v3; }
};
template <>
struct Abi<4> {
  using Descriptor = nccl::EventDescriptorV4;
  using Args = nccl::EventStateArgs;
  using Table = nccl::ProfilerV4;
  static const Table& Own() { return ncclProfiler_v4; }
};
template <>
struct Abi<5> {
  using Descriptor = nccl::EventDescriptor;
  using Args = nccl::EventStateArgs;
  using Table = nccl::Profiler;
  static const Table& Own() { return ncclProfiler_v5; }
};
template <>
struct Abi<6> : Abi<5> {
  static const Table& Own() { return ncclProfiler_v6; }
};

// Returns the chained plugin's table while NCCL uses this version of ours; null: no chained plugin.
template <int version>
const typename Abi<version>::Table* ChainedTable() {
  if (g_chain == nullptr) return nullptr;
  return static_cast<const typename Abi<version>::Table*>(g_chain->InUse(version));
}

// Initialises the chained plugin by call(table, &its context), then ours by make().
template <int version, typename Call, typename Make>
nccl::Result InitBoth(void** context, Call call, Make make) {
  if (g_on_init != nullptr) g_on_init();
  const auto* chained =
      g_chain == nullptr
          ? nullptr
          : static_cast<const typename Abi<version>::Table*>(g_chain->Table(version, &Abi<version>::Own()));
  void* chained_context = nullptr;
  bool joined = false;
  if (chained != nullptr) {
    g_source->SetChained();
    joined = call(*chained, &chained_context) == nccl::Result::kSuccess;
  }
  NcclSource::Communicator* ours = make();
  *context = ours;
  if (ours != nullptr) {
    ours->chained = chained_context;
    ours->is_chained = joined;
  } else if (chained != nullptr) {
    *context = joined ? chained_context : &g_unknown_communicator;
  }
  return nccl::Result::kSuccess;
}

template <int version>
nccl::Result Init(void** context, uint64_t comm_id, int32_t* mask, const char* comm_name, int32_t nodes,
                  int32_t ranks, int32_t rank, nccl::Logger logger) {
  return InitBoth<version>(
      context,
      [&](const nccl::Profiler& chained, void** chained_context) {
        return chained.init(chained_context, comm_id, mask, comm_name, nodes, ranks, rank, logger);
      },
      [&] { return g_source->OnInit(comm_id, mask, comm_name, nodes, ranks, rank); });
}

nccl::Result InitV4(void** context, int32_t* mask, const char* comm_name, uint64_t comm_id, int32_t nodes,
                    int32_t ranks, int32_t rank, nccl::Logger logger) {
  return InitBoth<4>(
      context,
      [&](const nccl::ProfilerV4& chained, void** chained_context) {
        return chained.init(chained_context, mask, comm_name, comm_id, nodes, ranks, rank, logger);
      },
      [&] { return g_source->OnInit(comm_id, mask, comm_name, nodes, ranks, rank); });
}

template <int version>
nccl::Result InitOld(void** context, int32_t* mask) {
  return InitBoth<version>(
      context,
      [&](const auto& chained, void** chained_context) { return chained.init(chained_context, mask); },
      [&] { return g_source->OnInitUnnamed(mask); });
}

// Replaces each parent in a descriptor by the chained plugin's handle while that plugin reads it.
template <int version>
class ChainedParents {
 public:
  using Descriptor = typename Abi<version>::Descriptor;
  explicit ChainedParents(Descriptor& event) : event_(event), parent_(event.parent) {
    event.parent = g_chain->Split(parent_).chained;
    if (void** group = Group()) {
      group_ = *group;
      *group = g_chain->Split(group_).chained;
    }
  }
  ~ChainedParents() {
    event_.parent = parent_;
    if (void** group = Group()) *group = group_;
  }
  ChainedParents(const ChainedParents&) = delete;
  ChainedParents& operator=(const ChainedParents&) = delete;

 private:
  void** Group() {
    if constexpr (version >= 5) {
      if (event_.type == nccl::kEventColl) return &event_.detail.coll.parent_group;
      if (event_.type == nccl::kEventP2p) return &event_.detail.p2p.parent_group;
    }
    return nullptr;
  }
  Descriptor& event_;
  void* parent_;
  void* group_ = nullptr;
};

// Returns the chained plugin's handle, or null if it did not request the event.
template <int version>
void* StartChained(const typename Abi<version>::Table& chained, void* context, NcclSource::Communicator* ours,
                   typename Abi<version>::Descriptor& event, bool parent_is_here) {
  const bool joined = ours != nullptr ? ours->is_chained : context != &g_unknown_communicator;
  if (!joined || !g_source->ChainedWants(event.type)) return nullptr;
  void* chained_context = ours != nullptr ? ours->chained : context;
  void* handle = nullptr;
  if (parent_is_here) {
    const ChainedParents<version> parents(event);
    chained.start_event(chained_context, &handle, &event);
  } else {
    chained.start_event(chained_context, &handle, &event);
  }
  return handle;
}

template <int version>
nccl::Result StartEvent(void* context, void** handle, typename Abi<version>::Descriptor* event) {
  NcclSource::Communicator* ours =
      g_source->Owns(context) ? static_cast<NcclSource::Communicator*>(context) : nullptr;
  NcclEvent taken = EventOf(*event);
  if (g_chain == nullptr) {
    *handle = g_source->OnStart(ours, taken);
    return nccl::Result::kSuccess;
  }
  // With PXN, the parent of a network operation may be a handle of another process.
  const bool parent_is_here = taken.type != nccl::kEventProxyOp || taken.pid == ::getpid();
  if (parent_is_here) taken.parent = g_chain->Split(taken.parent).ours;
  const auto* chained_table = ChainedTable<version>();
  void* chained = chained_table == nullptr
                      ? nullptr
                      : StartChained<version>(*chained_table, context, ours, *event, parent_is_here);
  if (chained == nullptr) {
    *handle = NcclChain::Ours(g_source->OnStart(ours, taken));
    return nccl::Result::kSuccess;
  }
  // The place comes first, because an event that ours starts must also be stopped.
  void* pair = g_source->asking() ? g_chain->NewPair({nullptr, chained}) : nullptr;
  if (pair != nullptr) {
    g_chain->SetOurs(pair, g_source->OnStart(ours, taken));
    *handle = pair;
    return nccl::Result::kSuccess;
  }
  g_source->CountNoPlace(taken.type);
  if (NcclChain::IsPlain(chained)) {
    *handle = chained;
  } else {
    // This handle looks like ours, so it could not be recognised later.
    chained_table->stop_event(chained);
    *handle = NcclChain::Ours(nullptr);
  }
  return nccl::Result::kSuccess;
}

template <int version>
nccl::Result StopEvent(void* handle) {
  if (g_chain == nullptr) {
    g_source->OnStop(handle);
    return nccl::Result::kSuccess;
  }
  const NcclChain::Pair pair = g_chain->Stop(handle);
  const auto* chained_table = ChainedTable<version>();
  if (pair.chained != nullptr && chained_table != nullptr) chained_table->stop_event(pair.chained);
  if (pair.ours != nullptr) g_source->OnStop(pair.ours);
  return nccl::Result::kSuccess;
}

uint64_t ValueOf(const nccl::EventStateArgs* args) { return args == nullptr ? 0 : args->gpu_timer_ns; }
uint64_t ValueOf(const nccl::EventStateArgsOld* args) {
  return args == nullptr ? 0 : args->transferred_bytes;
}

template <int version>
nccl::Result RecordEventState(void* handle, nccl::EventState state, typename Abi<version>::Args* args) {
  void* ours = handle;
  if (g_chain != nullptr) {
    const NcclChain::Pair pair = g_chain->Split(handle);
    const auto* chained_table = ChainedTable<version>();
    if (pair.chained != nullptr && chained_table != nullptr)
      chained_table->record_event_state(pair.chained, state, args);
    ours = pair.ours;
  }
  const bool timer = state == nccl::EventState::kKernelChannelStop;
  const uint64_t value = ValueOf(args);
  g_source->OnState(ours, static_cast<uint32_t>(state), timer ? 0 : value, timer ? value : 0);
  return nccl::Result::kSuccess;
}

template <int version>
nccl::Result Finalize(void* context) {
  const auto* chained_table = ChainedTable<version>();
  if (g_source->Owns(context)) {
    auto* ours = static_cast<NcclSource::Communicator*>(context);
    if (chained_table != nullptr && ours->is_chained) chained_table->finalize(ours->chained);
    g_source->OnFinalize(ours);
  } else if (chained_table != nullptr && context != &g_unknown_communicator) {
    chained_table->finalize(context);
  }
  return nccl::Result::kSuccess;
}

template <int version>
constexpr typename Abi<version>::Table kOldTable = {
    "lockstep",         InitOld<version>,          StartEvent<version>,
    StopEvent<version>, RecordEventState<version>, Finalize<version>};
template <int version>
constexpr nccl::Profiler kTable = {
    "lockstep",       Init<version>, StartEvent<version>, StopEvent<version>, RecordEventState<version>,
    Finalize<version>};
constexpr nccl::ProfilerV4 kTableV4 = {"lockstep",          InitV4,     StartEvent<4>, StopEvent<4>,
                                       RecordEventState<4>, Finalize<4>};

}  // namespace

void SetNcclSource(NcclSource& source, void (*on_init)()) {
  g_source = &source;
  g_on_init = on_init;
}

void SetNcclChain(NcclChain* chain) { g_chain = chain != nullptr && chain->wanted() ? chain : nullptr; }

}  // namespace lockstep::client

#define LOCKSTEP_PROFILER extern "C" __attribute__((visibility("default"))) constinit const

namespace client = lockstep::client;
namespace nccl = lockstep::foreign::nccl;
LOCKSTEP_PROFILER nccl::ProfilerV1 ncclProfiler_v1 = client::kOldTable<1>;
LOCKSTEP_PROFILER nccl::ProfilerV2 ncclProfiler_v2 = client::kOldTable<2>;
LOCKSTEP_PROFILER nccl::ProfilerV3 ncclProfiler_v3 = client::kOldTable<3>;
LOCKSTEP_PROFILER nccl::ProfilerV4 ncclProfiler_v4 = client::kTableV4;
LOCKSTEP_PROFILER nccl::Profiler ncclProfiler_v5 = client::kTable<5>;
LOCKSTEP_PROFILER nccl::Profiler ncclProfiler_v6 = client::kTable<6>;
