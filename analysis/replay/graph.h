// The capture as a replay graph: the dependencies between operations, and the own duration of each.
//
// A unit is one device activity, or one host call that issued device work or blocked. It starts `lag` after
// the latest of its predecessors, and ends `work` after its start. If it waits for others while it runs (a
// collective, a blocking call), it ends `work` after the latest of them. Lags and works are signed, observed
// values, so a replay of the unchanged graph returns the capture to the nanosecond. A kernel beside a
// collective also takes `beside` longer (contention.h). Source: docs/analysis/replay.md.
//
// Edges between devices and hosts: stream order, a call's start to the work that it launched, event record to
// stream wait, device work to the call that blocks for it. Further edges: one host call to the next, and the
// members of a collective. Read-only after construction, so any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_REPLAY_GRAPH_H_
#define LOCKSTEP_ANALYSIS_REPLAY_GRAPH_H_

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/prepare/call_names.h"
#include "analysis/prepare/collectives.h"
#include "analysis/prepare/launches.h"
#include "analysis/prepare/steps.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "capture/model/disk_rows.h"

namespace lockstep::analysis {

// kIdle is not a unit of its own. It stands for the idle time before device units, on a rank whose host has
// no records (classes.h).
enum class UnitKind : uint8_t { kKernel, kCopy, kTransfer, kHostCall, kHostWait, kIdle };
inline constexpr bool IsHostUnit(UnitKind kind) {
  return kind == UnitKind::kHostCall || kind == UnitKind::kHostWait;
}
// True if lags of this kind are compared, because a host also works between its calls.
inline constexpr bool HasLag(UnitKind kind) { return IsHostUnit(kind) || kind == UnitKind::kIdle; }

// A moment of a unit: its start or its end.
using NodeRef = uint32_t;
inline constexpr NodeRef StartOf(uint32_t unit) { return unit * 2; }
inline constexpr NodeRef EndOf(uint32_t unit) { return unit * 2 + 1; }
inline constexpr uint32_t UnitOf(NodeRef node) { return node / 2; }

struct Unit {
  uint32_t rank_index;
  int32_t step;       // a used step, kBeforeSteps or kAfterSteps
  uint32_t source;    // into activities, or into api_calls for host units
  uint32_t instance;  // for a transfer: its usable instance in Matches::instances, or capture::kNone
  UnitKind kind;
  bool is_head;  // has no known predecessor; its lag counts from the origin
};

inline bool OnDevice(UnitKind kind) { return kind != UnitKind::kHostCall && kind != UnitKind::kHostWait; }
// True if its end may be the end of its step.
inline bool CountsForStep(const Unit& unit) { return OnDevice(unit.kind) && unit.step >= 0; }

// Nodes are numbered: first the start of every unit, by unit; then one node per barrier, and one per call or
// transfer that awaits others. A barrier's node is the latest start of its members. A waiting unit's node is
// the latest of its own start and the moments that it awaits. A unit ends `work` after its node in `anchor`.
struct Graph {
  JobTime origin;  // times below are nanoseconds after it
  std::vector<Unit> units;
  std::vector<uint32_t> rank_begin;  // units of rank index r: [rank_begin[r], rank_begin[r + 1])
  std::vector<double> start, end;    // observed
  std::vector<double> lag, work;     // a kernel's work is its duration without collectives
  // Kernels beside collectives (contention.h): `beside` is the time that collectives add, and
  // `contention_share` the part of the time beside them that is lost; 0 for other units. `occupying` are the
  // units of these collectives, ascending; empty if they slow no kernel.
  std::vector<double> contention;
  std::vector<float> contention_share;
  std::vector<uint32_t> occupying;
  std::vector<uint32_t> anchor;  // by unit: the node that its end is `work` after
  uint32_t barriers = 0;         // nodes that are barriers
  std::vector<uint32_t> order;   // all nodes, each after its dependencies
  std::vector<uint32_t> place;   // by node: where it is in `order`
  // Predecessors of the node at place i: [first_pred[i], first_pred[i + 1]). A start follows moments of other
  // units, or none that is known. A barrier follows the starts of its members. A waiting unit's end follows
  // its own start, then what it awaits.
  std::vector<uint64_t> first_pred;
  std::vector<NodeRef> preds;
  // While the graph is built, the predecessors of starts: those of unit u are [start_begin[u],
  // start_begin[u + 1]) of start_preds. Empty afterwards.
  std::vector<uint64_t> start_begin;
  std::vector<NodeRef> start_preds;
  uint64_t edges = 0;
  uint64_t cut_edges =
      0;  // edges that the trace contradicts beyond the clocks' bound, which the replay leaves out

  // True if any call of the rank's host is recorded. Host units come first.
  bool HasHost(uint32_t rank_index) const {
    return rank_begin[rank_index] < rank_begin[rank_index + 1] &&
           IsHostUnit(units[rank_begin[rank_index]].kind);
  }

  // While the graph is built.
  std::span<const NodeRef> KnownStartPreds(uint32_t u) const {
    return {start_preds.data() + start_begin[u], start_begin[u + 1] - start_begin[u]};
  }

  uint32_t FirstBarrierNode() const { return static_cast<uint32_t>(units.size()); }
  uint32_t FirstWaitingNode() const { return FirstBarrierNode() + barriers; }
  bool InBarrier(uint32_t u) const {
    return anchor[u] >= FirstBarrierNode() && anchor[u] < FirstWaitingNode();
  }

  std::span<const NodeRef> PredsAt(uint32_t i) const {
    return {preds.data() + first_pred[i], first_pred[i + 1] - first_pred[i]};
  }
  std::span<const NodeRef> Preds(uint32_t node) const { return PredsAt(place[node]); }
  std::span<const NodeRef> StartPreds(uint32_t u) const { return Preds(u); }
  // Moments that the unit's end awaits besides its own start.
  std::span<const NodeRef> Awaits(uint32_t u) const {
    if (anchor[u] < FirstWaitingNode()) return {};
    return Preds(anchor[u]).subspan(1);
  }
  // Calls use(unit) for each unit that is anchored at this barrier or waiting node.
  template <typename Use>
  void ForEachEnd(uint32_t node, std::span<const NodeRef> preds_of_node, const Use& use) const {
    if (node >= FirstWaitingNode()) preds_of_node = preds_of_node.first(1);
    for (NodeRef p : preds_of_node) use(UnitOf(p));
  }
};

struct GraphInput {
  const capture::Capture& capture;
  const capture::Matches& matches;
  const capture::ClockModel& clock;
  const CollectiveTimes& times;
  const Steps& steps;
  const std::vector<CallIndex>& calls;
  const CallNames* names;
  unsigned threads = 0;  // 0: as many as the machine has; the result does not depend on the number
  // Takes large tables once they are complete. Null: they stay in memory.
  capture::DiskRows* disk = nullptr;
};
Graph BuildGraph(const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_REPLAY_GRAPH_H_
