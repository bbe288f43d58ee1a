// An event of NCCL's profiler plugin in the form that NcclSource takes, for all versions of the plugin ABI.
#ifndef LOCKSTEP_CLIENT_NCCL_NCCL_EVENT_H_
#define LOCKSTEP_CLIENT_NCCL_NCCL_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nccl_profiler_old.h"
#include "wire/ring/record.h"

namespace lockstep::client {

// Says whether all ranks of the group have the same sequence number for an operation.
enum class Sequence : uint8_t { kOfTheGroup, kOfThisRank };

// Texts belong to NCCL and are valid only during the call. A field is null or 0 if the version or the type
// does not provide it.
struct NcclEvent {
  uint64_t type = 0;  // foreign::nccl::EventType
  void* parent = nullptr;
  // ---- kEventColl, kEventP2p, kEventCeColl; the first fields also kEventCollApi, kEventP2pApi ----
  uint64_t comm = 0;  // only before version 4, where init does not provide it
  const char* comm_name = nullptr;
  int32_t rank = -1;  // in the communicator
  const char* function = nullptr;
  const char* datatype = nullptr;
  const char* algorithm = nullptr;
  const char* protocol = nullptr;
  const char* reduction = nullptr;
  uint64_t sequence = 0;
  Sequence sequence_of = Sequence::kOfTheGroup;
  uint64_t count = 0;
  int32_t root = 0;
  int32_t peer = -1;
  uint32_t channels = 0;
  // ---- kEventProxyStep ----
  uint32_t step = 0;  // in its operation
  // ---- kEventProxyOp, kEventKernelChannel ----
  uint32_t channel = 0;
  int32_t pid = 0;  // of the process that owns the parent
  uint32_t steps = 0;
  uint32_t chunk_bytes = 0;
  bool is_send = false;
  uint64_t gpu_timer_ns = 0;
};

template <size_t n>
const char* NcclText(const char* const (&texts)[n], size_t number) {
  return number < n ? texts[number] : nullptr;
}

template <typename Descriptor>
NcclEvent EventHead(const Descriptor& from) {
  NcclEvent event;
  event.type = from.type;
  event.parent = from.parent;
  event.rank = from.rank;
  return event;
}

template <typename Op>
void TakeProxyOp(const Op& op, NcclEvent& event) {
  event.pid = op.pid;
  event.channel = op.channel;
  event.peer = op.peer;
  event.steps = static_cast<uint32_t>(op.steps);
  event.chunk_bytes = static_cast<uint32_t>(op.chunk_bytes);
  event.is_send = op.is_send != 0;
}

inline NcclEvent EventOf(const foreign::nccl::EventDescriptorV1& from) {
  namespace nccl = foreign::nccl;
  NcclEvent event = EventHead(from);
  if (event.type == nccl::kEventColl) {
    event.comm = from.coll.comm;
    event.comm_name = from.coll.name;
    event.function = NcclText(nccl::kFunctions, from.coll.function);
    event.datatype = NcclText(nccl::kDatatypes, from.coll.datatype);
    event.algorithm = NcclText(nccl::kAlgorithms, from.coll.algorithm);
    event.protocol = NcclText(nccl::kProtocols, from.coll.protocol);
    // Functions that do not reduce leave this field undefined.
    if (event.function != nullptr && std::strstr(event.function, "Reduce") != nullptr)
      event.reduction = nccl::ReductionName(from.coll.reduction);
    event.sequence = from.coll.sequence;
    event.sequence_of = Sequence::kOfThisRank;
    event.count = from.coll.count;
    event.root = from.coll.root;
    event.channels = from.coll.channels;
  } else if (event.type == nccl::kEventP2p) {
    event.comm = from.p2p.comm;
    event.comm_name = from.p2p.name;
    event.function = NcclText(nccl::kFunctions, from.p2p.function);
    event.datatype = NcclText(nccl::kDatatypes, from.p2p.datatype);
    event.count = from.p2p.count;
    event.peer = from.p2p.peer;
  } else if (event.type == nccl::kEventProxyOp) {
    TakeProxyOp(from.proxy_op, event);
  } else if (event.type == nccl::kEventProxyStep) {
    event.step = static_cast<uint32_t>(from.proxy_step);
  }
  return event;
}

// For versions 2 and 3, whose fields have the same names.
template <typename Descriptor>
NcclEvent EventOfTexts(const Descriptor& from, Sequence sequence_of) {
  namespace nccl = foreign::nccl;
  NcclEvent event = EventHead(from);
  if (event.type == nccl::kEventColl) {
    event.comm = from.coll.comm;
    event.comm_name = from.coll.name;
    event.function = from.coll.function;
    event.datatype = from.coll.datatype;
    event.algorithm = from.coll.algorithm;
    event.protocol = from.coll.protocol;
    event.sequence = from.coll.sequence;
    event.sequence_of = sequence_of;
    event.count = from.coll.count;
    event.root = from.coll.root;
    event.channels = from.coll.channels;
  } else if (event.type == nccl::kEventP2p) {
    event.comm = from.p2p.comm;
    event.comm_name = from.p2p.name;
    event.function = from.p2p.function;
    event.datatype = from.p2p.datatype;
    event.count = from.p2p.count;
    event.peer = from.p2p.peer;
  } else if (event.type == nccl::kEventProxyOp) {
    TakeProxyOp(from.proxy_op, event);
  } else if (event.type == nccl::kEventProxyStep) {
    event.step = static_cast<uint32_t>(from.proxy_step);
  }
  return event;
}

inline NcclEvent EventOf(const foreign::nccl::EventDescriptorV2& from) {
  return EventOfTexts(from, Sequence::kOfThisRank);
}

inline NcclEvent EventOf(const foreign::nccl::EventDescriptorV3& from) {
  NcclEvent event = EventOfTexts(from, Sequence::kOfTheGroup);
  if (event.type == foreign::nccl::kEventKernelChannel) event.channel = from.kernel_channel;
  return event;
}

// Returns the direction of a message, as the flag of its record.
inline uint16_t DirectionOf(const NcclEvent& message) {
  return message.function != nullptr && std::strcmp(message.function, "Send") == 0 ? ring::kP2pSend : 0;
}

// Copies the fields that version 4 and later versions share.
inline void TakeDetail(const foreign::nccl::EventDetail& detail, NcclEvent& event) {
  namespace nccl = foreign::nccl;
  if (event.type == nccl::kEventColl) {
    event.function = detail.coll.function;
    event.datatype = detail.coll.datatype;
    event.algorithm = detail.coll.algorithm;
    event.protocol = detail.coll.protocol;
    event.sequence = detail.coll.sequence;
    event.count = detail.coll.count;
    event.root = detail.coll.root;
    event.channels = detail.coll.channels;
  } else if (event.type == nccl::kEventP2p) {
    event.function = detail.p2p.function;
    event.datatype = detail.p2p.datatype;
    event.count = detail.p2p.count;
    event.peer = detail.p2p.peer;
    event.channels = detail.p2p.channels;
  } else if (event.type == nccl::kEventProxyOp) {
    TakeProxyOp(detail.proxy_op, event);
  } else if (event.type == nccl::kEventProxyStep) {
    event.step = static_cast<uint32_t>(detail.proxy_step.step);
  } else if (event.type == nccl::kEventKernelChannel) {
    event.channel = detail.kernel_channel.channel;
    event.gpu_timer_ns = detail.kernel_channel.gpu_timer_ns;
  } else if (event.type == nccl::kEventCeColl) {
    event.function = detail.ce_coll.function;
    event.datatype = detail.ce_coll.datatype;
    event.algorithm = "CopyEngine";
    event.protocol = detail.ce_coll.synchronization;
    event.sequence = detail.ce_coll.sequence;
    event.count = detail.ce_coll.count;
    event.root = detail.ce_coll.root;
  } else if (event.type == nccl::kEventCollApi) {
    event.function = detail.coll_api.function;
    event.datatype = detail.coll_api.datatype;
    event.count = detail.coll_api.count;
    event.root = detail.coll_api.root;
  } else if (event.type == nccl::kEventP2pApi) {
    event.function = detail.p2p_api.function;
    event.datatype = detail.p2p_api.datatype;
    event.count = detail.p2p_api.count;
  }
}

inline NcclEvent EventOf(const foreign::nccl::EventDescriptorV4& from) {
  NcclEvent event = EventHead(from);
  TakeDetail(from.detail, event);
  return event;
}

inline NcclEvent EventOf(const foreign::nccl::EventDescriptor& from) {
  NcclEvent event = EventHead(from);
  TakeDetail(from.detail, event);
  return event;
}

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_NCCL_EVENT_H_
