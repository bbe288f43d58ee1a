#include "formats/scenario/scenario_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "capture/model/step_ranges.h"
#include "formats/scenario/scenario_collectives.h"
#include "scenario/recorded.h"

namespace lockstep::formats {
namespace {

using scenario::OpKind;
using scenario::RecordedCall;
using scenario::RecordedEvent;
using scenario::RecordedRank;
using scenario::RecordedWait;
using scenario::RecordedWork;

// CUPTI's ids of the runtime calls that block or order streams. The variant with Ptsz uses the per-thread
// default stream.
constexpr uint32_t kMemcpy = 31, kMemcpyAsync = 41, kMemcpyAsyncPtsz = 225, kStreamSynchronize = 131,
                   kStreamSynchronizePtsz = 239, kEventSynchronize = 137, kDeviceSynchronize = 165;

struct NamedCall {
  std::string_view name;
  uint32_t cbid;
};
// For sources that name calls without their ids.
constexpr NamedCall kNamedCalls[] = {
    {"cudaLaunchKernel", 211},     {"cudaMemcpyAsync", 41},        {"cudaMemcpy", 31},
    {"cudaMemsetAsync", 51},       {"cudaStreamSynchronize", 131}, {"cudaEventRecord", 135},
    {"cudaEventSynchronize", 137}, {"cudaStreamWaitEvent", 147},   {"cudaDeviceSynchronize", 165},
    {"cudaEventQuery", 138},       {"cudaLaunchKernelExC", 430},   {"cudaGraphLaunch", 311},
};

class ScenarioMaker {
 public:
  ScenarioMaker(const capture::Capture& capture, const capture::Matches& matches,
                const capture::ClockModel& clock)
      : capture_(capture), matches_(matches), clock_(clock) {}

  absl::StatusOr<scenario::Scenario> Run() {
    FindShifts();
    if (!FindWindow()) {
      return absl::FailedPreconditionError(
          "export: this capture has no device work, so there is nothing to replay; record kernels "
          "(--activities kernel,runtime)");
    }
    plans_ = PlanCollectives(capture_, matches_, shift_, out_.buffered_bytes);
    out_.groups = plans_.groups;
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) out_.ranks.push_back(scenario::ToProgram(Record(r)));
    out_.pacing = scenario::Pacing::kLoop;
    out_.period = end_ - origin_;
    if (absl::Status status = scenario::Validate(out_); !status.ok()) return status;
    return std::move(out_);
  }

 private:
  // The shift is constant per rank, because a drifting clock would change durations.
  void FindShifts() {
    for (const capture::RankData& rank : capture_.ranks) {
      const HostTime middle =
          rank.activities.empty() ? rank.window.start : rank.activities[rank.activities.size() / 2].start;
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
      const capture::RankData& rank = capture_.ranks[r];
      work |= !rank.activities.empty();
      for (const auto& a : rank.activities) cover(r, a.start, a.end);
      for (const auto& c : rank.api_calls) cover(r, c.start, c.end);
      for (const auto& s : rank.ranges) {
        if (IsWholeStep(s)) cover(r, s.start, s.end);
      }
    }
    return work && end_ > origin_;
  }

  static bool IsWholeStep(const capture::HostRange& range) {
    return range.kind == capture::RangeKind::kStep && !range.start_unknown && !range.end_unknown &&
           range.end >= range.start;
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
    const capture::RankData& rank = capture_.ranks[r];
    RecordedRank out;
    out.host = rank.host < capture_.hosts.size() ? capture_.hosts[rank.host].ShownName() : "host";
    out.device = rank.device.value();
    out.has_events = !rank.event_records.empty();
    absl::flat_hash_map<int64_t, uint32_t> threads, streams;
    absl::flat_hash_map<uint32_t, uint32_t> call_of;  // by correlation
    RecordCalls(r, out, threads, call_of);
    for (uint32_t a = 0; a < rank.activities.size(); ++a) {
      RecordedWork work = RecordWork(r, a, IndexOf(streams, out.streams, rank.activities[a].stream.value()));
      const auto call = rank.activities[a].correlation.value() == 0
                            ? call_of.end()
                            : call_of.find(rank.activities[a].correlation.value());
      if (call != call_of.end()) work.call = call->second;
      out.work.push_back(std::move(work));
    }
    RecordSyncs(rank, out, streams, call_of);
    GuessWaits(out);
    RecordSteps(r, out, threads);
    return out;
  }

