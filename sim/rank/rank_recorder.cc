#include "sim/rank/rank_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "sim/engine/random.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using scenario::Op;
using scenario::OpKind;

constexpr uint32_t kEventRecordId = cupti::runtime_cbid::kEventRecord;
constexpr uint32_t kStreamWaitEventId = cupti::runtime_cbid::kStreamWaitEvent;

// The records of an op that can be dropped separately. External ids are dropped together with the record of
// their call, because both are next to each other in the buffer.
enum Part : uint32_t { kMain = 0, kSync = 1, kEvent = 2 };

ActivityKind KindOf(OpKind kind) {
  switch (kind) {
    case OpKind::kCopy:
      return ActivityKind::kMemcpy;
    case OpKind::kSet:
      return ActivityKind::kMemset;
    default:
      return ActivityKind::kConcurrentKernel;
  }
}

// Replaces "{step}" by the iteration's number. "{step:3:1}" counts three steps per iteration: 3 * iteration
// + 1.
std::string WithStep(std::string text, uint32_t step) {
  const size_t at = text.find("{step");
  const size_t close = at == std::string::npos ? at : text.find('}', at);
  if (close == std::string::npos) return text;
  uint64_t per_turn = 1, place = 0;
  sscanf(text.c_str() + at, "{step:%" SCNu64 ":%" SCNu64 "}", &per_turn, &place);
  return text.replace(at, close + 1 - at, std::to_string(step * per_turn + place));
}

void FillCopy(const Op& op, cupti::Memcpy6* r) {
  using cupti::MemoryKind;
  const auto kind = static_cast<cupti::MemcpyKind>(op.copy_kind);
  r->copy_kind = static_cast<uint8_t>(op.copy_kind);
  r->src_kind = static_cast<uint8_t>(kind == cupti::MemcpyKind::kHostToDevice ? MemoryKind::kPinned
                                                                              : MemoryKind::kDevice);
  r->dst_kind = static_cast<uint8_t>(kind == cupti::MemcpyKind::kDeviceToHost ? MemoryKind::kPinned
                                                                              : MemoryKind::kDevice);
  r->flags = cupti::kMemcpyFlagAsync;
  r->bytes = op.bytes;
  r->copy_count = 1;
}

void FillKernel(const scenario::Geometry& g, cupti::Kernel10* r) {
  r->registers_per_thread = static_cast<uint16_t>(g.registers);
  r->grid_x = static_cast<int32_t>(g.grid[0]);
  r->grid_y = static_cast<int32_t>(g.grid[1]);
  r->grid_z = static_cast<int32_t>(g.grid[2]);
  r->block_x = static_cast<int32_t>(g.block[0]);
  r->block_y = static_cast<int32_t>(g.block[1]);
  r->block_z = static_cast<int32_t>(g.block[2]);
  r->static_shared_memory = static_cast<int32_t>(g.static_shared_bytes);
  r->dynamic_shared_memory = static_cast<int32_t>(g.dynamic_shared_bytes);
}

template <typename Record>
size_t Store(const Record& record, uint8_t* out) {
  static_assert(sizeof record <= kMaxRecordBytes);
  std::memcpy(out, &record, sizeof record);
  return sizeof record;
}

}  // namespace

RankRecorder::RankRecorder(const Program& program, const Model& model, const SimCore& cupti,
                           const NvtxLoader& nvtx, NcclEmulation& nccl, const StampClock& clock,
                           const Options& options)
    : program_(program),
      model_(model),
      cupti_(cupti),
      nvtx_(nvtx),
      nccl_(nccl),
      clock_(clock),
      options_(options),
      pid_(static_cast<uint32_t>(getpid())),
      device_(program.scenario->ranks[program.rank].device) {
  for (uint32_t i = 0; i < program.ops().size() && first_host_op_ == kNoIndex; ++i) {
    if (program.ops()[i].IsHost()) first_host_op_ = i;
  }
}

void RankRecorder::NoteStep(OpRun run, VirtualTime at) {
  if (run.op != first_host_op_) return;
  history_.step_starts.push_back(at - model_.Gap(run.step, run.op));
  if (options_.profile_every == 0 || run.step == 0) return;
  const uint32_t place = run.step % options_.profile_every;
  if (place == 0) ProfilerCall(run, cupti::runtime_cbid::kProfilerStart, at);
  if (place == options_.profile_steps) ProfilerCall(run, cupti::runtime_cbid::kProfilerStop, at);
}

void RankRecorder::ProfilerCall(OpRun run, uint32_t cbid, VirtualTime at) {
  const SimCall call{cupti::CallbackDomain::kRuntimeApi, cbid};
  if (!cupti_.wants_call(call.domain, call.cbid)) return;
  cupti::Api r{};
  r.kind = ActivityKind::kRuntime;
  r.cbid = cbid;
  r.start = static_cast<uint64_t>(clock_.Reported(at).ns());
  r.end = r.start;
  r.process_id = pid_;
  r.thread_id = cupti_.thread_id();
  Emit(r, run, call, kMain, at, at);
}

