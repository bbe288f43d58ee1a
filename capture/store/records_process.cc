#include "capture/store/records_process.h"

namespace lockstep::capture {

using columns::Kind;

void ProcessTables::AddStrings(const columns::DecodedBlock& block, StringTable& table) {
  auto& names = strings_[block.epoch];
  for (const columns::StringDefinition& string : block.strings) names[string.id] = table.Intern(string.text);
}

void ProcessTables::AddRows(const columns::DecodedBlock& block, const StringTable& table) {
  static const absl::flat_hash_map<uint32_t, NameId> kNoNames;
  const auto found = strings_.find(block.epoch);
  names_ = found != strings_.end() ? &found->second : &kNoNames;
  const BlockRows rows(block);
  read[static_cast<size_t>(block.kind)] += block.rows;
  switch (block.kind) {
    case Kind::kKernel:
      return AddKernels(rows);
    case Kind::kMemcpy:
      return AddCopies(rows);
    case Kind::kMemset:
      return AddSets(rows);
    case Kind::kApi:
      return AddCalls(rows);
    case Kind::kSync:
      return AddSyncs(rows);
    case Kind::kRange:
      return AddRanges(rows);
    case Kind::kClock:
      return AddClocks(rows);
    case Kind::kCommunicator:
    case Kind::kCollective:
    case Kind::kPointToPoint:
    case Kind::kExternalCorrelation:
      return AddNccl(rows, table);
    case Kind::kKernelChannel:
      return AddChannels(rows);
    case Kind::kProxyOp:
      return AddProxyOps(rows);
    case Kind::kThreadName:
      for (uint32_t i = 0; i < rows.size(); ++i) {
        data.thread_names.push_back({ThreadId(rows.I64(columns::thread_name::kThread, i)),
                                     Name(rows.U64(columns::thread_name::kName, i))});
      }
      return;
    case Kind::kCudaEvent:
      return AddEvents(rows);
    case Kind::kDevice:
    case Kind::kContext:
    case Kind::kStream:
    case Kind::kMemoryOp:
      return AddObjects(rows, table);
    case Kind::kOverhead:  // the tracer's own time: counted, but in no table of a capture
    case Kind::kString:
      return;
  }
}

NameId ProcessTables::Name(uint64_t id) {
  const auto found = names_->find(static_cast<uint32_t>(id));
  if (found != names_->end()) return found->second;
  ++names_lost;
  return kNoName;
}

bool ProcessTables::Accept(Kind kind, int64_t start, int64_t duration) {
  if (IsTime(start) && duration >= 0 && IsTime(duration)) return true;
  ++refused[static_cast<size_t>(kind)];
  return false;
}

void ProcessTables::AddKernels(const BlockRows& rows) {
  namespace c = columns::kernel;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const int64_t duration = rows.I64(c::kDuration, i);
    if (!Accept(Kind::kKernel, rows.I64(c::kStart, i), duration)) continue;
    DeviceActivity a;
    a.start = rows.Time(c::kStart, i);
    a.end = a.start + Nanos(duration);
    a.name = Name(rows.U64(c::kName, i));
    a.stream = StreamId(rows.U32(c::kStream, i));
    a.correlation = CorrelationId(rows.U32(c::kCorrelation, i));
    a.detail = static_cast<uint32_t>(data.kernel_details.size());
    KernelDetail d;
    for (size_t axis = 0; axis < 3; ++axis) {
      d.grid[axis] = rows.U32(c::kGridX + axis, i);
      d.block[axis] = static_cast<uint16_t>(rows.U64(c::kBlockX + axis, i));
    }
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) \
  d.member = static_cast<type>(rows.U64(index, i));
#include "wire/fields/kernel.def"
    d.context = ContextId(rows.U32(c::kContext, i));
    d.graph = rows.U32(c::kGraph, i);
    d.graph_node = rows.U64(c::kGraphNode, i);
    data.kernel_details.push_back(d);
    data.activities.push_back(a);
    device.push_back(rows.U32(c::kDevice, i));
  }
}

