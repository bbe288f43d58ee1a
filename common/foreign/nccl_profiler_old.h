// NCCL's profiler plugin ABI, versions 1 to 3 (NCCL 2.23 to 2.26): our own declarations; see nccl_profiler.h
// for the newer ones and what holds for all. In these an event names its communicator itself, for init tells
// nothing of it.
#ifndef LOCKSTEP_COMMON_FOREIGN_NCCL_PROFILER_OLD_H_
#define LOCKSTEP_COMMON_FOREIGN_NCCL_PROFILER_OLD_H_

#include <cstddef>
#include <cstdint>

#include "common/foreign/nccl_profiler.h"

namespace lockstep::foreign::nccl {

// In all three the type is one byte and the seven behind it are anything.
struct EventDescriptorV1 {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    struct {
      const char* name;  // of the communicator
      uint64_t comm;
      uint64_t sequence;
      uint8_t function;  // FunctionV1
      const void* send_buffer;
      void* recv_buffer;
      size_t count;
      int32_t root;
      uint8_t datatype;  // as ncclDataType_t counts
      uint32_t reduction;
      size_t traffic_bytes;
      uint8_t max_channels;
      uint8_t warps;
      uint8_t algorithm;  // tree 0, ring 1
      uint8_t protocol;   // LL 0, LL128 1, simple 2
      int32_t is_collnet;
      int32_t is_nvls;
    } coll;
    struct {
      const char* name;
      uint64_t comm;
      uint8_t function;
      void* buffer;
      uint8_t datatype;
      size_t count;
      int32_t peer;
    } p2p;
    decltype(EventDetail::proxy_op) proxy_op;
    decltype(EventDetail::proxy_step) proxy_step;
  };
};
static_assert(sizeof(EventDescriptorV1) == 120);

enum class FunctionV1 : uint8_t {
  kBroadcast = 0,
  kReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllReduce = 4,
  kSend = 6,
  kRecv = 7
};

struct EventDescriptorV2 {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    struct {
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
      uint8_t max_channels;
      uint8_t warps;
      const char* algorithm;
      const char* protocol;
    } coll;
    struct {
      const char* name;
      uint64_t comm;
      const char* function;
      void* buffer;
      const char* datatype;
      size_t count;
      int32_t peer;
    } p2p;
    decltype(EventDetail::proxy_op) proxy_op;
    decltype(EventDetail::proxy_step) proxy_step;
  };
};
static_assert(sizeof(EventDescriptorV2) == 128);

struct EventDescriptorV3 {
  uint8_t type;
  void* parent;
  int32_t rank;
  union {
    struct {
      const char* name;
      uint64_t comm;
      uint64_t sequence;
      const char* function;
      const void* send_buffer;
      void* recv_buffer;
      size_t count;
      int32_t root;
      const char* datatype;
      uint8_t max_channels;
      uint8_t warps;
      const char* algorithm;
      const char* protocol;
    } coll;
    decltype(EventDescriptorV2::p2p) p2p;
    decltype(EventDetail::proxy_op) proxy_op;
    decltype(EventDetail::proxy_step) proxy_step;
    struct {
      uint8_t channel;
    } kernel_channel;
  };
};
static_assert(sizeof(EventDescriptorV3) == 120);
static_assert(offsetof(EventDescriptorV1, coll.function) == 48 &&
              offsetof(EventDescriptorV1, coll.root) == 80);
static_assert(offsetof(EventDescriptorV2, coll.traffic_bytes) == 96 &&
              offsetof(EventDescriptorV2, coll.algorithm) == 112);
static_assert(offsetof(EventDescriptorV3, coll.max_channels) == 96 &&
              offsetof(EventDescriptorV3, coll.protocol) == 112);
static_assert(offsetof(EventDescriptorV2, p2p.function) == 40 && offsetof(EventDescriptorV2, p2p.peer) == 72);

using InitV1Fn = Result (*)(void** context, int32_t* mask);

template <typename Descriptor>
struct ProfilerOld {
  const char* name;
  InitV1Fn init;
  Result (*start_event)(void* context, void** handle, Descriptor*);
  StopEventFn stop_event;
  // Its arguments are other ones before v4.
  Result (*record_event_state)(void* handle, EventState, void* arguments);
  FinalizeFn finalize;
};
using ProfilerV1 = ProfilerOld<EventDescriptorV1>;
using ProfilerV2 = ProfilerOld<EventDescriptorV2>;
using ProfilerV3 = ProfilerOld<EventDescriptorV3>;
static_assert(sizeof(ProfilerV1) == 48);

}  // namespace lockstep::foreign::nccl

#endif  // LOCKSTEP_COMMON_FOREIGN_NCCL_PROFILER_OLD_H_
