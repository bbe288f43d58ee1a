// Finish(): adds what sources leave out of a capture, and sorts what they leave unordered.
#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/step_name.h"
#include "capture/model/capture.h"
#include "capture/model/compact.h"
#include "capture/model/copy_name.h"
#include "capture/model/kernel_name.h"
#include "capture/model/row_overflow.h"

namespace lockstep::capture {
namespace {

// A larger world size is a damaged number.
constexpr int32_t kLargestWorld = 1 << 20;

// Number of ranges around a launch that are searched outward for one that names a collective.
constexpr int kEnclosingRanges = 64;

template <typename T>
void SortByStart(std::vector<T>& rows) {
  const auto earlier = [](const T& a, const T& b) {
    return std::pair(a.start, a.end) < std::pair(b.start, b.end);
  };
  if (!std::is_sorted(rows.begin(), rows.end(), earlier)) std::stable_sort(rows.begin(), rows.end(), earlier);
}

// Ranges that open together are nested: the outer, longer one comes first.
void SortRanges(std::vector<HostRange>& ranges) {
  const auto outer_first = [](const HostRange& a, const HostRange& b) {
    if (a.start != b.start) return a.start < b.start;
    if (a.end != b.end) return a.end > b.end;
    return a.depth < b.depth;
  };
  if (!std::is_sorted(ranges.begin(), ranges.end(), outer_first)) {
    std::stable_sort(ranges.begin(), ranges.end(), outer_first);
  }
}

// Sorts `rows` with `less`. Returns the new index of each old one, or an empty list if no row moved.
template <typename T, typename Less>
std::vector<uint32_t> SortAndMap(std::vector<T>& rows, Less less) {
  if (std::is_sorted(rows.begin(), rows.end(), less)) return {};
  std::vector<uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return less(rows[a], rows[b]); });
  std::vector<T> sorted;
  sorted.reserve(rows.size());
  std::vector<uint32_t> moved_to(rows.size());
  for (uint32_t place = 0; place < order.size(); ++place) {
    sorted.push_back(std::move(rows[order[place]]));
    moved_to[order[place]] = place;
  }
  rows = std::move(sorted);
  return moved_to;
}

void SortNcclTimings(RankData& rank) {
  SortByStart(rank.channel_timings);
  SortByStart(rank.proxy_ops);
}

void SortObjects(RankData& rank) {
  const auto by_context = [](const DeviceContext& a, const DeviceContext& b) {
    return a.context < b.context;
  };
  const auto by_stream = [](const DeviceStream& a, const DeviceStream& b) {
    return std::pair(a.context, a.stream) < std::pair(b.context, b.stream);
  };
  std::sort(rank.contexts.begin(), rank.contexts.end(), by_context);
  std::sort(rank.streams.begin(), rank.streams.end(), by_stream);
  std::stable_sort(rank.memory_ops.begin(), rank.memory_ops.end(),
                   [](const MemoryOp& a, const MemoryOp& b) { return a.time < b.time; });
}

void SortActivities(RankData& rank) {
  const auto moved = SortAndMap(rank.activities, [](const DeviceActivity& a, const DeviceActivity& b) {
    return std::pair(a.start, a.end) < std::pair(b.start, b.end);
  });
  if (moved.empty()) return;
  for (Collective& c : rank.collectives) {
    if (c.activity < moved.size()) c.activity = moved[c.activity];
  }
}

void SortCollectives(RankData& rank) {
  const auto moved = SortAndMap(
      rank.collectives, [](const Collective& a, const Collective& b) { return a.activity < b.activity; });
  if (moved.empty()) return;
  for (DeviceActivity& a : rank.activities) {
    if (a.collective < moved.size()) a.collective = moved[a.collective];
  }
}

void MarkSteps(const StringTable& strings, RankData& rank) {
  absl::flat_hash_map<NameId, bool> is_step;
  for (HostRange& range : rank.ranges) {
    auto [it, fresh] = is_step.try_emplace(range.name, false);
    uint64_t number = 0;
    if (fresh) it->second = NamesStep(strings.Text(range.name), &number);
    if (it->second && range.kind != RangeKind::kStep) range.kind = RangeKind::kStep;
  }
}

// Names that replace others. All names are found before a row is written, so that they have the same numbers
// whether ranks stay in memory or not.
class NewNames {
 public:
  NewNames(const std::vector<RankData>& ranks, StringTable& strings) : demangled_(strings.size(), kUnseen) {
    DemangleKernels(ranks, strings);
    NameCopies(ranks, strings);
  }

  void Give(RankData& rank) const {
    for (DeviceActivity& a : rank.activities) {
      if (a.kind == ActivityKind::kKernel) {
        if (a.name.value() < demangled_.size() && a.name != demangled_[a.name.value()])
          a.name = demangled_[a.name.value()];
      } else if (LacksName(rank, a)) {
        a.name = copies_.at(KeyOf(a, rank.copy_details[a.detail]));
      }
    }
  }

 private:
  static constexpr NameId kUnseen{kNone};

