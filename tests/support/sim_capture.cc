#include "tests/support/sim_capture.h"

#include <algorithm>
#include <map>
#include <string>

#include "capture/infer/infer_groups.h"
#include "sim/engine/program.h"

namespace lockstep::tests {
namespace {

using capture::CollectiveOp;
using scenario::Op;
using scenario::OpKind;

CollectiveOp OpOf(scenario::Collective c) {
  switch (c) {
    case scenario::Collective::kAllReduce:
      return CollectiveOp::kAllReduce;
    case scenario::Collective::kAllGather:
      return CollectiveOp::kAllGather;
    case scenario::Collective::kReduceScatter:
      return CollectiveOp::kReduceScatter;
    case scenario::Collective::kAllToAll:
      return CollectiveOp::kAllToAll;
    case scenario::Collective::kBarrier:
      return CollectiveOp::kBarrier;
    case scenario::Collective::kSendReceive:
      return CollectiveOp::kSendReceive;
    case scenario::Collective::kBroadcast:
      return CollectiveOp::kBroadcast;
    case scenario::Collective::kScatter:
      return CollectiveOp::kScatter;
    case scenario::Collective::kReduce:
      return CollectiveOp::kReduce;
    case scenario::Collective::kGather:
      return CollectiveOp::kGather;
    case scenario::Collective::kSend:
      return CollectiveOp::kSend;
    case scenario::Collective::kReceive:
      return CollectiveOp::kReceive;
  }
  return CollectiveOp::kUnknown;
}

// Returns CUPTI's names of the calls that the generator makes.
std::string CallName(uint32_t cbid) {
  switch (cbid) {
    case 41:
      return "cudaMemcpyAsync_v3020";
    case 131:
      return "cudaStreamSynchronize_v3020";
    case 135:
      return "cudaEventRecord_v3020";
    case 147:
      return "cudaStreamWaitEvent_v3020";
    case 211:
      return "cudaLaunchKernel_v7000";
    case 652:
      return "cuLaunchKernelEx";
    default:
      return "call" + std::to_string(cbid);
  }
}

class RankWriter {
 public:
  RankWriter(const scenario::Scenario& s, const sim::RankHistory& history, uint32_t rank,
             const SimCaptureOptions& options, capture::Capture& out)
      : s_(s), history_(history), program_(sim::Compile(s, rank)), rank_(rank), options_(options), out_(out) {
    if (rank < options.clocks.size()) clock_ = options.clocks[rank];
  }

  capture::RankData Run(uint32_t host) {
    data_.rank = RankId(static_cast<int32_t>(rank_));
    data_.host = host;
    data_.device = DeviceId(s_.ranks[rank_].device);
    data_.window = {At(options_.from), At(options_.to)};
    for (const sim::TrueRecord& r : history_.records) Write(r);
    return std::move(data_);
  }

 private:
  HostTime At(VirtualTime t) const {
    if (t == VirtualTime::Min()) t = VirtualTime(0);
    if (t == VirtualTime::Max()) t = history_.end;
    return HostTime(kSimEpochNs + t.ns() + clock_.offset.ns() +
                    static_cast<int64_t>(clock_.drift * static_cast<double>(t.ns())));
  }
  bool InWindow(VirtualTime t) const { return t >= options_.from && t < options_.to; }

  void Write(const sim::TrueRecord& r) {
    const Op& op = program_.ops()[r.op];
    if (op.kind == OpKind::kPush) open_.push_back(r);
    if (op.kind == OpKind::kPop && !open_.empty()) WriteRange(r);
    if (!InWindow(r.start)) return;
    if (op.kind == OpKind::kCall) WriteCall(r, op);
    if (op.IsDevice()) WriteDevice(r, op);
  }

  // The start of a range that began before the window is unknown, and so is the end of a range that is still
  // open.
  void WriteRange(const sim::TrueRecord& pop) {
    const sim::TrueRecord push = open_.back();
    open_.pop_back();
    const bool starts = InWindow(push.start), ends = InWindow(pop.start);
    if (!starts && !ends) return;
    std::string name = s_.names[program_.ops()[push.op].name];
    if (const size_t at = name.find("{step}"); at != std::string::npos)
      name.replace(at, 6, std::to_string(push.step));
    data_.ranges.push_back({.start = starts ? At(push.start) : data_.window.start,
                            .end = ends ? At(pop.start) : data_.window.end,
                            .name = out_.strings.Intern(name),
                            .thread = ThreadId(1),
                            .start_unknown = !starts,
                            .end_unknown = !ends});
  }

  void WriteCall(const sim::TrueRecord& r, const Op& op) {
    data_.api_calls.push_back({.start = At(r.start),
                               .end = At(r.end),
                               .name = out_.strings.Intern(CallName(op.cbid)),
                               .correlation = CorrelationId(r.correlation),
                               .thread = ThreadId(1 + static_cast<int64_t>(op.thread)),
                               .cbid = op.cbid,
                               .driver = op.driver});
    if (op.wait == scenario::Wait::kAllStreams)
      AddSync(r, capture::SyncType::kContext, capture::kNone, capture::kNone);
    for (uint32_t stream : op.wait_streams)
      AddSync(r, capture::SyncType::kStream, s_.ranks[rank_].streams[stream], capture::kNone);
    // The following operations, up to the next call, that only order streams.
    for (uint32_t next = r.op + 1; next < program_.ops().size() && !program_.ops()[next].IsHost(); ++next) {
      const Op& event = program_.ops()[next];
      const uint32_t stream = event.kind == OpKind::kRecordEvent || event.kind == OpKind::kWaitEvent
                                  ? s_.ranks[rank_].streams[event.stream]
                                  : 0;
      if (event.kind == OpKind::kRecordEvent && options_.with_events) {
        data_.event_records.push_back({CorrelationId(r.correlation), StreamId(stream), event.event});
      }
      if (event.kind == OpKind::kWaitEvent)
        AddSync(r, capture::SyncType::kStreamWaitEvent, stream,
                options_.with_events ? event.event : capture::kNone);
    }
  }

