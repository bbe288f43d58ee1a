#include "aggregator/trace/scenario_writer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "aggregator/trace/writers.h"
#include "common/scenario/recorded.h"

namespace lockstep::trace {
namespace {

using scenario::Needs;
using scenario::OpKind;
using scenario::RecordedCall;
using scenario::RecordedEvent;
using scenario::RecordedRank;
using scenario::RecordedWait;
using scenario::RecordedWork;
using store::CollectiveOp;
using store::kNone;

// CUPTI's ids of the runtime calls that block or order streams; the second of a pair is for per-thread default streams.
constexpr uint32_t kMemcpy = 31, kMemcpyAsync = 41, kMemcpyAsyncPtsz = 225, kStreamSynchronize = 131, kStreamSynchronizePtsz = 239,
                   kEventSynchronize = 137, kDeviceSynchronize = 165;

struct NamedCall {
  std::string_view name;
  uint32_t cbid;
};
// For sources that name calls without their ids.
constexpr NamedCall kNamedCalls[] = {
    {"cudaLaunchKernel", 211}, {"cudaMemcpyAsync", 41},   {"cudaMemcpy", 31},          {"cudaMemsetAsync", 51},
    {"cudaStreamSynchronize", 131}, {"cudaEventRecord", 135}, {"cudaEventSynchronize", 137}, {"cudaStreamWaitEvent", 147},
    {"cudaDeviceSynchronize", 165}, {"cudaEventQuery", 138}, {"cudaLaunchKernelExC", 430}, {"cudaGraphLaunch", 311},
};

std::optional<scenario::Collective> ToScenario(CollectiveOp op) {
  using scenario::Collective;
  switch (op) {
    case CollectiveOp::kAllReduce: return Collective::kAllReduce;
    case CollectiveOp::kAllGather: return Collective::kAllGather;
    case CollectiveOp::kReduceScatter: return Collective::kReduceScatter;
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV: return Collective::kAllToAll;
    case CollectiveOp::kBroadcast: return Collective::kBroadcast;
    case CollectiveOp::kReduce: return Collective::kReduce;
    case CollectiveOp::kGather: return Collective::kGather;
    case CollectiveOp::kScatter: return Collective::kScatter;
    case CollectiveOp::kSend: return Collective::kSend;
    case CollectiveOp::kReceive: return Collective::kReceive;
    case CollectiveOp::kSendReceive: return Collective::kSendReceive;
    case CollectiveOp::kBarrier: return Collective::kBarrier;
    default: return std::nullopt;
  }
}

uint64_t HashText(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001B3ull;
  return hash | 1;  // 0 would say that NCCL does not know the group
}

class ScenarioMaker {
 public:
  ScenarioMaker(const store::Capture& capture, const align::Matches& matches, const align::ClockModel& clock)
      : capture_(capture), matches_(matches), clock_(clock) {}

  absl::StatusOr<scenario::Scenario> Run() {
    FindShifts();
    if (!FindWindow()) {
      return absl::FailedPreconditionError("export: this capture has no device work, so there is nothing to replay; record kernels (--activities kernel,runtime)");
    }
    PlanCollectives();
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) out_.ranks.push_back(scenario::ToProgram(Record(r)));
    out_.pacing = scenario::Pacing::kLoop;
    out_.period = end_ - origin_;
    if (absl::Status status = scenario::Validate(out_); !status.ok()) return status;
    return std::move(out_);
  }

 private:
  // A place in a scenario's group for one collective of one rank.
  struct Plan {
    uint32_t group;
    scenario::Collective op;
    int32_t peer;
    JobTime needed;
  };

  // Constant per rank: a drifting clock would stretch durations.
  void FindShifts() {
    for (const store::RankData& rank : capture_.ranks) {
      const HostTime middle = rank.activities.empty() ? rank.window.start : rank.activities[rank.activities.size() / 2].start;
      shift_.push_back(clock_.ToJob(rank.host, middle) - JobTime(middle.ns()));
    }
  }

  JobTime At(uint32_t rank, HostTime t) const { return JobTime(t.ns()) + shift_[rank]; }
  Nanos Since(uint32_t rank, HostTime t) const { return At(rank, t) - origin_; }