  // Live captures have kernels under their linker names.
  void DemangleKernels(const std::vector<RankData>& ranks, StringTable& strings) {
    for (const RankData& rank : ranks) {
      for (const DeviceActivity& a : rank.activities) {
        if (a.kind != ActivityKind::kKernel || a.name.value() >= demangled_.size()) continue;
        NameId& demangled = demangled_[a.name.value()];
        if (demangled != kUnseen) continue;
        const std::string name = DemangledKernelName(strings.Text(a.name));
        demangled = name.empty() ? a.name : strings.Intern(name);
      }
    }
  }

  // Some sources give copies a kind but no name.
  void NameCopies(const std::vector<RankData>& ranks, StringTable& strings) {
    for (const RankData& rank : ranks) {
      for (const DeviceActivity& a : rank.activities) {
        if (a.kind == ActivityKind::kKernel || !LacksName(rank, a)) continue;
        const CopyDetail& detail = rank.copy_details[a.detail];
        const auto [it, fresh] = copies_.try_emplace(KeyOf(a, detail));
        if (fresh) it->second = strings.Intern(CopyName(a.kind, detail));
      }
    }
  }

  static bool LacksName(const RankData& rank, const DeviceActivity& a) {
    return a.name == kNoName && a.detail < rank.copy_details.size();
  }
  static uint32_t KeyOf(const DeviceActivity& a, const CopyDetail& d) {
    const bool set = a.kind == ActivityKind::kMemset;
    return uint32_t{set} << 24 | uint32_t{d.copy_kind} << 16 | uint32_t{d.src_kind} << 8 | d.dst_kind;
  }

  std::vector<NameId> demangled_;  // by the old name; kUnseen: not a kernel's
  absl::flat_hash_map<uint32_t, NameId> copies_;
};

// Caches the kernel class of each name in a capture.
class NameClasses {
 public:
  explicit NameClasses(const StringTable& strings) : strings_(strings) {}
  NameClass Of(NameId id) {
    if (id.value() >= known_.size()) known_.resize(std::max<size_t>(strings_.size(), id.value() + 1));
    std::optional<NameClass>& known = known_[id.value()];
    if (!known) known = ClassifyKernelName(strings_.Text(id));
    return *known;
  }

 private:
  const StringTable& strings_;
  std::vector<std::optional<NameClass>> known_;
};

// Gives every communication kernel its Collective.
void ClassifyKernels(NameClasses& classes, RankData& rank) {
  for (uint32_t i = 0; i < rank.collectives.size(); ++i) {
    const uint32_t activity = rank.collectives[i].activity;
    if (activity < rank.activities.size() && rank.activities[activity].collective == kNone) {
      rank.activities[activity].collective = i;
    }
  }
  for (uint32_t i = 0; i < rank.activities.size(); ++i) {
    DeviceActivity& a = rank.activities[i];
    if (a.kind != ActivityKind::kKernel && !a.communication) continue;
    if (a.collective < rank.collectives.size()) {
      // The page of a row that is on a disk becomes memory if it is written.
      if (!a.communication) a.communication = true;
      Collective& c = rank.collectives[a.collective];
      if (c.op == CollectiveOp::kUnknown) c.op = classes.Of(a.name).op;
      continue;
    }
    if (a.kind != ActivityKind::kKernel) continue;  // another copy of a collective on the copy engines
    const NameClass name_class = classes.Of(a.name);
    if (!a.communication && !name_class.communication) continue;
    a.communication = true;
    a.collective = static_cast<uint32_t>(rank.collectives.size());
    rank.collectives.push_back({.activity = i, .op = name_class.op});
  }
}

// "nccl:all_to_all" and "ncclAllReduce" name a collective; a user's own "reduce results" does not.
CollectiveOp OpOfRange(std::string_view name) {
  if (!name.starts_with("nccl") && !name.starts_with("rccl")) return CollectiveOp::kUnknown;
  return CollectiveOpFromText(name);
}

// A SendRecv kernel may be an all-to-all, and RCCL's kernel names hide every operation. The range around the
// launch (PyTorch's "nccl:…" annotations, NCCL's own NVTX) states the requested operation.
class LaunchRanges {
 public:
  LaunchRanges(const StringTable& strings, const RankData& rank) {
    for (uint32_t i = 0; i < rank.ranges.size(); ++i) {
      const HostRange& range = rank.ranges[i];
      const CollectiveOp op = OpOfRange(strings.Text(range.name));
      if (op != CollectiveOp::kUnknown) by_thread_[range.thread].push_back({range.start, range.end, op});
    }
  }
  bool empty() const { return by_thread_.empty(); }

  CollectiveOp Around(const ApiCall& launch) const {
    auto it = by_thread_.find(launch.thread);
    if (it == by_thread_.end()) return CollectiveOp::kUnknown;
    const std::vector<Named>& named = it->second;  // sorted by start, as the rank's ranges are
    auto after = std::upper_bound(named.begin(), named.end(), launch.start,
                                  [](HostTime t, const Named& n) { return t < n.start; });
    for (int looked = 0; after != named.begin() && looked < kEnclosingRanges; ++looked) {
      --after;
      if (after->end >= launch.start) return after->op;
    }
    return CollectiveOp::kUnknown;
  }