  void AddSync(const sim::TrueRecord& r, capture::SyncType type, uint32_t stream, uint32_t event) {
    data_.syncs.push_back({.start = At(r.start),
                           .end = At(r.end),
                           .correlation = CorrelationId(r.correlation),
                           .stream = StreamId(stream),
                           .event = event,
                           .type = type});
  }

  void WriteDevice(const sim::TrueRecord& r, const Op& op) {
    capture::DeviceActivity a;
    a.start = At(r.start);
    a.end = At(r.end);
    a.stream = StreamId(s_.ranks[rank_].streams[op.stream]);
    a.correlation = CorrelationId(r.correlation);
    if (op.kind == OpKind::kCopy || op.kind == OpKind::kSet) {
      a.kind = op.kind == OpKind::kCopy ? capture::ActivityKind::kMemcpy : capture::ActivityKind::kMemset;
      a.name = out_.strings.Intern(op.kind == OpKind::kCopy ? "Memcpy" : "Memset");
      a.detail = static_cast<uint32_t>(data_.copy_details.size());
      data_.copy_details.push_back({.bytes = op.bytes, .copy_kind = static_cast<uint8_t>(op.copy_kind)});
    } else {
      a.name = out_.strings.Intern(s_.names[op.name]);
      a.detail = static_cast<uint32_t>(data_.kernel_details.size());
      capture::KernelDetail d;
      for (int i = 0; i < 3; ++i) {
        d.grid[i] = op.geometry.grid[i];
        d.block[i] = static_cast<uint16_t>(op.geometry.block[i]);
      }
      data_.kernel_details.push_back(d);
    }
    if (op.kind == OpKind::kCollective) WriteCollective(r, op, a);
    data_.activities.push_back(a);
  }

  void WriteCollective(const sim::TrueRecord& r, const Op& op, capture::DeviceActivity& a) {
    if (!options_.with_sequences) return;  // without it, Finish() uses the kernel's name
    a.communication = true;
    a.collective = static_cast<uint32_t>(data_.collectives.size());
    capture::Collective c{.activity = static_cast<uint32_t>(data_.activities.size()),
                          .group = op.group,
                          .source = capture::MatchSource::kNcclSequence};
    for (const scenario::Message& message : scenario::MessagesOf(op)) {
      const bool sends = message.collective == scenario::Collective::kSend;
      c.op = OpOf(message.collective);
      c.sequence = sequence_of_pair_[{op.group, message.peer * 2 + (sends ? 1 : 0)}]++;
      c.bytes = static_cast<int64_t>(message.bytes);
      c.peer = message.peer;
      data_.collectives.push_back(c);
    }
    if (scenario::NeedsOf(op.collective) == scenario::Needs::kPeer) return;
    const sim::CollectivePlace& place = program_.Place(r.op, 0);
    c.op = OpOf(op.collective);
    c.sequence = int64_t{r.step} * place.sequence_step + place.sequence;
    c.bytes = static_cast<int64_t>(op.bytes);
    c.root = op.peer;
    data_.collectives.push_back(c);
  }

  const scenario::Scenario& s_;
  const sim::RankHistory& history_;
  sim::Program program_;
  uint32_t rank_;
  const SimCaptureOptions& options_;
  capture::Capture& out_;
  SimCaptureOptions::Clock clock_;
  capture::RankData data_;
  std::vector<sim::TrueRecord> open_;
  std::map<std::pair<uint32_t, int32_t>, int64_t> sequence_of_pair_;
};

}  // namespace

capture::Capture CaptureOf(const scenario::Scenario& scenario, const sim::WorldHistory& history,
                           const SimCaptureOptions& options) {
  capture::Capture out;
  out.live = true;
  out.job = "sim";
  out.world_size = static_cast<int32_t>(scenario.ranks.size());
  if (options.with_sequences) {
    for (const scenario::Group& g : scenario.groups) {
      capture::Group group{.key = std::to_string(g.comm),
                           .name = g.name,
                           .members = {},
                           .size = static_cast<int32_t>(g.members.size())};
      for (uint32_t m : g.members) group.members.push_back(RankId(static_cast<int32_t>(m)));
      out.groups.push_back(std::move(group));
    }
  }
  for (uint32_t r = 0; r < scenario.ranks.size(); ++r) {
    const std::string name = options.clocks.empty() ? scenario.ranks[r].host : "host" + std::to_string(r);
    uint32_t host = 0;
    while (host < out.hosts.size() && out.hosts[host].name != name) ++host;
    if (host == out.hosts.size()) out.hosts.push_back({.id = name, .name = name});
    out.ranks.push_back(RankWriter(scenario, history.ranks[r], r, options, out).Run(host));
  }
  capture::Finish(out);
  capture::InferGroups(out);
  return out;
}

Nanos TrueStep(const sim::WorldHistory& history, VirtualTime from, VirtualTime to) {
  std::vector<VirtualTime> starts;
  for (VirtualTime t : history.ranks[0].step_starts) {
    if (t >= from && t < to) starts.push_back(t);
  }
  if (starts.size() < 2) return Nanos();
  return (starts.back() - starts.front()) / static_cast<int64_t>(starts.size() - 1);
}

}  // namespace lockstep::tests