  bool FindWindow() {
    bool work = false;
    const auto cover = [&](uint32_t r, HostTime start, HostTime end) {
      origin_ = std::min(origin_, At(r, start));
      end_ = std::max(end_, At(r, end));
    };
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      const store::RankData& rank = capture_.ranks[r];
      work |= !rank.activities.empty();
      for (const auto& a : rank.activities) cover(r, a.start, a.end);
      for (const auto& c : rank.api_calls) cover(r, c.start, c.end);
      for (const auto& s : rank.ranges) {
        if (IsWholeStep(s)) cover(r, s.start, s.end);
      }
    }
    return work && end_ > origin_;
  }

  static bool IsWholeStep(const store::HostRange& range) {
    return range.kind == store::RangeKind::kStep && !range.start_unknown && !range.end_unknown && range.end >= range.start;
  }

  const store::DeviceActivity& Activity(const align::Member& m) const {
    const store::RankData& rank = capture_.ranks[m.rank_index];
    return rank.activities[rank.collectives[m.collective].activity];
  }

  // Which collectives are replayed as such, in an order that all members share.
  void PlanCollectives() {
    plans_.resize(capture_.ranks.size());
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) CountPerActivity(r);
    std::map<std::vector<uint32_t>, std::vector<const align::Instance*>> channels;
    for (const align::Instance& instance : matches_.instances) {
      if (!Usable(instance)) continue;
      std::vector<uint32_t> channel = {instance.group};
      for (const align::Member& m : Ordered(instance)) channel.push_back(m.rank_index);
      channels[channel].push_back(&instance);
    }
    for (auto& [channel, instances] : channels) KeepCommonOrder(instances);
  }

  void CountPerActivity(uint32_t r) {
    auto& counts = collectives_of_.emplace_back();
    for (const store::Collective& c : capture_.ranks[r].collectives) ++counts[c.activity];
  }

  static bool IsTransfer(const align::Instance& instance, const store::Capture& capture) {
    const align::Member& m = instance.members[0];
    const CollectiveOp op = capture.ranks[m.rank_index].collectives[m.collective].op;
    return op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
  }

  // Transfers: sender first.
  std::vector<align::Member> Ordered(const align::Instance& instance) const {
    std::vector<align::Member> members = instance.members;
    if (IsTransfer(instance, capture_)) {
      std::stable_sort(members.begin(), members.end(), [&](const align::Member& a, const align::Member& b) { return OpOf(a) == CollectiveOp::kSend && OpOf(b) != CollectiveOp::kSend; });
    }
    return members;
  }

  CollectiveOp OpOf(const align::Member& m) const { return capture_.ranks[m.rank_index].collectives[m.collective].op; }

  bool Usable(const align::Instance& instance) const {
    if (!instance.complete || instance.members.size() < 2 || instance.group >= capture_.groups.size()) return false;
    for (const align::Member& m : instance.members) {
      const store::Collective& c = capture_.ranks[m.rank_index].collectives[m.collective];
      if (c.activity == kNone || !ToScenario(c.op)) return false;
      // One kernel with several transfers cannot be cut apart.
      if (collectives_of_[m.rank_index].at(c.activity) != 1) return false;
    }
    if (!IsTransfer(instance, capture_)) return true;
    const std::vector<align::Member> pair = Ordered(instance);
    return pair.size() == 2 && OpOf(pair[0]) == CollectiveOp::kSend && OpOf(pair[1]) == CollectiveOp::kReceive;
  }

  // Instances that follow each other on every member; a stray one is replayed as a plain kernel.
  void KeepCommonOrder(std::vector<const align::Instance*>& instances) {
    const auto launch = [&](const align::Instance* i, size_t k) { return Activity(Ordered(*i)[k]).start; };
    std::sort(instances.begin(), instances.end(), [&](const align::Instance* a, const align::Instance* b) { return launch(a, 0) < launch(b, 0); });
    std::vector<HostTime> last;
    for (const align::Instance* instance : instances) {
      const size_t n = instance->members.size();
      bool follows = true;
      for (size_t k = 0; k < n && !last.empty(); ++k) follows &= launch(instance, k) > last[k];
      if (!follows) continue;
      last.resize(n);
      for (size_t k = 0; k < n; ++k) last[k] = launch(instance, k);
      Keep(*instance);
    }
  }

  void Keep(const align::Instance& instance) {
    const std::vector<align::Member> members = Ordered(instance);
    const std::vector<uint32_t> order = GroupOrder(instance, members);
    const uint32_t group = GroupFor(instance, order);
    const auto place = [&](uint32_t rank_index) { return static_cast<int32_t>(std::find(order.begin(), order.end(), rank_index) - order.begin()); };
    JobTime all = JobTime::Min();
    for (const align::Member& m : members) all = std::max(all, At(m.rank_index, Activity(m).start));
    const int32_t root = std::max(0, capture_.ranks[members[0].rank_index].collectives[members[0].collective].root);
    for (size_t k = 0; k < members.size(); ++k) {
      const align::Member& m = members[k];
      const scenario::Collective op = *ToScenario(OpOf(m));
      Plan plan{group, op, -1, all};
      const JobTime own = At(m.rank_index, Activity(m).start);
      if (scenario::NeedsOf(op) == Needs::kPeer) {
        plan.peer = place(members[1 - k].rank_index);
        if (op == scenario::Collective::kSend && BytesOf(m) <= out_.buffered_bytes) plan.needed = own;
      } else if (scenario::NeedsOf(op) != Needs::kAll) {
        plan.peer = root;
        const bool is_root = place(m.rank_index) == root;
        if (scenario::NeedsOf(op) == Needs::kRoot) plan.needed = std::max(own, RootStart(members, order, root));
        else if (!is_root) plan.needed = own;
      }
      plans_[m.rank_index].emplace(capture_.ranks[m.rank_index].collectives[m.collective].activity, plan);
    }
  }

  uint64_t BytesOf(const align::Member& m) const {
    return static_cast<uint64_t>(std::max<int64_t>(0, capture_.ranks[m.rank_index].collectives[m.collective].bytes));
  }

  JobTime RootStart(const std::vector<align::Member>& members, const std::vector<uint32_t>& order, int32_t root) const {
    for (const align::Member& m : members) {
      if (static_cast<size_t>(root) < order.size() && m.rank_index == order[root]) return At(m.rank_index, Activity(m).start);
    }
    return JobTime::Min();
  }

  // Entries of Capture::ranks in the order of their rank in the group: its own list where it is known. A transfer names two of
  // a group's members and stands for the whole group only when the others are there too.
  std::vector<uint32_t> GroupOrder(const align::Instance& instance, const std::vector<align::Member>& members) const {
    std::vector<uint32_t> order;
    for (RankId id : capture_.groups[instance.group].members) {
      for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
        if (capture_.ranks[r].rank == id && (order.empty() || order.back() != r)) {
          order.push_back(r);
          break;
        }
      }
    }
    const bool covers = std::all_of(members.begin(), members.end(), [&](const align::Member& m) { return std::find(order.begin(), order.end(), m.rank_index) != order.end(); });
    if (covers && (IsTransfer(instance, capture_) || order.size() == members.size())) return order;
    order.clear();
    for (const align::Member& m : members) order.push_back(m.rank_index);
    std::sort(order.begin(), order.end());
    return order;
  }

  uint32_t GroupFor(const align::Instance& instance, const std::vector<uint32_t>& order) {
    const auto [it, added] = groups_.try_emplace({instance.group, order}, static_cast<uint32_t>(out_.groups.size()));
    if (added) {
      const store::Group& g = capture_.groups[instance.group];
      // NCCL is only told of communicators that the source knew by more than the order of kernels.
      const uint64_t comm = instance.source == store::MatchSource::kOrder ? 0 : HashText(g.key);
      out_.groups.push_back({comm, g.name.empty() ? g.key : g.name, order});
    }
    return it->second;
  }

  uint32_t Name(std::string_view text) {
    const auto [it, added] = names_.try_emplace(std::string(text), static_cast<uint32_t>(out_.names.size()));
    if (added) out_.names.emplace_back(text);
    return it->second;
  }

  template <typename Map>
  static uint32_t IndexOf(Map& map, std::vector<uint32_t>& list, int64_t id) {
    const auto [it, added] = map.try_emplace(id, static_cast<uint32_t>(list.size()));
    if (added) list.push_back(static_cast<uint32_t>(id));
    return it->second;
  }

  RecordedRank Record(uint32_t r) {
    const store::RankData& rank = capture_.ranks[r];
    RecordedRank out;
    out.host = rank.host < capture_.hosts.size() ? capture_.hosts[rank.host].name : "host";
    out.device = rank.device.value();
    out.has_events = !rank.event_records.empty();
    absl::flat_hash_map<int64_t, uint32_t> threads, streams;
    absl::flat_hash_map<uint32_t, uint32_t> call_of;  // by correlation
    RecordCalls(r, out, threads, call_of);
    for (uint32_t a = 0; a < rank.activities.size(); ++a) {
      RecordedWork work = RecordWork(r, a, IndexOf(streams, out.streams, rank.activities[a].stream.value()));
      const auto call = rank.activities[a].correlation.value() == 0 ? call_of.end() : call_of.find(rank.activities[a].correlation.value());
      if (call != call_of.end()) work.call = call->second;
      out.work.push_back(std::move(work));
    }
    RecordSyncs(rank, out, streams, call_of);
    GuessWaits(out);
    RecordSteps(r, out, threads);
    return out;
  }

  void RecordCalls(uint32_t r, RecordedRank& out, absl::flat_hash_map<int64_t, uint32_t>& threads, absl::flat_hash_map<uint32_t, uint32_t>& call_of) {
    for (const store::ApiCall& api : capture_.ranks[r].api_calls) {
      RecordedCall call;
      call.start = Since(r, api.start);
      call.end = std::max(call.start, Since(r, api.end));
      call.thread = IndexOf(threads, out.threads, api.thread.value());
      call.cbid = api.cbid != 0 ? api.cbid : CallbackId(capture_.Text(api.name));
      call.driver = api.driver;
      // A driver call inside a runtime call has its correlation too; work belongs to the outer one.
      if (api.correlation.value() != 0) call_of.try_emplace(api.correlation.value(), static_cast<uint32_t>(out.calls.size()));
      out.calls.push_back(std::move(call));
    }
    if (out.threads.empty()) out.threads.push_back(0);
  }

  static uint32_t CallbackId(std::string_view name) {
    for (const NamedCall& known : kNamedCalls) {
      if (name == known.name) return known.cbid;
    }
    return 0;
  }

  RecordedWork RecordWork(uint32_t r, uint32_t index, uint32_t stream) {
    const store::RankData& rank = capture_.ranks[r];
    const store::DeviceActivity& a = rank.activities[index];
    RecordedWork work;
    work.start = Since(r, a.start);
    work.end = std::max(work.start, Since(r, a.end));
    scenario::Op& op = work.shape;
    op.stream = stream;
    op.kind = a.kind == store::ActivityKind::kKernel ? OpKind::kKernel : a.kind == store::ActivityKind::kMemcpy ? OpKind::kCopy : OpKind::kSet;
    if (op.kind == OpKind::kKernel) {
      op.name = Name(capture_.Text(a.name));
      if (a.detail < rank.kernel_details.size()) SetGeometry(rank.kernel_details[a.detail], op.geometry);
    } else if (a.detail < rank.copy_details.size()) {
      op.bytes = rank.copy_details[a.detail].bytes;
      op.copy_kind = rank.copy_details[a.detail].copy_kind;
    }
    if (const auto plan = plans_[r].find(index); plan != plans_[r].end()) {
      op.kind = OpKind::kCollective;
      op.group = plan->second.group;
      op.collective = plan->second.op;
      op.peer = plan->second.peer;
      work.needed = std::max(work.start, plan->second.needed - origin_);
      const store::Collective& c = rank.collectives[a.collective];
      op.bytes = static_cast<uint64_t>(std::max<int64_t>(0, c.bytes));
      op.datatype = capture_.Text(c.datatype);
    }
    return work;
  }

  static void SetGeometry(const store::KernelDetail& detail, scenario::Geometry& out) {
    for (int i = 0; i < 3; ++i) {
      out.grid[i] = detail.grid[i];
      out.block[i] = detail.block[i];
    }
    out.registers = detail.registers;
    out.static_shared_bytes = detail.static_shared_bytes;
    out.dynamic_shared_bytes = detail.dynamic_shared_bytes;
  }

  void RecordSyncs(const store::RankData& rank, RecordedRank& out, const absl::flat_hash_map<int64_t, uint32_t>& streams,
                   const absl::flat_hash_map<uint32_t, uint32_t>& call_of) {
    absl::flat_hash_map<uint32_t, uint32_t> stream_of_event;
    for (const store::EventRecord& e : rank.event_records) {
      const auto call = call_of.find(e.correlation.value());
      const auto stream = streams.find(e.stream.value());
      if (stream == streams.end()) continue;
      stream_of_event[e.event] = stream->second;
      if (call == call_of.end()) continue;
      out.calls[call->second].event_kind = RecordedEvent::kRecord;
      out.calls[call->second].event = e.event;
      out.calls[call->second].event_stream = stream->second;
    }
    for (const store::Sync& s : rank.syncs) {
      const auto found = call_of.find(s.correlation.value());
      if (s.correlation.value() == 0 || found == call_of.end()) continue;
      RecordedCall& call = out.calls[found->second];
      const auto stream = streams.find(s.stream.value());
      const auto of_event = stream_of_event.find(s.event);
      if (s.type == store::SyncType::kStreamWaitEvent && stream != streams.end() && of_event != stream_of_event.end()) {
        call.event_kind = RecordedEvent::kWait;
        call.event = s.event;
        call.event_stream = stream->second;
      } else if (s.type == store::SyncType::kContext) {
        call.wait = RecordedWait::kAllStreams;
      } else if (s.type == store::SyncType::kStream && stream != streams.end()) {
        call.wait = RecordedWait::kStreams;
        call.wait_streams = {stream->second};
      } else if (s.type == store::SyncType::kEvent && of_event != stream_of_event.end()) {
        call.wait = RecordedWait::kStreams;
        call.wait_streams = {of_event->second};
      }
    }
  }

  // Blocking calls of which only the name is known.
  void GuessWaits(RecordedRank& out) {
    std::vector<Nanos> own_end(out.calls.size());
    for (const RecordedWork& w : out.work) {
      if (w.call != scenario::kNoIndex && w.shape.kind == OpKind::kCopy) own_end[w.call] = std::max(own_end[w.call], w.end);
    }
    for (size_t i = 0; i < out.calls.size(); ++i) {
      RecordedCall& call = out.calls[i];
      if (call.wait != RecordedWait::kNothing || call.driver) continue;
      const bool copy = call.cbid == kMemcpy || call.cbid == kMemcpyAsync || call.cbid == kMemcpyAsyncPtsz;
      const bool sync = call.cbid == kStreamSynchronize || call.cbid == kStreamSynchronizePtsz || call.cbid == kEventSynchronize;
      if (call.cbid == kDeviceSynchronize) call.wait = RecordedWait::kAllStreams;
      // A copy of pageable memory returns when it is done.
      else if (sync || (copy && own_end[i] > call.start && own_end[i] <= call.end)) call.wait = RecordedWait::kSomeStream;
    }
  }

  void RecordSteps(uint32_t r, RecordedRank& out, absl::flat_hash_map<int64_t, uint32_t>& threads) {
    std::vector<const store::HostRange*> steps;
    for (const store::HostRange& range : capture_.ranks[r].ranges) {
      if (IsWholeStep(range) && (steps.empty() || range.start >= steps.back()->end)) steps.push_back(&range);
    }
    for (size_t k = 0; k < steps.size(); ++k) {
      // Numbered through all turns.
      const std::string name = steps.size() == 1 ? "ProfilerStep#{step}" : "ProfilerStep#{step:" + std::to_string(steps.size()) + ":" + std::to_string(k) + "}";
      out.ranges.push_back({Since(r, steps[k]->start), Since(r, steps[k]->end), IndexOf(threads, out.threads, steps[k]->thread.value()), Name(name)});
    }
    // Something must hold the rank's turns to their place in time.
    if (out.calls.empty() && steps.empty()) out.ranges.push_back({Nanos(), Nanos(), 0, Name("turn {step}")});
  }

  const store::Capture& capture_;
  const align::Matches& matches_;
  const align::ClockModel& clock_;
  scenario::Scenario out_;
  std::vector<Nanos> shift_;
  JobTime origin_ = JobTime::Max();
  JobTime end_ = JobTime::Min();
  std::vector<absl::flat_hash_map<uint32_t, uint32_t>> collectives_of_;  // per rank: collectives of an activity
  std::vector<absl::flat_hash_map<uint32_t, Plan>> plans_;               // per rank, by activity
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, uint32_t> groups_;
  absl::flat_hash_map<std::string, uint32_t> names_;
};

}  // namespace

absl::StatusOr<scenario::Scenario> MakeScenario(const store::Capture& capture, const align::Matches& matches,
                                                const align::ClockModel& clock) {
  return ScenarioMaker(capture, matches, clock).Run();
}

absl::Status WriteScenario(const store::Capture& capture, const align::Matches& matches, const align::ClockModel& clock,
                           store::ByteSink& sink) {
  absl::StatusOr<scenario::Scenario> scenario = MakeScenario(capture, matches, clock);
  if (!scenario.ok()) return scenario.status();
  return scenario::Write(*scenario, [&](std::string_view text) { return sink.Append(text); });
}

}  // namespace lockstep::trace
