// Our declarations of NCCL's profiler plugin ABI, versions 1, 2 and 3 (NCCL 2.23, 2.24 and 2.25, 2.26).
// nccl_profiler.h has the parts that all versions share.
//
// These versions differ from version 4. init receives no communicator, so every collective and message has
// the communicator's id and name. The type is one byte, and the seven bytes after it are undefined. Version 1
// has numbers instead of texts, and it is the only one with the reduction operation.
//
// Before NCCL 2.26 (versions 1 and 2) a collective's sequence number advances only while events are emitted.
// Ranks that started to record at different times therefore disagree on it.
#ifndef LOCKSTEP_WIRE_FOREIGN_NCCL_PROFILER_OLD_H_
#define LOCKSTEP_WIRE_FOREIGN_NCCL_PROFILER_OLD_H_

#include <cstddef>
#include <cstdint>

#include "wire/foreign/nccl_profiler.h"

namespace lockstep::foreign::nccl {

// The names for version 1's numbers (NCCL's own): functions, data types, algorithms, protocols.
inline constexpr const char* kFunctions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                             "AllReduce", "SendRecv", "Send",      "Recv"};
inline constexpr const char* kDatatypes[] = {
    "ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",   "ncclInt64",      "ncclUint64",
    "ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
inline constexpr const char* kAlgorithms[] = {"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                              "NVLS_TREE", "PAT"};
inline constexpr const char* kProtocols[] = {"LL", "LL128", "SIMPLE"};
// Returns the name of an ncclRedOp_t, as in NCCL's NVTX enumeration. Higher numbers are operations that the
// application made, and NCCL can only make PreMulSum.
constexpr const char* ReductionName(uint64_t number) {
  constexpr const char* kNames[] = {"Sum", "Product", "Max", "Min", "Avg"};
  return number < 5 ? kNames[number] : "PreMulSum";
}

struct CollectiveV1 {
  const char* name;  // name of the communicator; may be null
  uint64_t comm;
  uint64_t sequence;
  uint8_t function;
  const void* send_buffer;
  void* recv_buffer;
  size_t count;
  int32_t root;
  uint8_t datatype;
  uint32_t reduction;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  uint8_t algorithm;
  uint8_t protocol;
  int32_t is_collnet;
  int32_t is_nvls;
};

struct CollectiveV2 {
  const char* name;
  uint64_t comm;
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* recv_buffer;
  size_t count;
  int32_t root;
  const char* datatype;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct CollectiveV3 {
  const char* name;
  uint64_t comm;
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* recv_buffer;
  size_t count;
  int32_t root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct MessageV1 {
  const char* name;
  uint64_t comm;
  uint8_t function;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int32_t peer;
};

// Messages of versions 2 and 3.
struct MessageV2 {
  const char* name;
  uint64_t comm;
  const char* function;
  void* buffer;
  const char* datatype;
  size_t count;
  int32_t peer;
};

struct ProxyOpOld {
  int32_t pid;
  uint8_t channel;
  int32_t peer;
  int32_t steps;
  int32_t chunk_bytes;
  int32_t is_send;
};

struct EventDescriptorV1 {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    CollectiveV1 coll;
    MessageV1 p2p;
    ProxyOpOld proxy_op;
    int32_t proxy_step;
  };
};

struct EventDescriptorV2 {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    CollectiveV2 coll;
    MessageV2 p2p;
    ProxyOpOld proxy_op;
    int32_t proxy_step;
  };
};

struct EventDescriptorV3 {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    CollectiveV3 coll;
    MessageV2 p2p;
    ProxyOpOld proxy_op;
    int32_t proxy_step;
    uint8_t kernel_channel;  // without the GPU's timer
    struct {
      int64_t id;
      void* data;
    } net_plugin;
  };
};

static_assert(sizeof(EventDescriptorV1) == 120 && sizeof(EventDescriptorV2) == 128 &&
              sizeof(EventDescriptorV3) == 120);
static_assert(offsetof(EventDescriptorV1, parent) == 8 && offsetof(EventDescriptorV1, rank) == 16);
static_assert(offsetof(EventDescriptorV1, coll) == 24 && offsetof(EventDescriptorV2, coll) == 24 &&
              offsetof(EventDescriptorV3, coll) == 24);
static_assert(offsetof(CollectiveV1, comm) == 8 && offsetof(CollectiveV1, function) == 24);
static_assert(offsetof(CollectiveV1, count) == 48 && offsetof(CollectiveV1, root) == 56);
static_assert(offsetof(CollectiveV1, datatype) == 60 && offsetof(CollectiveV1, reduction) == 64);
static_assert(offsetof(CollectiveV1, traffic_bytes) == 72 && offsetof(CollectiveV1, channels) == 80);
static_assert(offsetof(CollectiveV1, algorithm) == 82 && offsetof(CollectiveV1, is_nvls) == 88);
static_assert(offsetof(CollectiveV2, function) == 24 && offsetof(CollectiveV2, datatype) == 64);
static_assert(offsetof(CollectiveV2, traffic_bytes) == 72 && offsetof(CollectiveV2, channels) == 80);
static_assert(offsetof(CollectiveV2, algorithm) == 88 && offsetof(CollectiveV2, protocol) == 96);
static_assert(offsetof(CollectiveV3, channels) == 72 && offsetof(CollectiveV3, warps) == 73);
static_assert(offsetof(CollectiveV3, algorithm) == 80 && offsetof(CollectiveV3, protocol) == 88);
static_assert(offsetof(MessageV1, function) == 16 && offsetof(MessageV1, datatype) == 32);
static_assert(offsetof(MessageV2, function) == 16 && offsetof(MessageV2, buffer) == 24);
static_assert(offsetof(MessageV2, datatype) == 32 && offsetof(MessageV2, count) == 40 &&
              offsetof(MessageV2, peer) == 48);

// The same in versions 1 to 3. Only the kProxyOp… states before version 4 use `transferred_bytes`.
struct EventStateArgsOld {
  union {
    size_t transferred_bytes;
    int32_t appended_proxy_ops;
  };
  int32_t steps;
};
static_assert(sizeof(EventStateArgsOld) == 16);

// The states with transferred bytes in versions 1 to 3. In version 4, each step's kProxyStepSendWait and
// kProxyStepRecvFlushWait have them.
inline constexpr uint32_t kProxyOpSendTransmitted = 2;
inline constexpr uint32_t kProxyOpRecvReceived = 5;

using InitOldFn = Result (*)(void** context, int32_t* mask);
using RecordEventStateOldFn = Result (*)(void* handle, EventState, EventStateArgsOld*);

template <typename Descriptor>
struct ProfilerOld {
  const char* name;
  InitOldFn init;
  Result (*start_event)(void* context, void** handle, Descriptor*);
  StopEventFn stop_event;
  RecordEventStateOldFn record_event_state;
  FinalizeFn finalize;
};
using ProfilerV1 = ProfilerOld<EventDescriptorV1>;
using ProfilerV2 = ProfilerOld<EventDescriptorV2>;
using ProfilerV3 = ProfilerOld<EventDescriptorV3>;
static_assert(sizeof(ProfilerV1) == 48);

}  // namespace lockstep::foreign::nccl

#endif  // LOCKSTEP_WIRE_FOREIGN_NCCL_PROFILER_OLD_H_