void ProcessTables::AddCopies(const BlockRows& rows) {
  namespace c = columns::memcpy;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const int64_t duration = rows.I64(c::kDuration, i);
    if (!Accept(Kind::kMemcpy, rows.I64(c::kStart, i), duration)) continue;
    DeviceActivity a;
    a.kind = ActivityKind::kMemcpy;
    a.start = rows.Time(c::kStart, i);
    a.end = a.start + Nanos(duration);
    a.stream = StreamId(rows.U32(c::kStream, i));
    a.correlation = CorrelationId(rows.U32(c::kCorrelation, i));
    a.detail = static_cast<uint32_t>(data.copy_details.size());
    CopyDetail d;
    d.bytes = rows.U64(c::kBytes, i);
    d.context = ContextId(rows.U32(c::kContext, i));
    d.copy_kind = static_cast<uint8_t>(rows.U64(c::kCopyKind, i));
    d.src_kind = static_cast<uint8_t>(rows.U64(c::kSrcKind, i));
    d.dst_kind = static_cast<uint8_t>(rows.U64(c::kDstKind, i));
    d.graph = rows.U32(c::kGraph, i);
    d.graph_node = rows.U64(c::kGraphNode, i);
    data.copy_details.push_back(d);
    data.activities.push_back(a);
    device.push_back(rows.U32(c::kDevice, i));
  }
}

void ProcessTables::AddSets(const BlockRows& rows) {
  namespace c = columns::memset;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const int64_t duration = rows.I64(c::kDuration, i);
    if (!Accept(Kind::kMemset, rows.I64(c::kStart, i), duration)) continue;
    DeviceActivity a;
    a.kind = ActivityKind::kMemset;
    a.start = rows.Time(c::kStart, i);
    a.end = a.start + Nanos(duration);
    a.stream = StreamId(rows.U32(c::kStream, i));
    a.correlation = CorrelationId(rows.U32(c::kCorrelation, i));
    a.detail = static_cast<uint32_t>(data.copy_details.size());
    CopyDetail d;
    d.bytes = rows.U64(c::kBytes, i);
    d.context = ContextId(rows.U32(c::kContext, i));
    d.dst_kind = static_cast<uint8_t>(rows.U64(c::kMemoryKind, i));
    d.graph = rows.U32(c::kGraph, i);
    d.graph_node = rows.U64(c::kGraphNode, i);
    data.copy_details.push_back(d);
    data.activities.push_back(a);
    device.push_back(rows.U32(c::kDevice, i));
  }
}

void ProcessTables::AddCalls(const BlockRows& rows) {
  namespace c = columns::api;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const int64_t duration = rows.I64(c::kDuration, i);
    if (!Accept(Kind::kApi, rows.I64(c::kStart, i), duration)) continue;
    ApiCall call;
    call.start = rows.Time(c::kStart, i);
    call.end = call.start + Nanos(duration);
    // Id 0: the client had no name for the function. This loses nothing, because cbid identifies it.
    if (rows.U64(c::kName, i) != 0) call.name = Name(rows.U64(c::kName, i));
    call.correlation = CorrelationId(rows.U32(c::kCorrelation, i));
    call.thread = ThreadId(rows.I64(c::kThread, i));
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) \
  call.member = static_cast<type>(rows.U64(index, i));
#include "wire/fields/api.def"
    call.driver = rows.U64(c::kIsDriver, i) != 0;
    data.api_calls.push_back(call);
  }
}

void ProcessTables::AddSyncs(const BlockRows& rows) {
  namespace c = columns::sync;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const int64_t duration = rows.I64(c::kDuration, i);
    if (!Accept(Kind::kSync, rows.I64(c::kStart, i), duration)) continue;
    Sync s;
    s.start = rows.Time(c::kStart, i);
    s.end = s.start + Nanos(duration);
    s.correlation = CorrelationId(rows.U32(c::kCorrelation, i));
    s.stream = StreamId(rows.U32(c::kStream, i));
    s.event = rows.U32(c::kEvent, i);
    const uint64_t type = rows.U64(c::kType, i);
    if (type <= static_cast<uint64_t>(SyncType::kContext)) s.type = static_cast<SyncType>(type);
    data.syncs.push_back(s);
  }
}

void ProcessTables::AddEvents(const BlockRows& rows) {
  namespace c = columns::cuda_event;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    data.event_records.push_back({CorrelationId(rows.U32(c::kCorrelation, i)),
                                  StreamId(rows.U32(c::kStream, i)), rows.U32(c::kEvent, i)});
  }
}