void RankRecorder::NoteRecord(OpRun run, VirtualTime start, VirtualTime end) {
  history_.end = std::max(history_.end, end);
  if (!options_.keep_history) return;
  history_.records.push_back({run.step, run.op, program_.Correlation(run.step, run.op), start, end});
}

Delivery RankRecorder::DeliveryOf(OpRun run, uint32_t part) const {
  if (options_.drop_ppm == 0) return Delivery::kDeliver;
  const uint64_t draw =
      Draw(options_.seed, program_.rank, run.step, uint64_t{run.op} * 4 + part, Purpose::kDrop);
  return PartsPerMillion(draw) < options_.drop_ppm ? Delivery::kDrop : Delivery::kDeliver;
}

template <typename Record>
void RankRecorder::Emit(const Record& record, OpRun run, SimCall call, uint32_t part, VirtualTime start,
                        VirtualTime end) {
  cupti_.record(&record, sizeof record, call, clock_.Reported(start).ns(), clock_.ToWall(end).ns(),
                DeliveryOf(run, part));
}

void RankRecorder::OnCallStart(OpRun run, VirtualTime start) {
  NoteStep(run, start);
  const Op& op = program_.ops()[run.op];
  OpenCall call;
  call.call = {op.driver ? cupti::CallbackDomain::kDriverApi : cupti::CallbackDomain::kRuntimeApi, op.cbid};
  call.api = cupti_.wants_call(call.call.domain, call.call.cbid);
  call.sync = cupti_.wants(ActivityKind::kSynchronization);
  call.event = cupti_.wants(ActivityKind::kCudaEvent);
  uint32_t collective = kNoIndex;
  for (uint32_t i = run.op + 1; i < program_.ops().size() && !program_.ops()[i].IsHost(); ++i) {
    if (program_.ops()[i].kind == OpKind::kCollective) collective = i;
  }
  // A tool that reads the clock in this scope gets the time of the call.
  const VirtualNow now(clock_.Reported(start));
  if (collective != kNoIndex) nccl_.Begin(run.step, collective);
  if (call.api && cupti_.wants(ActivityKind::kExternalCorrelation)) {
    SimExternalId ids[8];
    call.external.assign(ids, ids + cupti_.external_ids(ids, 8));
  }
  LaunchWork(run);
  if (collective != kNoIndex) nccl_.End();
  if (call.api || call.sync || call.event) open_calls_[run] = std::move(call);
}

bool RankRecorder::WantsDevice(const Op& op) const { return cupti_.wants(KindOf(op.kind)); }

void RankRecorder::LaunchWork(OpRun call) {
  for (uint32_t i = call.op + 1; i < program_.ops().size() && !program_.ops()[i].IsHost(); ++i) {
    const Op& op = program_.ops()[i];
    if (!op.IsDevice() || !op.launched || !WantsDevice(op)) continue;
    alignas(8) uint8_t record[kMaxRecordBytes];
    const size_t bytes = DeviceRecord({call.step, i}, record);
    tickets_[{call.step, i}] = cupti_.launch(record, bytes);
  }
}

size_t RankRecorder::DeviceRecord(OpRun run, uint8_t* out) const {
  const Op& op = program_.ops()[run.op];
  const uint32_t stream = program_.scenario->ranks[program_.rank].streams[op.stream];
  const auto fill = [&](auto& r) {
    r.kind = KindOf(op.kind);
    r.device_id = device_;
    r.context_id = kSimContextId;
    r.stream_id = stream;
    r.correlation_id = program_.Correlation(run.step, run.op);
  };
  if (op.kind == OpKind::kCopy) {
    cupti::Memcpy6 r{};
    fill(r);
    FillCopy(op, &r);
    return Store(r, out);
  }
  if (op.kind == OpKind::kSet) {
    cupti::Memset4 r{};
    fill(r);
    r.value = op.value;
    r.bytes = op.bytes;
    r.flags = cupti::kMemsetFlagAsync;
    r.memory_kind = static_cast<uint16_t>(cupti::MemoryKind::kDevice);
    return Store(r, out);
  }
  cupti::Kernel10 r{};
  fill(r);
  FillKernel(op.geometry, &r);
  r.name = program_.scenario->names[op.name].c_str();
  r.grid_id = int64_t{run.step} * static_cast<int64_t>(program_.ops().size()) + run.op;
  return Store(r, out);
}

void RankRecorder::OnDevice(OpRun run, VirtualTime start, VirtualTime end) {
  NoteRecord(run, start, end);
  const int64_t start_ns = clock_.Reported(start).ns(), end_ns = clock_.Reported(end).ns(),
                release = clock_.ToWall(end).ns();
  if (auto it = tickets_.find(run); it != tickets_.end()) {
    cupti_.complete(it->second, start_ns, end_ns, release, DeliveryOf(run, kMain));
    tickets_.erase(it);
    return;
  }
  // No call of the program launched this work, so that it has no ticket. Its record is launched and completed
  // here.
  const Op& op = program_.ops()[run.op];
  if ((op.launched && program_.launcher[run.op] != kNoIndex) || !WantsDevice(op)) return;
  alignas(8) uint8_t record[kMaxRecordBytes];
  const size_t bytes = DeviceRecord(run, record);
  cupti_.complete(cupti_.launch(record, bytes), start_ns, end_ns, release, DeliveryOf(run, kMain));
}

