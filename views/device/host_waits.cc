#include "views/device/host_waits.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/call_names.h"
#include "views/device/awaited_work.h"
#include "views/host/host_tree.h"
#include "views/host/operator_passes.h"

namespace lockstep::views {
namespace {

using capture::kNone;

// A row under construction.
struct Waiting {
  HostWaitRow row;
  absl::flat_hash_map<std::pair<NameId, std::string_view>, Nanos> awaited;
  bool unsplit = false;
};

enum class MoreWork : uint8_t { kSomething, kNothing };

// Divides `whole` into parts. In a part with running work, on_run receives the running activity that ends
// last. In other parts, on_gap receives whether more work follows. `work` is in the order of starts.
template <typename OnRun, typename OnGap>
void Sweep(const std::vector<capture::DeviceActivity>& activities, const HostInterval& whole,
           const std::vector<uint32_t>& work, const OnRun& on_run, const OnGap& on_gap) {
  const auto ends_first = [&](uint32_t a, uint32_t b) {
    return std::tie(activities[a].end, a) < std::tie(activities[b].end, b);
  };
  std::priority_queue<uint32_t, std::vector<uint32_t>, decltype(ends_first)> running(ends_first);
  size_t next = 0;
  for (HostTime at = whole.start; at < whole.end;) {
    while (next < work.size() && activities[work[next]].start <= at) running.push(work[next++]);
    while (!running.empty() && activities[running.top()].end <= at) running.pop();
    HostTime until = next < work.size() ? std::min(whole.end, activities[work[next]].start) : whole.end;
    if (running.empty()) {
      on_gap(HostInterval{at, until}, next < work.size() ? MoreWork::kSomething : MoreWork::kNothing);
    } else {
      until = std::min(until, activities[running.top()].end);
      on_run(running.top(), HostInterval{at, until});
    }
    at = until;
  }
}

// Collects the waits of one process.
class ProcessWaits {
 public:
  ProcessWaits(const capture::Capture& capture, const analysis::CollectiveTimes& times,
               const analysis::CallNames& names, const Process& process)
      : capture_(capture), times_(times), names_(names), process_(process) {
    if (process.frames == nullptr) return;
    tree_ = BuildHostTree(capture, process, kOperatorsAndAnnotations);
    for (const Launch& launch : tree_.launches) launched_by_[launch.activity.entry].push_back(launch.node);
  }

  void Add(HostWaits& out) {
    for (const uint32_t entry : process_.entries) AddEntry(entry, out);
    for (Waiting& w : waiting_) {
      for (const auto& [what, time] : w.awaited)
        w.row.awaited.push_back({capture_.Text(what.first), what.second, time});
      std::sort(w.row.awaited.begin(), w.row.awaited.end(), [](const Awaited& a, const Awaited& b) {
        return std::tie(b.time, a.name, a.launched_by) < std::tie(a.time, b.name, b.launched_by);
      });
      if (w.unsplit) {
        w.row.transfer += w.row.other_ranks.value_or(Nanos());
        w.row.other_ranks.reset();
      }
      out.rows.push_back(std::move(w.row));
    }
  }

 private:
  void AddEntry(uint32_t entry, HostWaits& out) {
    const capture::RankData& rank = capture_.ranks[entry];
    const AwaitedWork work(rank);
    for (const capture::ApiCall& call : rank.api_calls) {
      const analysis::CallRole role = names_.Of(call.name);
      if (role == analysis::CallRole::kSynchronizes) {
        const AwaitedWork::Target target = work.TargetOf(call);
        out.unnamed += target.is_named ? 0 : 1;
        Cut(entry, call, work, work.Unfinished(target, {call.start, call.end}));
      } else if (role == analysis::CallRole::kCopies) {
        const uint32_t copy = work.BlockingCopy(call);
        if (copy == kNone) continue;
        Cut(entry, call, work,
            work.Unfinished({.stream = rank.activities[copy].stream, .launched_before = call.start},
                            {call.start, call.end}));
      }
    }
  }

