#include "wire/columns/schema.h"

namespace lockstep::columns {
namespace {

constexpr Encoding D = Encoding::kDelta;
constexpr Encoding P = Encoding::kPlain;

// Delta where neighbours are close and values large (stamps, correlation ids, graph nodes); plain where
// values are small or repeat.
constexpr Column kKernelColumns[] = {
    {"start", D},          {"duration", P}, {"correlation", D}, {"device", P},    {"context", P},
    {"stream", P},         {"name", P},     {"grid_x", P},      {"grid_y", P},    {"grid_z", P},
    {"block_x", P},        {"block_y", P},  {"block_z", P},     {"registers", P}, {"static_shared", P},
    {"dynamic_shared", P}, {"graph", P},    {"graph_node", D},  {"channel", P},
};
static_assert(std::size(kKernelColumns) == kernel::kColumns);

constexpr Column kMemcpyColumns[] = {
    {"start", D},      {"duration", P},  {"correlation", D}, {"device", P},     {"context", P}, {"stream", P},
    {"bytes", P},      {"copy_kind", P}, {"src_kind", P},    {"dst_kind", P},   {"flags", P},   {"graph", P},
    {"graph_node", D}, {"is_peer", P},   {"src_device", P},  {"dst_device", P},
};
static_assert(std::size(kMemcpyColumns) == memcpy::kColumns);

constexpr Column kMemsetColumns[] = {
    {"start", D}, {"duration", P}, {"correlation", D}, {"device", P}, {"context", P},    {"stream", P},
    {"bytes", P}, {"value", P},    {"memory_kind", P}, {"graph", P},  {"graph_node", D},
};
static_assert(std::size(kMemsetColumns) == memset::kColumns);

constexpr Column kApiColumns[] = {
    {"start", D},  {"duration", P}, {"correlation", D}, {"cbid", P},
    {"thread", P}, {"result", P},   {"is_driver", P},   {"name", P},
};
static_assert(std::size(kApiColumns) == api::kColumns);

constexpr Column kSyncColumns[] = {
    {"start", D},  {"duration", P}, {"correlation", D}, {"context", P},
    {"stream", P}, {"type", P},     {"event", P},
};
static_assert(std::size(kSyncColumns) == sync::kColumns);

constexpr Column kExternalCorrelationColumns[] = {{"external", D}, {"correlation", D}, {"external_kind", P}};
static_assert(std::size(kExternalCorrelationColumns) == external_correlation::kColumns);

constexpr Column kCudaEventColumns[] = {
    {"device_time", D}, {"correlation", D}, {"context", P}, {"stream", P}, {"event", P},
};
static_assert(std::size(kCudaEventColumns) == cuda_event::kColumns);

constexpr Column kOverheadColumns[] = {{"start", D}, {"duration", P}, {"overhead_kind", P}, {"thread", P}};
static_assert(std::size(kOverheadColumns) == overhead::kColumns);

constexpr Column kRangeColumns[] = {
    {"start", D},  {"duration", P}, {"name", P},    {"domain", P},
    {"thread", P}, {"depth", P},    {"payload", P}, {"flags", P},
};
static_assert(std::size(kRangeColumns) == range::kColumns);

constexpr Column kCommunicatorColumns[] = {
    {"comm", P}, {"name", P}, {"rank", D}, {"ranks", P}, {"nodes", P}, {"device", P},
};
static_assert(std::size(kCommunicatorColumns) == communicator::kColumns);

constexpr Column kCollectiveColumns[] = {
    {"enqueued", D}, {"comm", D},     {"sequence", D},  {"launch", D},    {"count", P},
    {"function", P}, {"datatype", P}, {"algorithm", P}, {"protocol", P},  {"root", D},
    {"channels", P}, {"flags", P},    {"bytes", P},     {"operation", D}, {"reduction", P},
};
static_assert(std::size(kCollectiveColumns) == collective::kColumns);

constexpr Column kPointToPointColumns[] = {
    {"enqueued", D}, {"comm", D},    {"sequence", D}, {"launch", D}, {"count", P},     {"datatype", P},
    {"peer", D},     {"is_send", P}, {"flags", P},    {"bytes", P},  {"operation", D},
};
static_assert(std::size(kPointToPointColumns) == point_to_point::kColumns);

constexpr Column kClockColumns[] = {
    {"realtime", D}, {"monotonic", D}, {"monotonic_raw", D}, {"tsc", D}, {"cupti", D}, {"gap", D},
};
static_assert(std::size(kClockColumns) == clock::kColumns);

constexpr Column kKernelChannelColumns[] = {
    {"start", D}, {"duration", P},  {"gpu_start", D}, {"gpu_duration", P},
    {"comm", D},  {"operation", D}, {"channel", P},
};
static_assert(std::size(kKernelChannelColumns) == kernel_channel::kColumns);

constexpr Column kProxyOpColumns[] = {
    {"start", D},    {"duration", P},    {"comm", D},         {"operation", D},
    {"peer", D},     {"channel", P},     {"is_send", P},      {"is_remote", P},
    {"steps", P},    {"chunk_bytes", P}, {"steps_seen", P},   {"bytes", P},
    {"gpu_wait", P}, {"peer_wait", P},   {"network_wait", P}, {"flush_wait", P},
};
static_assert(std::size(kProxyOpColumns) == proxy_op::kColumns);

constexpr Column kThreadNameColumns[] = {{"thread", P}, {"name", P}};
static_assert(std::size(kThreadNameColumns) == thread_name::kColumns);

constexpr Column kDeviceColumns[] = {
    {"device", P},
    {"name", P},
    {"compute_major", P},
    {"compute_minor", P},
    {"multiprocessors", P},
    {"memory_bytes", P},
    {"memory_bytes_per_s", P},
    {"clock_khz", P},
    {"l2_bytes", P},
    {"copy_engines", P},
    {"threads_per_warp", P},
    {"warps_per_multiprocessor", P},
    {"shared_per_multiprocessor", P},
    {"registers_per_multiprocessor", P},
    {"flags", P},
    {"uuid_first", P},
    {"uuid_last", P},
    {"mig_uuid_first", P},
    {"mig_uuid_last", P},
    {"gpu_instance", P},
    {"compute_instance", P},
    {"numa_node", P},
};
static_assert(std::size(kDeviceColumns) == device::kColumns);

constexpr Column kContextColumns[] = {
    {"context", P}, {"device", P},          {"api", P},   {"null_stream", P},
    {"parent", P},  {"multiprocessors", P}, {"flags", P},
};
static_assert(std::size(kContextColumns) == context::kColumns);

constexpr Column kStreamColumns[] = {{"context", P}, {"stream", P}, {"priority", D}, {"type", P}};
static_assert(std::size(kStreamColumns) == stream::kColumns);

constexpr Column kMemoryOpColumns[] = {
    {"time", D},      {"correlation", D},  {"is_release", P}, {"is_async", P},  {"address", D},
    {"bytes", P},     {"memory_kind", P},  {"device", P},     {"context", P},   {"stream", P},
    {"pool_type", P}, {"pool_address", D}, {"pool_bytes", P}, {"pool_used", P},
};
static_assert(std::size(kMemoryOpColumns) == memory_op::kColumns);

}  // namespace

std::span<const Column> Schema(Kind kind) {
  switch (kind) {
    case Kind::kString:
      return {};
    case Kind::kKernel:
      return kKernelColumns;
    case Kind::kMemcpy:
      return kMemcpyColumns;
    case Kind::kMemset:
      return kMemsetColumns;
    case Kind::kApi:
      return kApiColumns;
    case Kind::kSync:
      return kSyncColumns;
    case Kind::kExternalCorrelation:
      return kExternalCorrelationColumns;
    case Kind::kCudaEvent:
      return kCudaEventColumns;
    case Kind::kOverhead:
      return kOverheadColumns;
    case Kind::kRange:
      return kRangeColumns;
    case Kind::kCommunicator:
      return kCommunicatorColumns;
    case Kind::kCollective:
      return kCollectiveColumns;
    case Kind::kPointToPoint:
      return kPointToPointColumns;
    case Kind::kClock:
      return kClockColumns;
    case Kind::kKernelChannel:
      return kKernelChannelColumns;
    case Kind::kProxyOp:
      return kProxyOpColumns;
    case Kind::kThreadName:
      return kThreadNameColumns;
    case Kind::kDevice:
      return kDeviceColumns;
    case Kind::kContext:
      return kContextColumns;
    case Kind::kStream:
      return kStreamColumns;
    case Kind::kMemoryOp:
      return kMemoryOpColumns;
  }
  return {};
}

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kString:
      return "string";
    case Kind::kKernel:
      return "kernel";
    case Kind::kMemcpy:
      return "memcpy";
    case Kind::kMemset:
      return "memset";
    case Kind::kApi:
      return "api";
    case Kind::kSync:
      return "sync";
    case Kind::kExternalCorrelation:
      return "external_correlation";
    case Kind::kCudaEvent:
      return "cuda_event";
    case Kind::kOverhead:
      return "overhead";
    case Kind::kRange:
      return "range";
    case Kind::kCommunicator:
      return "communicator";
    case Kind::kCollective:
      return "collective";
    case Kind::kPointToPoint:
      return "point_to_point";
    case Kind::kClock:
      return "clock";
    case Kind::kKernelChannel:
      return "kernel_channel";
    case Kind::kProxyOp:
      return "proxy_op";
    case Kind::kThreadName:
      return "thread_name";
    case Kind::kDevice:
      return "device";
    case Kind::kContext:
      return "context";
    case Kind::kStream:
      return "stream";
    case Kind::kMemoryOp:
      return "memory_op";
  }
  return "unknown";
}

}  // namespace lockstep::columns