void RankRecorder::OnCallEnd(OpRun run, VirtualTime start, VirtualTime end) {
  NoteRecord(run, start, end);
  auto it = open_calls_.find(run);
  if (it == open_calls_.end()) return;
  const OpenCall call = std::move(it->second);
  open_calls_.erase(it);
  const Op& op = program_.ops()[run.op];
  const uint32_t correlation = program_.Correlation(run.step, run.op);
  if (call.api) {
    for (const SimExternalId& id : call.external) {
      cupti::ExternalCorrelation r{};
      r.kind = ActivityKind::kExternalCorrelation;
      r.external_kind = id.kind;
      r.external_id = id.id;
      r.correlation_id = correlation;
      Emit(r, run, call.call, kMain, start, end);
    }
    cupti::Api r{};
    r.kind = op.driver ? ActivityKind::kDriver : ActivityKind::kRuntime;
    r.cbid = op.cbid;
    r.start = static_cast<uint64_t>(clock_.Reported(start).ns());
    r.end = static_cast<uint64_t>(clock_.Reported(end).ns());
    r.process_id = pid_;
    // All host threads of the scenario run on this thread. Their ids only have to differ.
    r.thread_id = cupti_.thread_id() + op.thread;
    r.correlation_id = correlation;
    Emit(r, run, call.call, kMain, start, end);
  }
  if (call.sync || call.event) SyncRecords(run, start, end, call.event);
}

void RankRecorder::SyncRecords(OpRun run, VirtualTime start, VirtualTime end, bool event) {
  const Op& op = program_.ops()[run.op];
  const std::vector<uint32_t>& streams = program_.scenario->ranks[program_.rank].streams;
  cupti::Synchronization2 r{};
  r.kind = ActivityKind::kSynchronization;
  r.start = static_cast<uint64_t>(clock_.Reported(start).ns());
  r.end = static_cast<uint64_t>(clock_.Reported(end).ns());
  r.correlation_id = program_.Correlation(run.step, run.op);
  r.context_id = kSimContextId;
  r.stream_id = cupti::kDoesNotApply;
  r.cuda_event_id = cupti::kDoesNotApply;
  // A blocking copy has no synchronisation record.
  const bool copies = op.cbid == cupti::runtime_cbid::kMemcpy || op.cbid == cupti::runtime_cbid::kMemcpyAsync;
  if (op.wait != scenario::Wait::kNothing && !op.driver && !copies) {
    r.type = op.wait == scenario::Wait::kAllStreams ? cupti::SynchronizationType::kContextSynchronize
             : op.cbid == cupti::runtime_cbid::kEventSynchronize
                 ? cupti::SynchronizationType::kEventSynchronize
                 : cupti::SynchronizationType::kStreamSynchronize;
    if (op.wait == scenario::Wait::kStreams && !op.wait_streams.empty())
      r.stream_id = streams[op.wait_streams[0]];
    if (cupti_.wants(ActivityKind::kSynchronization)) Emit(r, run, {}, kSync, start, end);
  }
  for (uint32_t i = run.op + 1; i < program_.ops().size() && !program_.ops()[i].IsHost(); ++i) {
    const Op& follow = program_.ops()[i];
    // An order that an import inferred from times has no API call.
    if (op.cbid != kEventRecordId && op.cbid != kStreamWaitEventId) break;
    if (follow.kind == OpKind::kWaitEvent && cupti_.wants(ActivityKind::kSynchronization)) {
      r.type = cupti::SynchronizationType::kStreamWaitEvent;
      r.stream_id = streams[follow.stream];
      r.cuda_event_id = follow.event;
      Emit(r, run, {}, kSync, start, end);
    } else if (follow.kind == OpKind::kRecordEvent && event) {
      cupti::CudaEvent2 e{};
      e.kind = ActivityKind::kCudaEvent;
      e.correlation_id = r.correlation_id;
      e.context_id = kSimContextId;
      e.stream_id = streams[follow.stream];
      e.event_id = follow.event;
      e.device_id = device_;
      Emit(e, run, {}, kEvent, start, end);
    }
  }
}

void RankRecorder::OnMark(OpRun run, VirtualTime at) {
  NoteStep(run, at);
  NoteRecord(run, at, at);
  const Op& op = program_.ops()[run.op];
  const VirtualNow now(clock_.Reported(at));
  if (op.kind == OpKind::kPush)
    nvtx_.Push(WithStep(program_.scenario->names[op.name], run.step).c_str());
  else
    nvtx_.Pop();
}

}  // namespace lockstep::sim