 private:
  struct Named {
    HostTime start;
    HostTime end;
    CollectiveOp op;
  };
  absl::flat_hash_map<ThreadId, std::vector<Named>> by_thread_;
};

void NameCollectivesByLaunch(const StringTable& strings, RankData& rank) {
  absl::flat_hash_map<CorrelationId, std::vector<uint32_t>> wanted;
  for (uint32_t i = 0; i < rank.collectives.size(); ++i) {
    const Collective& c = rank.collectives[i];
    if (c.source != MatchSource::kOrder || c.activity >= rank.activities.size()) continue;
    if (c.op != CollectiveOp::kUnknown && c.op != CollectiveOp::kSendReceive) continue;
    const CorrelationId correlation = rank.activities[c.activity].correlation;
    if (correlation.value() != 0) wanted[correlation].push_back(i);
  }
  if (wanted.empty()) return;
  const LaunchRanges ranges(strings, rank);
  if (ranges.empty()) return;
  for (const ApiCall& call : rank.api_calls) {
    auto it = wanted.find(call.correlation);
    if (it == wanted.end()) continue;
    const CollectiveOp op = ranges.Around(call);
    if (op == CollectiveOp::kUnknown) continue;
    for (uint32_t i : it->second) rank.collectives[i].op = op;
  }
}

void InferWorldSize(Capture& capture) {
  if (capture.world_size < 0 || capture.world_size > kLargestWorld) {
    capture.notes.push_back("the stated world size is impossible and is not used");
    capture.world_size = 0;
  }
  int32_t seen = 0;
  for (const RankData& r : capture.ranks) {
    if (r.rank.value() < kLargestWorld) seen = std::max(seen, r.rank.value() + 1);
  }
  for (const Group& g : capture.groups) {
    for (RankId m : g.members) {
      if (m.value() < kLargestWorld) seen = std::max(seen, m.value() + 1);
    }
    if (g.size <= kLargestWorld) seen = std::max(seen, g.size);
  }
  capture.world_size = std::max(capture.world_size, seen);
}

void NameMissingRanks(Capture& capture) {
  absl::flat_hash_set<RankId> known(capture.missing_ranks.begin(), capture.missing_ranks.end());
  for (const RankData& r : capture.ranks) known.insert(r.rank);
  for (int32_t i = 0; i < capture.world_size; ++i) {
    if (!known.contains(RankId(i))) capture.missing_ranks.push_back(RankId(i));
  }
  std::sort(capture.missing_ranks.begin(), capture.missing_ranks.end());
}

std::vector<RankId> AllRanks(int32_t world_size) {
  std::vector<RankId> all;
  all.reserve(world_size);
  for (int32_t i = 0; i < world_size; ++i) all.push_back(RankId(i));
  return all;
}

// Collectives without a known communicator are assumed to span the job.
void GiveGroups(Capture& capture) {
  for (Group& g : capture.groups) {
    if (g.size == 0) g.size = static_cast<int32_t>(g.members.size());
    if (g.members.empty() && g.size == capture.world_size) g.members = AllRanks(capture.world_size);
  }
  uint32_t world = kNone;
  for (RankData& r : capture.ranks) {
    for (Collective& c : r.collectives) {
      if (c.group < capture.groups.size()) continue;
      if (world == kNone) {
        world = static_cast<uint32_t>(capture.groups.size());
        capture.groups.push_back({.key = "world",
                                  .name = "world",
                                  .members = AllRanks(capture.world_size),
                                  .size = capture.world_size,
                                  .origin = GroupOrigin::kAssumed});
      }
      c.group = world;
    }
  }
}

}  // namespace

void Finish(Capture& capture, RowOverflow* overflow) {
  const NewNames names(capture.ranks, capture.strings);
  NameClasses classes(capture.strings);
  for (RankData& rank : capture.ranks) {
    names.Give(rank);
    SortByStart(rank.api_calls);
    SortByStart(rank.syncs);
    SortNcclTimings(rank);
    SortObjects(rank);
    SortRanges(rank.ranges);
    std::stable_sort(rank.clocks.begin(), rank.clocks.end(),
                     [](const ClockReading& a, const ClockReading& b) { return a.realtime < b.realtime; });
    SortActivities(rank);
    ClassifyKernels(classes, rank);
    SortCollectives(rank);
    MarkSteps(capture.strings, rank);
    NameCollectivesByLaunch(capture.strings, rank);
    Compact(rank);
    if (overflow != nullptr) overflow->Move(rank);
  }
  std::stable_sort(capture.ranks.begin(), capture.ranks.end(), [](const RankData& a, const RankData& b) {
    return std::tuple(a.rank, a.device, a.incarnation) < std::tuple(b.rank, b.device, b.incarnation);
  });
  InferWorldSize(capture);
  NameMissingRanks(capture);
  GiveGroups(capture);
}

}  // namespace lockstep::capture
