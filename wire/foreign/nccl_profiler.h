// Our declarations of NCCL's profiler plugin ABI, versions 4, 5 and 6 (NCCL 2.27, 2.28, 2.29+).
// nccl_profiler_old.h has versions 1 to 3. NCCL looks up ncclProfiler_v6, _v5, _v4 … in the library that
// NCCL_PROFILER_PLUGIN names, and uses the newest version that it knows.
//
// An event's descriptor is valid only during start_event. The activation mask is one int per process, and
// NCCL reads it at every call. NCCL calls nothing while it is 0. A stop may come for an event that started
// before the mask was cleared, so handles must stay valid until the process ends.
#ifndef LOCKSTEP_WIRE_FOREIGN_NCCL_PROFILER_H_
#define LOCKSTEP_WIRE_FOREIGN_NCCL_PROFILER_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::foreign::nccl {

enum class Result : int32_t { kSuccess = 0, kInternalError = 3, kInvalidArgument = 4 };

// Bits of the activation mask, and the type of an event. If a bit is set, NCCL also emits the events that
// enclose events of this type.
enum EventType : uint32_t {
  kEventGroup = 1u << 0,
  kEventColl = 1u << 1,
  kEventP2p = 1u << 2,
  kEventProxyOp = 1u << 3,
  kEventProxyStep = 1u << 4,
  kEventProxyCtrl = 1u << 5,
  kEventKernelChannel = 1u << 6,
  kEventNetPlugin = 1u << 7,
  kEventGroupApi = 1u << 8,  // since v5, with the next three
  kEventCollApi = 1u << 9,
  kEventP2pApi = 1u << 10,
  kEventKernelLaunch = 1u << 11,
  kEventCeColl = 1u << 12,  // since v6, with the next two
  kEventCeSync = 1u << 13,
  kEventCeBatch = 1u << 14,
};

enum class EventState : uint32_t {
  kProxyStepSendGpuWait = 8,
  kProxyStepSendWait = 9,
  kProxyStepRecvWait = 10,
  kProxyStepRecvFlushWait = 11,
  kProxyStepRecvGpuWait = 12,
  kProxyOpInProgress = 19,
  kProxyStepSendPeerWait = 20,
  kNetPluginUpdate = 21,  // since v3, with the next three
  kKernelChannelStop = 22,
  kGroupStartApiStop = 23,
  kGroupEndApiStart = 24,
};

// The plugin may ignore the logger.
using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

// The part of a descriptor that depends on its type. v4, v5 and v6 have the same offsets.
union EventDetail {
  struct {
    uint64_t sequence;  // per (communicator, function)
    const char* function;
    const void* send_buffer;
    void* recv_buffer;
    size_t count;  // AllGather and Broadcast: bytes, with datatype ncclInt8
    int32_t root;
    const char* datatype;
    uint8_t channels;
    uint8_t warps;
    const char* algorithm;
    const char* protocol;
    void* parent_group;  // v5
  } coll;
  struct {
    const char* function;  // "Send" or "Recv"
    void* buffer;
    const char* datatype;
    size_t count;
    int32_t peer;
    uint8_t channels;
    void* parent_group;  // v5
  } p2p;
  struct {
    int32_t pid;  // of the process that owns the parent; with PXN it is not this one
    uint8_t channel;
    int32_t peer;
    int32_t steps;
    int32_t chunk_bytes;
    int32_t is_send;
  } proxy_op;
  struct {
    int32_t step;
  } proxy_step;
  struct {
    uint8_t channel;
    uint64_t gpu_timer_ns;
  } kernel_channel;
  struct {
    bool graph_captured;
    int32_t group_depth;
  } group_api;
  struct {
    const char* function;
    size_t count;
    const char* datatype;
    int32_t root;
    void* stream;
    bool graph_captured;
  } coll_api;
  struct {
    const char* function;
    size_t count;
    const char* datatype;
    void* stream;
    bool graph_captured;
  } p2p_api;
  struct {
    void* stream;
  } kernel_launch;
  struct {              // v6
    uint64_t sequence;  // per communicator, of operations on the copy engines
    const char* function;
    const void* send_buffer;
    void* recv_buffer;
    size_t count;
    int32_t root;
    const char* datatype;
    const char* synchronization;  // "MC" (multicast) or "UC"
    bool synchronizes_in_batch;
    uint32_t batch_size;
    uint32_t batches;
    uint32_t ce_sequence;
    void* stream;
  } ce_coll;
};

