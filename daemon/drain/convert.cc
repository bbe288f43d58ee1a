#include "daemon/drain/convert.h"

namespace lockstep::daemon {
namespace {

namespace c = columns;

uint64_t Signed(int64_t value) { return static_cast<uint64_t>(value); }

// Begins a row of a record with a start and an end.
bool Timed(Row& row, int64_t start_ns, int64_t end_ns) {
  if (end_ns < start_ns || start_ns < 0) return false;
  row.values[0] = Signed(start_ns);
  row.values[1] = Signed(end_ns - start_ns);
  row.span = {HostTime(start_ns), HostTime(end_ns)};
  return true;
}

void Instant(Row& row, int64_t stamp_ns) {
  row.values[0] = Signed(stamp_ns);
  row.span = {HostTime(stamp_ns), HostTime(stamp_ns)};
}

bool Fill(const ring::KernelRecord& r, Row& row) {
  auto& v = row.values;
  v[c::kernel::kCorrelation] = r.correlation;
  v[c::kernel::kDevice] = r.device;
  v[c::kernel::kContext] = r.context;
  v[c::kernel::kStream] = r.stream;
  v[c::kernel::kName] = r.name;
  v[c::kernel::kGridX] = r.grid[0];
  v[c::kernel::kGridY] = r.grid[1];
  v[c::kernel::kGridZ] = r.grid[2];
  v[c::kernel::kBlockX] = r.block[0];
  v[c::kernel::kBlockY] = r.block[1];
  v[c::kernel::kBlockZ] = r.block[2];
  v[c::kernel::kRegisters] = r.registers;
  v[c::kernel::kStaticShared] = r.static_shared_bytes;
  v[c::kernel::kDynamicShared] = r.dynamic_shared_bytes;
  v[c::kernel::kGraph] = r.graph;
  v[c::kernel::kGraphNode] = r.graph_node;
  v[c::kernel::kChannel] = r.channel;
  row.columns = c::kernel::kColumns;
  return Timed(row, r.start_ns, r.end_ns);
}

bool Fill(const ring::MemcpyRecord& r, Row& row) {
  auto& v = row.values;
  v[c::memcpy::kCorrelation] = r.correlation;
  v[c::memcpy::kDevice] = r.device;
  v[c::memcpy::kContext] = r.context;
  v[c::memcpy::kStream] = r.stream;
  v[c::memcpy::kBytes] = r.bytes;
  v[c::memcpy::kCopyKind] = r.copy_kind;
  v[c::memcpy::kSrcKind] = r.src_kind;
  v[c::memcpy::kDstKind] = r.dst_kind;
  v[c::memcpy::kFlags] = r.copy_flags;
  v[c::memcpy::kGraph] = r.graph;
  v[c::memcpy::kGraphNode] = r.graph_node;
  v[c::memcpy::kIsPeer] = (r.header.flags & ring::kMemcpyPeer) != 0 ? 1 : 0;
  v[c::memcpy::kSrcDevice] = r.src_device;
  v[c::memcpy::kDstDevice] = r.dst_device;
  row.columns = c::memcpy::kColumns;
  return Timed(row, r.start_ns, r.end_ns);
}

bool Fill(const ring::MemsetRecord& r, Row& row) {
  auto& v = row.values;
  v[c::memset::kCorrelation] = r.correlation;
  v[c::memset::kDevice] = r.device;
  v[c::memset::kContext] = r.context;
  v[c::memset::kStream] = r.stream;
  v[c::memset::kBytes] = r.bytes;
  v[c::memset::kValue] = r.value;
  v[c::memset::kMemoryKind] = r.memory_kind;
  v[c::memset::kGraph] = r.graph;
  v[c::memset::kGraphNode] = r.graph_node;
  row.columns = c::memset::kColumns;
  return Timed(row, r.start_ns, r.end_ns);
}

bool Fill(const ring::ApiRecord& r, Row& row) {
  auto& v = row.values;
  v[c::api::kCorrelation] = r.correlation;
  v[c::api::kCbid] = r.cbid;
  v[c::api::kThread] = r.thread;
  v[c::api::kResult] = r.result;
  v[c::api::kIsDriver] = (r.header.flags & ring::kApiDriver) != 0 ? 1 : 0;
  v[c::api::kName] = r.name;
  row.columns = c::api::kColumns;
  return Timed(row, r.start_ns, r.end_ns);
}

bool Fill(const ring::SyncRecord& r, Row& row) {
  auto& v = row.values;
  v[c::sync::kCorrelation] = r.correlation;
  v[c::sync::kContext] = r.context;
  v[c::sync::kStream] = r.stream;
  v[c::sync::kType] = r.type;
  v[c::sync::kEvent] = r.event;
  row.columns = c::sync::kColumns;
  return Timed(row, r.start_ns, r.end_ns);
}

bool Fill(const ring::ExternalCorrelationRecord& r, Row& row) {
  row.values[c::external_correlation::kExternal] = r.external;
  row.values[c::external_correlation::kCorrelation] = r.correlation;
  row.values[c::external_correlation::kExternalKind] = r.external_kind;
  row.columns = c::external_correlation::kColumns;
  return true;
}

bool Fill(const ring::CudaEventRecord& r, Row& row) {
  auto& v = row.values;
  Instant(row, r.device_ns);
  v[c::cuda_event::kCorrelation] = r.correlation;
  v[c::cuda_event::kContext] = r.context;
  v[c::cuda_event::kStream] = r.stream;
  v[c::cuda_event::kEvent] = r.event;
  row.columns = c::cuda_event::kColumns;
  return true;
}

bool Fill(const ring::OverheadRecord& r, Row& row) {
  row.values[c::overhead::kOverheadKind] = r.overhead_kind;
  row.values[c::overhead::kThread] = r.thread;
  row.columns = c::overhead::kColumns;
  return Timed(row, r.start_ns, r.end_ns);
}

bool Fill(const ring::RangeRecord& r, Row& row) {
  auto& v = row.values;
  const uint16_t flags =
      r.header.flags & (ring::kRangeStartUnknown | ring::kRangeEndUnknown | ring::kRangeMark);
  const int64_t start = (flags & ring::kRangeStartUnknown) != 0 ? 0 : r.start_ns;
  const int64_t end = (flags & ring::kRangeEndUnknown) != 0 ? start : r.end_ns;
  v[c::range::kName] = r.name;
  v[c::range::kDomain] = r.domain;
  v[c::range::kThread] = r.thread;
  v[c::range::kDepth] = r.depth;
  v[c::range::kPayload] = r.payload;
  v[c::range::kFlags] = flags;
  row.columns = c::range::kColumns;
  if (!Timed(row, start, end)) return false;
  if (start == 0) row.span.start = row.span.end;
  return true;
}

bool Fill(const ring::CommunicatorRecord& r, Row& row) {
  auto& v = row.values;
  v[c::communicator::kComm] = r.comm;
  v[c::communicator::kName] = r.name;
  v[c::communicator::kRank] = Signed(r.rank);
  v[c::communicator::kRanks] = Signed(r.ranks);
  v[c::communicator::kNodes] = Signed(r.nodes);
  v[c::communicator::kDevice] = r.device_plus_1;
  row.columns = c::communicator::kColumns;
  return true;
}

bool Fill(const ring::CollectiveRecord& r, Row& row) {
  auto& v = row.values;
  Instant(row, r.enqueued_ns);
  v[c::collective::kComm] = r.comm;
  v[c::collective::kSequence] = r.sequence;
  v[c::collective::kLaunch] = r.launch;
  v[c::collective::kCount] = r.count;
  v[c::collective::kFunction] = r.function;
  v[c::collective::kDatatype] = r.datatype;
  v[c::collective::kAlgorithm] = r.algorithm;
  v[c::collective::kProtocol] = r.protocol;
  v[c::collective::kRoot] = Signed(r.root);
  v[c::collective::kChannels] = r.channels;
  v[c::collective::kFlags] = r.header.flags & (ring::kFromNvtx | ring::kSequenceIsLocal);
  v[c::collective::kBytes] = r.bytes;
  v[c::collective::kOperation] = r.operation;
  v[c::collective::kReduction] = r.reduction;
  row.columns = c::collective::kColumns;
  return true;
}

bool Fill(const ring::PointToPointRecord& r, Row& row) {
  auto& v = row.values;
  Instant(row, r.enqueued_ns);
  v[c::point_to_point::kComm] = r.comm;
  v[c::point_to_point::kSequence] = r.sequence;
  v[c::point_to_point::kLaunch] = r.launch;
  v[c::point_to_point::kCount] = r.count;
  v[c::point_to_point::kDatatype] = r.datatype;
  v[c::point_to_point::kPeer] = Signed(r.peer);
  v[c::point_to_point::kIsSend] = (r.header.flags & ring::kP2pSend) != 0 ? 1 : 0;
  v[c::point_to_point::kFlags] = r.header.flags & ring::kFromNvtx;
  v[c::point_to_point::kBytes] = r.bytes;
  v[c::point_to_point::kOperation] = r.operation;
  row.columns = c::point_to_point::kColumns;
  return true;
}

bool Fill(const ring::ClockRecord& r, Row& row) {
  auto& v = row.values;
  Instant(row, r.realtime_ns);
  v[c::clock::kMonotonic] = Signed(r.monotonic_ns);
  v[c::clock::kMonotonicRaw] = Signed(r.monotonic_raw_ns);
  v[c::clock::kTsc] = r.tsc;
  v[c::clock::kCupti] = Signed(r.cupti_ns);
  v[c::clock::kGap] = Signed(r.gap_ns);
  row.columns = c::clock::kColumns;
  return true;
}

bool Fill(const ring::KernelChannelRecord& r, Row& row) {
  auto& v = row.values;
  if (r.gpu_end_ns < r.gpu_start_ns) return false;
  v[c::kernel_channel::kGpuStart] = r.gpu_start_ns;
  v[c::kernel_channel::kGpuDuration] = r.gpu_end_ns - r.gpu_start_ns;
  v[c::kernel_channel::kComm] = r.comm;
  v[c::kernel_channel::kOperation] = r.operation;
  v[c::kernel_channel::kChannel] = r.channel;
  row.columns = c::kernel_channel::kColumns;
  return Timed(row, r.start_ns, r.end_ns);
}

bool Fill(const ring::ProxyOpRecord& r, Row& row) {
  auto& v = row.values;
  v[c::proxy_op::kComm] = r.comm;
  v[c::proxy_op::kOperation] = r.operation;
  v[c::proxy_op::kPeer] = Signed(r.peer);
  v[c::proxy_op::kChannel] = r.channel;
  v[c::proxy_op::kIsSend] = (r.header.flags & ring::kProxySend) != 0 ? 1 : 0;
  v[c::proxy_op::kIsRemote] = (r.header.flags & ring::kProxyRemote) != 0 ? 1 : 0;
  v[c::proxy_op::kSteps] = r.steps;
  v[c::proxy_op::kChunkBytes] = r.chunk_bytes;
  v[c::proxy_op::kStepsSeen] = r.steps_seen;
  v[c::proxy_op::kBytes] = r.bytes;
  v[c::proxy_op::kGpuWait] = Signed(r.gpu_wait_ns);
  v[c::proxy_op::kPeerWait] = Signed(r.peer_wait_ns);
  v[c::proxy_op::kNetworkWait] = Signed(r.network_wait_ns);
  v[c::proxy_op::kFlushWait] = Signed(r.flush_wait_ns);
  row.columns = c::proxy_op::kColumns;
  // A wait that ended before it began: the sums mean nothing.
  if (r.gpu_wait_ns < 0 || r.peer_wait_ns < 0 || r.network_wait_ns < 0 || r.flush_wait_ns < 0) return false;
  return Timed(row, r.start_ns, r.end_ns);
}

bool Fill(const ring::ThreadNameRecord& r, Row& row) {
  row.values[c::thread_name::kThread] = r.thread;
  row.values[c::thread_name::kName] = r.name;
  row.columns = c::thread_name::kColumns;
  return true;
}

// Eight bytes of a UUID, the first one highest, so that hexadecimal digits are in the order people know.
uint64_t InOrder(const uint8_t* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | bytes[i];
  return value;
}

static_assert(c::device::kColumns <= kMostColumns);
bool Fill(const ring::DeviceRecord& r, Row& row) {
  auto& v = row.values;
  v[c::device::kDevice] = r.device;
  v[c::device::kName] = r.name;
  v[c::device::kComputeMajor] = r.compute_major;
  v[c::device::kComputeMinor] = r.compute_minor;
  v[c::device::kMultiprocessors] = r.multiprocessors;
  v[c::device::kMemoryBytes] = r.memory_bytes;
  v[c::device::kMemoryBytesPerS] = r.memory_bytes_per_s;
  v[c::device::kClockKhz] = r.clock_khz;
  v[c::device::kL2Bytes] = r.l2_bytes;
  v[c::device::kCopyEngines] = r.copy_engines;
  v[c::device::kThreadsPerWarp] = r.threads_per_warp;
  v[c::device::kWarpsPerMultiprocessor] = r.warps_per_multiprocessor;
  v[c::device::kSharedPerMultiprocessor] = r.shared_bytes_per_multiprocessor;
  v[c::device::kRegistersPerMultiprocessor] = r.registers_per_multiprocessor;
  v[c::device::kFlags] = r.header.flags & (ring::kDeviceHidden | ring::kDeviceMig | ring::kDeviceEcc);
  v[c::device::kUuidFirst] = InOrder(r.uuid);
  v[c::device::kUuidLast] = InOrder(r.uuid + 8);
  v[c::device::kMigUuidFirst] = InOrder(r.mig_uuid);
  v[c::device::kMigUuidLast] = InOrder(r.mig_uuid + 8);
  v[c::device::kGpuInstance] = r.gpu_instance;
  v[c::device::kComputeInstance] = r.compute_instance;
  v[c::device::kNumaNode] = r.numa_node_plus_1;
  row.columns = c::device::kColumns;
  return true;
}

bool Fill(const ring::ContextRecord& r, Row& row) {
  auto& v = row.values;
  v[c::context::kContext] = r.context;
  v[c::context::kDevice] = r.device;
  v[c::context::kApi] = r.api;
  v[c::context::kNullStream] = r.null_stream;
  v[c::context::kParent] = r.parent;
  v[c::context::kMultiprocessors] = r.multiprocessors;
  v[c::context::kFlags] = r.header.flags & ring::kContextGreen;
  row.columns = c::context::kColumns;
  return true;
}

bool Fill(const ring::StreamRecord& r, Row& row) {
  row.values[c::stream::kContext] = r.context;
  row.values[c::stream::kStream] = r.stream;
  row.values[c::stream::kPriority] = Signed(r.priority);
  row.values[c::stream::kType] = r.type;
  row.columns = c::stream::kColumns;
  return true;
}

bool Fill(const ring::MemoryOpRecord& r, Row& row) {
  auto& v = row.values;
  Instant(row, r.time_ns);
  v[c::memory_op::kCorrelation] = r.correlation;
  v[c::memory_op::kIsRelease] = (r.header.flags & ring::kMemoryRelease) != 0 ? 1 : 0;
  v[c::memory_op::kIsAsync] = (r.header.flags & ring::kMemoryAsync) != 0 ? 1 : 0;
  v[c::memory_op::kAddress] = r.address;
  v[c::memory_op::kBytes] = r.bytes;
  v[c::memory_op::kMemoryKind] = r.memory_kind;
  v[c::memory_op::kDevice] = r.device;
  v[c::memory_op::kContext] = r.context;
  v[c::memory_op::kStream] = r.stream;
  v[c::memory_op::kPoolType] = r.pool_type;
  v[c::memory_op::kPoolAddress] = r.pool_address;
  v[c::memory_op::kPoolBytes] = r.pool_bytes;
  v[c::memory_op::kPoolUsed] = r.pool_used_bytes;
  row.columns = c::memory_op::kColumns;
  return true;
}

}  // namespace

bool Convert(const ring::RecordView& record, Row& row) {
  row.kind = static_cast<columns::Kind>(record.header.kind);
  row.span = {};
  switch (record.header.kind) {
    case ring::RecordKind::kPad:
    case ring::RecordKind::kString:
      return false;
    case ring::RecordKind::kKernel:
      return Fill(record.as<ring::KernelRecord>(), row);
    case ring::RecordKind::kMemcpy:
      return Fill(record.as<ring::MemcpyRecord>(), row);
    case ring::RecordKind::kMemset:
      return Fill(record.as<ring::MemsetRecord>(), row);
    case ring::RecordKind::kApi:
      return Fill(record.as<ring::ApiRecord>(), row);
    case ring::RecordKind::kSync:
      return Fill(record.as<ring::SyncRecord>(), row);
    case ring::RecordKind::kExternalCorrelation:
      return Fill(record.as<ring::ExternalCorrelationRecord>(), row);
    case ring::RecordKind::kCudaEvent:
      return Fill(record.as<ring::CudaEventRecord>(), row);
    case ring::RecordKind::kOverhead:
      return Fill(record.as<ring::OverheadRecord>(), row);
    case ring::RecordKind::kRange:
      return Fill(record.as<ring::RangeRecord>(), row);
    case ring::RecordKind::kCommunicator:
      return Fill(record.as<ring::CommunicatorRecord>(), row);
    case ring::RecordKind::kCollective:
      return Fill(record.as<ring::CollectiveRecord>(), row);
    case ring::RecordKind::kPointToPoint:
      return Fill(record.as<ring::PointToPointRecord>(), row);
    case ring::RecordKind::kClock:
      return Fill(record.as<ring::ClockRecord>(), row);
    case ring::RecordKind::kKernelChannel:
      return Fill(record.as<ring::KernelChannelRecord>(), row);
    case ring::RecordKind::kProxyOp:
      return Fill(record.as<ring::ProxyOpRecord>(), row);
    case ring::RecordKind::kThreadName:
      return Fill(record.as<ring::ThreadNameRecord>(), row);
    case ring::RecordKind::kDevice:
      return Fill(record.as<ring::DeviceRecord>(), row);
    case ring::RecordKind::kContext:
      return Fill(record.as<ring::ContextRecord>(), row);
    case ring::RecordKind::kStream:
      return Fill(record.as<ring::StreamRecord>(), row);
    case ring::RecordKind::kMemoryOp:
      return Fill(record.as<ring::MemoryOpRecord>(), row);
  }
  return false;
}

}  // namespace lockstep::daemon