void ProcessTables::AddRanges(const BlockRows& rows) {
  namespace c = columns::range;
  constexpr uint64_t kStartUnknown = 1, kEndUnknown = 2;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const uint64_t flags = rows.U64(c::kFlags, i);
    HostRange r;
    r.start_unknown = (flags & kStartUnknown) != 0;
    r.end_unknown = (flags & kEndUnknown) != 0;
    const int64_t start = rows.I64(c::kStart, i);
    // If the end of a range is unknown, its duration belongs to an end of 0, so the sum wraps around to 0.
    const auto end = static_cast<int64_t>(static_cast<uint64_t>(start) + rows.U64(c::kDuration, i));
    r.start = r.start_unknown ? data.window.start : HostTime(start);
    r.end = r.end_unknown ? data.window.end : HostTime(end);
    // A range that began after the window's end may still be open, so its end can lie before its start.
    if (r.end_unknown && r.end < r.start) r.end = r.start;
    if (r.start_unknown && r.start > r.end) r.start = r.end;
    const auto length =
        static_cast<int64_t>(static_cast<uint64_t>(r.end.ns()) - static_cast<uint64_t>(r.start.ns()));
    if (!Accept(Kind::kRange, r.start.ns(), length)) continue;
    const uint64_t name = rows.U64(c::kName, i);
    if (name == 0 && r.start_unknown) {
      ++begun_unseen;
    } else {
      r.name = Name(name);
    }
    if (rows.U64(c::kDomain, i) != 0) r.domain = Name(rows.U64(c::kDomain, i));
    r.thread = ThreadId(rows.I64(c::kThread, i));
    r.depth = rows.U32(c::kDepth, i);
    data.ranges.push_back(r);
  }
}

void ProcessTables::AddNccl(const BlockRows& rows, const StringTable& table) {
  constexpr uint32_t kLaunchSerial = 5;  // CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, which Lockstep uses
  constexpr uint64_t kFromNvtx = 2, kSequenceIsLocal = 4;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (rows.kind() == Kind::kExternalCorrelation) {
      namespace c = columns::external_correlation;
      if (rows.U32(c::kExternalKind, i) != kLaunchSerial) continue;
      launches.emplace_back(rows.U64(c::kExternal, i), CorrelationId(rows.U32(c::kCorrelation, i)));
    } else if (rows.kind() == Kind::kCommunicator) {
      namespace c = columns::communicator;
      const NameId name = rows.U64(c::kName, i) != 0 ? Name(rows.U64(c::kName, i)) : kNoName;
      communicators.push_back({rows.U64(c::kComm, i), name, rows.I32(c::kRank, i), rows.I32(c::kRanks, i),
                               rows.I32(c::kDevice, i) - 1});
    } else if (rows.kind() == Kind::kCollective) {
      namespace c = columns::collective;
      NcclRow row;
      row.comm = rows.U64(c::kComm, i);
      row.launch = rows.U64(c::kLaunch, i);
      row.sequence = rows.I64(c::kSequence, i);
      row.count = rows.U64(c::kCount, i);
      row.from_nvtx = (rows.U64(c::kFlags, i) & kFromNvtx) != 0;
      row.local_sequence = row.from_nvtx || (rows.U64(c::kFlags, i) & kSequenceIsLocal) != 0;
      if (!row.from_nvtx) row.datatype = Name(rows.U64(c::kDatatype, i));
      row.op = CollectiveOpFromText(table.Text(Name(rows.U64(c::kFunction, i))));
      row.root = rows.I32(c::kRoot, i);
      row.bytes = rows.U64(c::kBytes, i);
      row.operation = rows.U64(c::kOperation, i);
      // Id 0: not a reduction, or the source does not name it.
      if (rows.U64(c::kReduction, i) != 0) row.reduction = Name(rows.U64(c::kReduction, i));
      nccl.push_back(row);
    } else {
      namespace c = columns::point_to_point;
      NcclRow row;
      row.comm = rows.U64(c::kComm, i);
      row.launch = rows.U64(c::kLaunch, i);
      row.sequence = rows.I64(c::kSequence, i);
      row.count = rows.U64(c::kCount, i);
      row.from_nvtx = (rows.U64(c::kFlags, i) & kFromNvtx) != 0;
      if (!row.from_nvtx) row.datatype = Name(rows.U64(c::kDatatype, i));
      // Peers and message numbers have a meaning only within a communicator.
      row.local_sequence = row.comm == 0;
      row.bytes = rows.U64(c::kBytes, i);
      row.operation = rows.U64(c::kOperation, i);
      row.op = rows.U64(c::kIsSend, i) != 0 ? CollectiveOp::kSend : CollectiveOp::kReceive;
      row.peer = rows.I32(c::kPeer, i);
      nccl.push_back(row);
    }
  }
}