  void RecordCalls(uint32_t r, RecordedRank& out, absl::flat_hash_map<int64_t, uint32_t>& threads,
                   absl::flat_hash_map<uint32_t, uint32_t>& call_of) {
    for (const capture::ApiCall& api : capture_.ranks[r].api_calls) {
      RecordedCall call;
      call.start = Since(r, api.start);
      call.end = std::max(call.start, Since(r, api.end));
      call.thread = IndexOf(threads, out.threads, api.thread.value());
      call.cbid = api.cbid != 0 ? api.cbid : CallbackId(capture_.Text(api.name));
      call.driver = api.driver;
      // A driver call inside a runtime call has the same correlation. The work belongs to the outer call.
      if (api.correlation.value() != 0)
        call_of.try_emplace(api.correlation.value(), static_cast<uint32_t>(out.calls.size()));
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
    const capture::RankData& rank = capture_.ranks[r];
    const capture::DeviceActivity& a = rank.activities[index];
    RecordedWork work;
    work.start = Since(r, a.start);
    work.end = std::max(work.start, Since(r, a.end));
    scenario::Op& op = work.shape;
    op.stream = stream;
    op.kind = a.kind == capture::ActivityKind::kKernel   ? OpKind::kKernel
              : a.kind == capture::ActivityKind::kMemcpy ? OpKind::kCopy
                                                         : OpKind::kSet;
    if (op.kind == OpKind::kKernel) {
      op.name = Name(capture_.Text(a.name));
      if (a.detail < rank.kernel_details.size()) SetGeometry(rank.kernel_details[a.detail], op.geometry);
    } else if (a.detail < rank.copy_details.size()) {
      op.bytes = rank.copy_details[a.detail].bytes;
      op.copy_kind = rank.copy_details[a.detail].copy_kind;
    }
    const auto& plans = plans_.by_rank[r];
    if (const auto plan = plans.find(index); plan != plans.end()) {
      op.kind = OpKind::kCollective;
      op.group = plan->second.group;
      op.collective = plan->second.op;
      op.peer = plan->second.peer;
      work.needed = std::max(work.start, plan->second.needed - origin_);
      const capture::Collective& c = rank.collectives[a.collective];
      op.bytes = static_cast<uint64_t>(std::max<int64_t>(0, c.bytes));
      if (const auto& messages = plan->second.messages; !messages.empty()) {
        op.bytes = messages[0].bytes;
        op.more.assign(messages.begin() + 1, messages.end());
      }
      op.datatype = capture_.Text(c.datatype);
    }
    return work;
  }

  static void SetGeometry(const capture::KernelDetail& detail, scenario::Geometry& out) {
    for (int i = 0; i < 3; ++i) {
      out.grid[i] = detail.grid[i];
      out.block[i] = detail.block[i];
    }
    out.registers = detail.registers;
    out.static_shared_bytes = detail.static_shared_bytes;
    out.dynamic_shared_bytes = detail.dynamic_shared_bytes;
  }

  void RecordSyncs(const capture::RankData& rank, RecordedRank& out,
                   const absl::flat_hash_map<int64_t, uint32_t>& streams,
                   const absl::flat_hash_map<uint32_t, uint32_t>& call_of) {
    absl::flat_hash_map<uint32_t, uint32_t> stream_of_event;
    for (const capture::EventRecord& e : rank.event_records) {
      const auto call = call_of.find(e.correlation.value());
      const auto stream = streams.find(e.stream.value());
      if (stream == streams.end()) continue;
      stream_of_event[e.event] = stream->second;
      if (call == call_of.end()) continue;
      out.calls[call->second].event_kind = RecordedEvent::kRecord;
      out.calls[call->second].event = e.event;
      out.calls[call->second].event_stream = stream->second;
    }
    for (const capture::Sync& s : rank.syncs) {
      const auto found = call_of.find(s.correlation.value());
      if (s.correlation.value() == 0 || found == call_of.end()) continue;
      RecordedCall& call = out.calls[found->second];
      const auto stream = streams.find(s.stream.value());
      const auto of_event = stream_of_event.find(s.event);
      if (s.type == capture::SyncType::kStreamWaitEvent && stream != streams.end() &&
          of_event != stream_of_event.end()) {
        call.event_kind = RecordedEvent::kWait;
        call.event = s.event;
        call.event_stream = stream->second;
      } else if (s.type == capture::SyncType::kContext) {
        call.wait = RecordedWait::kAllStreams;
      } else if (s.type == capture::SyncType::kStream && stream != streams.end()) {
        call.wait = RecordedWait::kStreams;
        call.wait_streams = {stream->second};
      } else if (s.type == capture::SyncType::kEvent && of_event != stream_of_event.end()) {
        call.wait = RecordedWait::kStreams;
        call.wait_streams = {of_event->second};
      }
    }
  }

  // Infers the waits of blocking calls of which only the name is known.
  void GuessWaits(RecordedRank& out) {
    std::vector<Nanos> own_end(out.calls.size());
    for (const RecordedWork& w : out.work) {
      if (w.call != scenario::kNoIndex && w.shape.kind == OpKind::kCopy)
        own_end[w.call] = std::max(own_end[w.call], w.end);
    }
    for (size_t i = 0; i < out.calls.size(); ++i) {
      RecordedCall& call = out.calls[i];
      if (call.wait != RecordedWait::kNothing || call.driver) continue;
      const bool copy = call.cbid == kMemcpy || call.cbid == kMemcpyAsync || call.cbid == kMemcpyAsyncPtsz;
      const bool sync = call.cbid == kStreamSynchronize || call.cbid == kStreamSynchronizePtsz ||
                        call.cbid == kEventSynchronize;
      if (call.cbid == kDeviceSynchronize) call.wait = RecordedWait::kAllStreams;
      // A copy of pageable memory returns when the copy is complete.
      else if (sync || (copy && own_end[i] > call.start && own_end[i] <= call.end))
        call.wait = RecordedWait::kSomeStream;
    }
  }

  void RecordSteps(uint32_t r, RecordedRank& out, absl::flat_hash_map<int64_t, uint32_t>& threads) {
    std::vector<const capture::HostRange*> steps;
    std::vector<HostTime> ends;
    for (const capture::HostRange& range : capture_.ranks[r].ranges) {
      if (!IsWholeStep(range)) continue;
      if (!steps.empty() && range.start < ends.back()) {
        if (!capture::Follows({steps.back()->start, ends.back()}, {range.start, range.end})) continue;
        ends.back() = range.start;
      }
      steps.push_back(&range);
      ends.push_back(range.end);
    }
    for (size_t k = 0; k < steps.size(); ++k) {
      // The number counts up through all turns.
      const std::string name = steps.size() == 1 ? "ProfilerStep#{step}"
                                                 : "ProfilerStep#{step:" + std::to_string(steps.size()) +
                                                       ":" + std::to_string(k) + "}";
      out.ranges.push_back({Since(r, steps[k]->start), Since(r, ends[k]),
                            IndexOf(threads, out.threads, steps[k]->thread.value()), Name(name)});
    }
    // At least one call or range must give each turn of the rank its place in time.
    if (out.calls.empty() && steps.empty()) out.ranges.push_back({Nanos(), Nanos(), 0, Name("turn {step}")});
  }

  const capture::Capture& capture_;
  const capture::Matches& matches_;
  const capture::ClockModel& clock_;
  scenario::Scenario out_;
  std::vector<Nanos> shift_;
  JobTime origin_ = JobTime::Max();
  JobTime end_ = JobTime::Min();
  CollectivePlans plans_;
  absl::flat_hash_map<std::string, uint32_t> names_;
};

}  // namespace

absl::StatusOr<scenario::Scenario> MakeScenario(const capture::Capture& capture,
                                                const capture::Matches& matches,
                                                const capture::ClockModel& clock) {
  return ScenarioMaker(capture, matches, clock).Run();
}

absl::Status WriteScenario(const capture::Capture& capture, const capture::Matches& matches,
                           const capture::ClockModel& clock, ByteSink& sink) {
  absl::StatusOr<scenario::Scenario> scenario = MakeScenario(capture, matches, clock);
  if (!scenario.ok()) return scenario.status();
  return scenario::Write(*scenario, [&](std::string_view text) { return sink.Append(text); });
}

}  // namespace lockstep::formats