// v4 declares the type as one byte and leaves the other seven undefined, so mask it.
struct EventDescriptorV4 {
  uint8_t type;
  void* parent;  // handle of the enclosing event, from start_event
  int32_t rank;
  EventDetail detail;  // without the parent_group fields in v4
};

struct EventDescriptor {  // v5 and v6
  uint64_t type;
  void* parent;
  int32_t rank;
  EventDetail detail;
};
static_assert(sizeof(EventDescriptor) == 112);
static_assert(offsetof(EventDescriptor, parent) == 8 && offsetof(EventDescriptor, rank) == 16);
static_assert(offsetof(EventDescriptor, detail) == 24 && offsetof(EventDescriptorV4, detail) == 24);
static_assert(offsetof(EventDetail, coll.function) == 8 && offsetof(EventDetail, coll.count) == 32);
static_assert(offsetof(EventDetail, coll.root) == 40 && offsetof(EventDetail, coll.datatype) == 48);
static_assert(offsetof(EventDetail, coll.channels) == 56 && offsetof(EventDetail, coll.algorithm) == 64);
static_assert(offsetof(EventDetail, coll.parent_group) == 80);
static_assert(offsetof(EventDetail, p2p.count) == 24 && offsetof(EventDetail, p2p.peer) == 32);
static_assert(offsetof(EventDetail, p2p.channels) == 36 && offsetof(EventDetail, p2p.parent_group) == 40);
static_assert(offsetof(EventDetail, proxy_op.channel) == 4 && offsetof(EventDetail, proxy_op.peer) == 8);
static_assert(offsetof(EventDetail, kernel_channel.gpu_timer_ns) == 8);
static_assert(offsetof(EventDetail, group_api.group_depth) == 4);
static_assert(offsetof(EventDetail, coll_api.root) == 24 && offsetof(EventDetail, coll_api.stream) == 32);
static_assert(offsetof(EventDetail, coll_api.graph_captured) == 40);
static_assert(offsetof(EventDetail, ce_coll.root) == 40 && offsetof(EventDetail, ce_coll.datatype) == 48);
static_assert(offsetof(EventDetail, ce_coll.synchronization) == 56 &&
              offsetof(EventDetail, ce_coll.stream) == 80);
static_assert(offsetof(EventDetail, p2p_api.stream) == 24 &&
              offsetof(EventDetail, p2p_api.graph_captured) == 32);

union EventStateArgs {
  size_t transferred_bytes;
  int32_t appended_proxy_ops;
  void* net_plugin_data;
  uint64_t gpu_timer_ns;
};
static_assert(sizeof(EventStateArgs) == 8);

// start_event must always write *handle, because NCCL passes its value back.
using StartEventV4Fn = Result (*)(void* context, void** handle, EventDescriptorV4*);
using StartEventFn = Result (*)(void* context, void** handle, EventDescriptor*);
using StopEventFn = Result (*)(void* handle);
using RecordEventStateFn = Result (*)(void* handle, EventState, EventStateArgs*);
using FinalizeFn = Result (*)(void* context);

// NCCL calls it once per communicator, before the communicator's proxy thread starts. `comm_name` may be
// null.
using InitV4Fn = Result (*)(void** context, int32_t* mask, const char* comm_name, uint64_t comm_id,
                            int32_t nodes, int32_t ranks, int32_t rank, Logger);
using InitFn = Result (*)(void** context, uint64_t comm_id, int32_t* mask, const char* comm_name,
                          int32_t nodes, int32_t ranks, int32_t rank, Logger);

struct ProfilerV4 {
  const char* name;
  InitV4Fn init;
  StartEventV4Fn start_event;
  StopEventFn stop_event;
  RecordEventStateFn record_event_state;
  FinalizeFn finalize;
};

// The struct behind ncclProfiler_v5 and ncclProfiler_v6.
struct Profiler {
  const char* name;
  InitFn init;
  StartEventFn start_event;
  StopEventFn stop_event;
  RecordEventStateFn record_event_state;
  FinalizeFn finalize;
};
static_assert(sizeof(Profiler) == 48 && sizeof(ProfilerV4) == 48);

}  // namespace lockstep::foreign::nccl

#endif  // LOCKSTEP_WIRE_FOREIGN_NCCL_PROFILER_H_