  // Divides the length of the call over the work that ran during it.
  void Cut(uint32_t entry, const capture::ApiCall& call, const AwaitedWork& all,
           const std::vector<uint32_t>& work) {
    Waiting& w = RowOf(call);
    ++w.row.calls;
    w.row.blocked += call.end - call.start;
    const auto& activities = capture_.ranks[entry].activities;
    const auto charge = [&](uint32_t activity, const HostInterval& part) {
      Charge(entry, activity, part, w);
    };
    Sweep(activities, {call.start, call.end}, work, charge, [&](const HostInterval& gap, MoreWork later) {
      if (later == MoreWork::kNothing) {
        w.row.after += gap.end - gap.start;
        return;
      }
      const auto queue = [&](uint32_t activity, const HostInterval& part) {
        if (activities[activity].type() == capture::WorkType::kCommunication) {
          Charge(entry, activity, part, w);
          return;
        }
        w.row.queued += part.end - part.start;
        w.awaited[{activities[activity].name, LaunchedBy(entry, activity)}] += part.end - part.start;
      };
      const auto idle = [&](const HostInterval& part, MoreWork) { w.row.latency += part.end - part.start; };
      Sweep(activities, gap, all.Unfinished({.stream = std::nullopt, .launched_before = call.start}, gap),
            queue, idle);
    });
  }

  void Charge(uint32_t entry, uint32_t activity, const HostInterval& part, Waiting& w) {
    const capture::DeviceActivity& a = capture_.ranks[entry].activities[activity];
    const Nanos length = part.end - part.start;
    w.awaited[{a.name, LaunchedBy(entry, activity)}] += length;
    if (a.type() == capture::WorkType::kMemory) {
      w.row.copy += length;
    } else if (a.type() == capture::WorkType::kCompute) {
      w.row.compute += length;
    } else {
      const analysis::Part* split =
          a.collective < times_.parts[entry].size() ? &times_.parts[entry][a.collective] : nullptr;
      Nanos waited;
      if (split != nullptr && split->split)
        waited = std::clamp(a.start + split->wait - part.start, Nanos(), length);
      w.unsplit |= split == nullptr || !split->split;
      w.row.other_ranks = w.row.other_ranks.value_or(Nanos()) + waited;
      w.row.transfer += length - waited;
    }
  }

  std::string_view LaunchedBy(uint32_t entry, uint32_t activity) const {
    const auto it = launched_by_.find(entry);
    uint32_t node = it == launched_by_.end() ? kNone : it->second[activity];
    while (node != kNone && !IsOperatorFrame(FrameOf(node), NameOf(node))) node = tree_.nodes[node].parent;
    return node == kNone ? "" : NameOf(node);
  }

  Waiting& RowOf(const capture::ApiCall& call) {
    std::string_view called_by, range;
    uint32_t node = process_.frames == nullptr ? kNone : tree_.At(*process_.frames, call.thread, call.start);
    for (; node != kNone; node = tree_.nodes[node].parent) {
      const std::string_view name = NameOf(node);
      if (IsOperatorFrame(FrameOf(node), name)) {
        called_by = name;
      } else if (range.empty() && !name.starts_with("ProfilerStep#")) {
        range = name;
      }
    }
    const auto [it, fresh] =
        places_.try_emplace(std::tuple(call.thread, call.name, called_by, range), waiting_.size());
    if (fresh) {
      HostWaitRow row{.rank = process_.rank,
                      .thread = call.thread,
                      .call = capture_.Text(call.name),
                      .called_by = called_by,
                      .range = range};
      row.other_ranks = Nanos();
      waiting_.push_back({.row = std::move(row)});
    }
    return waiting_[it->second];
  }

  const capture::HostFrame& FrameOf(uint32_t node) const {
    return process_.frames->frames[tree_.nodes[node].frame];
  }
  std::string_view NameOf(uint32_t node) const { return capture_.Text(FrameOf(node).name); }

  const capture::Capture& capture_;
  const analysis::CollectiveTimes& times_;
  const analysis::CallNames& names_;
  const Process& process_;
  HostTree tree_;
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>>
      launched_by_;  // by entry: the node that launched each activity
  absl::flat_hash_map<std::tuple<ThreadId, NameId, std::string_view, std::string_view>, size_t> places_;
  std::vector<Waiting> waiting_;
};

}  // namespace

HostWaits HostWaitsOf(const capture::Capture& capture, const analysis::CollectiveTimes& times,
                      const std::vector<RankId>& only) {
  HostWaits out;
  const analysis::CallNames names(capture);
  for (const Process& process : ProcessesOf(capture)) {
    if (!only.empty() && std::find(only.begin(), only.end(), process.rank) == only.end()) continue;
    ProcessWaits(capture, times, names, process).Add(out);
  }
  std::stable_sort(out.rows.begin(), out.rows.end(), [](const HostWaitRow& a, const HostWaitRow& b) {
    return std::tie(b.blocked, a.call, a.called_by) < std::tie(a.blocked, b.call, b.called_by);
  });
  return out;
}

}  // namespace lockstep::views