void ProcessTables::AddObjects(const BlockRows& rows, const StringTable& table) {
  if (rows.kind() == Kind::kContext) return objects.AddContexts(rows);
  if (rows.kind() == Kind::kStream) return objects.AddStreams(rows);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    if (rows.kind() == Kind::kDevice) {
      objects.AddDevice(rows, i, table.Text(Name(rows.U64(columns::device::kName, i))));
    } else if (Accept(Kind::kMemoryOp, rows.I64(columns::memory_op::kTime, i), 0)) {
      objects.AddMemoryOp(rows, i);
    }
  }
}

void ProcessTables::AddChannels(const BlockRows& rows) {
  namespace c = columns::kernel_channel;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const int64_t duration = rows.I64(c::kDuration, i);
    if (!Accept(Kind::kKernelChannel, rows.I64(c::kStart, i), duration)) continue;
    // The GPU's times must be as far from overflow as the host's.
    if (!Accept(Kind::kKernelChannel, rows.I64(c::kGpuStart, i), rows.I64(c::kGpuDuration, i))) continue;
    ChannelRow row;
    row.start = rows.Time(c::kStart, i);
    row.end = row.start + Nanos(duration);
    row.gpu_start = rows.U64(c::kGpuStart, i);
    row.gpu_length = rows.U64(c::kGpuDuration, i);
    row.operation = rows.U64(c::kOperation, i);
    row.channel = rows.U32(c::kChannel, i);
    channels.push_back(row);
  }
}

void ProcessTables::AddProxyOps(const BlockRows& rows) {
  namespace c = columns::proxy_op;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const int64_t duration = rows.I64(c::kDuration, i);
    if (!Accept(Kind::kProxyOp, rows.I64(c::kStart, i), duration)) continue;
    ProxyRow row;
    row.comm = rows.U64(c::kComm, i);
    row.op.start = rows.Time(c::kStart, i);
    row.op.end = row.op.start + Nanos(duration);
    row.op.operation = rows.U64(c::kIsRemote, i) != 0 ? 0 : rows.U64(c::kOperation, i);
    row.op.peer = rows.I32(c::kPeer, i);
    row.op.channel = rows.U32(c::kChannel, i);
    row.op.is_send = rows.U64(c::kIsSend, i) != 0;
    row.op.steps = rows.U32(c::kSteps, i);
    row.op.steps_seen = rows.U32(c::kStepsSeen, i);
    row.op.bytes = rows.U64(c::kBytes, i);
    row.op.gpu_wait = Nanos(rows.I64(c::kGpuWait, i));
    row.op.peer_wait = Nanos(rows.I64(c::kPeerWait, i));
    row.op.network_wait = Nanos(rows.I64(c::kNetworkWait, i));
    row.op.flush_wait = Nanos(rows.I64(c::kFlushWait, i));
    proxy_ops.push_back(row);
  }
}

void ProcessTables::AddClocks(const BlockRows& rows) {
  namespace c = columns::clock;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    ClockReading reading;
    reading.realtime = rows.Time(c::kRealtime, i);
    reading.monotonic = MonoTime(rows.I64(c::kMonotonic, i));
    reading.monotonic_raw_ns = rows.I64(c::kMonotonicRaw, i);
    reading.tsc = rows.U64(c::kTsc, i);
    reading.cupti = rows.Time(c::kCupti, i);
    reading.gap = Nanos(rows.I64(c::kGap, i));
    if (Accept(Kind::kClock, reading.realtime.ns(), reading.gap.ns()) &&
        Accept(Kind::kClock, reading.monotonic.ns(), 0))
      data.clocks.push_back(reading);
  }
}

}  // namespace lockstep::capture
