#include "capture/model/keep_rows.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace lockstep::capture {
namespace {

bool Holds(HostInterval interval, HostTime at) { return at >= interval.start && at < interval.end; }

template <typename T, typename Stays>
void KeepIf(std::vector<T>& rows, const Stays& stays) {
  std::erase_if(rows, [&](const T& row) { return !stays(row); });
  rows.shrink_to_fit();
}

// Returns the new index of each kept activity, and kNone for the others.
std::vector<uint32_t> KeepActivities(const KeptRows& kept, RankData& rank) {
  std::vector<uint32_t> moved_to(rank.activities.size(), kNone);
  uint32_t next = 0;
  for (uint32_t i = 0; i < rank.activities.size(); ++i) {
    if (!kept.activity(i)) continue;
    rank.activities[next] = rank.activities[i];
    moved_to[i] = next++;
  }
  rank.activities.resize(next);
  rank.activities.shrink_to_fit();
  return moved_to;
}

void KeepCollectives(const std::vector<uint32_t>& activity_moved_to, RankData& rank) {
  std::vector<uint32_t> moved_to(rank.collectives.size(), kNone);
  uint32_t next = 0;
  for (uint32_t i = 0; i < rank.collectives.size(); ++i) {
    Collective& c = rank.collectives[i];
    if (c.activity >= activity_moved_to.size() || activity_moved_to[c.activity] == kNone) continue;
    c.activity = activity_moved_to[c.activity];
    rank.collectives[next] = c;
    moved_to[i] = next++;
  }
  rank.collectives.resize(next);
  rank.collectives.shrink_to_fit();
  for (DeviceActivity& a : rank.activities)
    a.collective = a.collective < moved_to.size() ? moved_to[a.collective] : kNone;
}

// An event record has the time of its call.
void KeepEventRecords(RankData& rank) {
  if (rank.event_records.empty()) return;
  absl::flat_hash_set<CorrelationId> calls;
  for (const ApiCall& call : rank.api_calls) calls.insert(call.correlation);
  KeepIf(rank.event_records, [&](const EventRecord& r) { return calls.contains(r.correlation); });
}

// NCCL's timings belong to a collective by its number, or else by time.
void KeepNcclTimings(HostInterval window, RankData& rank) {
  if (rank.channel_timings.empty() && rank.proxy_ops.empty()) return;
  absl::flat_hash_set<uint64_t> operations;
  for (const Collective& c : rank.collectives) operations.insert(c.operation);
  const auto stays = [&](const auto& row) {
    return row.operation == 0 ? Holds(window, row.start) : operations.contains(row.operation);
  };
  KeepIf(rank.channel_timings, stays);
  KeepIf(rank.proxy_ops, stays);
}

HostInterval WindowOf(const KeptRows& kept, const RankData& rank) {
  HostInterval window = kept.calls;
  for (const DeviceActivity& a : rank.activities) {
    window.start = std::min(window.start, a.start);
    window.end = std::max(window.end, a.end);
  }
  window.start = std::max(window.start, rank.window.start);
  window.end = std::max(window.start, std::min(window.end, rank.window.end));
  return window;
}

}  // namespace

void KeepRows(const KeptRows& kept, RankData& rank) {
  KeepCollectives(KeepActivities(kept, rank), rank);
  const auto in_calls = [&](const auto& row) { return Holds(kept.calls, row.start); };
  KeepIf(rank.api_calls, in_calls);
  KeepIf(rank.syncs, in_calls);
  KeepIf(rank.ranges, [&](const HostRange& r) { return Holds(kept.ranges, r.start); });
  KeepIf(rank.memory_ops, [&](const MemoryOp& op) { return Holds(kept.calls, op.time); });
  KeepEventRecords(rank);
  rank.window = WindowOf(kept, rank);
  KeepNcclTimings(rank.window, rank);
}

}  // namespace lockstep::capture
