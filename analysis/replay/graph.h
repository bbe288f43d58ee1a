// The capture as a replay graph: what had to happen before what, and how long each thing itself took.
//
// A unit is one device activity or one host call that matters (it issued device work, or blocked). It starts
// `lead` after the latest of the things it had to wait for, and ends `work` after its start, or, when it
// waits for others while it runs (a collective, a blocking call), `work` after the latest of those. Leads and
// works are what was observed, signed, so replaying the graph unchanged gives the capture back to the
// nanosecond. Source: docs/analysis.md, "Replay". A kernel beside a collective also takes `beside` longer
// (contention.h).
//
// Edges: stream order; a call's start to what it launched; event record to stream wait; device work to the
// call that blocks for it; host calls one after the other; the members of a collective. Read-only once built,
// any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_GRAPH_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_GRAPH_H_

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

namespace lockstep::analysis {

// kIdle is no unit of its own: what device units of a rank whose host is not recorded idle before they start
// (classes.h).
enum class UnitKind : uint8_t { kKernel, kCopy, kTransfer, kHostCall, kHostWait, kIdle };
inline constexpr bool IsHostUnit(UnitKind kind) {
  return kind == UnitKind::kHostCall || kind == UnitKind::kHostWait;
}
// Of cells of this kind the leads are compared: a host's work is also what it does between its calls.
inline constexpr bool HasLead(UnitKind kind) { return IsHostUnit(kind) || kind == UnitKind::kIdle; }

// A moment of a unit: its start or its end.
using NodeRef = uint32_t;
inline constexpr NodeRef StartOf(uint32_t unit) { return unit * 2; }
inline constexpr NodeRef EndOf(uint32_t unit) { return unit * 2 + 1; }
inline constexpr uint32_t UnitOf(NodeRef node) { return node / 2; }

struct Unit {
  uint32_t rank_index;
  int32_t step;       // a used step, kBeforeSteps or kAfterSteps
  uint32_t source;    // into activities, or api_calls for host units
  uint32_t instance;  // of a transfer: its usable instance in Matches::instances, or store::kNone
  UnitKind kind;
  bool is_head;  // nothing is known before it: its lead counts from the origin
};

inline bool OnDevice(UnitKind kind) { return kind != UnitKind::kHostCall && kind != UnitKind::kHostWait; }
// May its end be the end of its step?
inline bool CountsForStep(const Unit& unit) { return OnDevice(unit.kind) && unit.step >= 0; }

// Members of a symmetric collective: all end `work` after the latest start.
struct Join {
  uint32_t first;  // into join_members
  uint32_t count;
};

struct Graph {
  JobTime origin;  // times below are nanoseconds after it
  std::vector<Unit> units;
  std::vector<uint32_t> rank_begin;  // units of rank index r: [rank_begin[r], rank_begin[r + 1])
  std::vector<double> start, end;    // observed
  std::vector<double> lead, work;    // of a kernel the work is what it takes alone
  // Kernels beside collectives (contention.h): how much longer each took for that, and the part of its time
  // beside them that it loses; 0 of other units. `occupying` are those collectives' units, ascending; none
  // where nothing is slower beside them.
  std::vector<double> beside;
  std::vector<float> beside_share;
  std::vector<uint32_t> occupying;
  std::vector<uint32_t> start_begin;  // start_preds of unit u: [start_begin[u], start_begin[u + 1])
  std::vector<NodeRef> start_preds;
  std::vector<uint32_t> await_begin;  // likewise: what its end waits for besides its own start
  std::vector<NodeRef> awaits;
  std::vector<Join> joins;
  std::vector<uint32_t> join_members;
  std::vector<uint32_t> join_of;  // by unit, or store::kNone
  // An order in which every moment comes after what it depends on: kind in the upper two bits, unit or join
  // below.
  std::vector<uint32_t> order;
  uint64_t edges = 0;
  uint64_t cut_edges = 0;  // the trace contradicts them beyond the clocks' bound, so the replay does without

  // Is any call of the rank's host recorded? Host units come first.
  bool HasHost(uint32_t rank_index) const {
    return rank_begin[rank_index] < rank_begin[rank_index + 1] &&
           IsHostUnit(units[rank_begin[rank_index]].kind);
  }

  std::span<const NodeRef> StartPreds(uint32_t u) const {
    return {start_preds.data() + start_begin[u], start_begin[u + 1] - start_begin[u]};
  }
  std::span<const NodeRef> Awaits(uint32_t u) const {
    return {awaits.data() + await_begin[u], await_begin[u + 1] - await_begin[u]};
  }
  std::span<const uint32_t> Members(const Join& j) const { return {join_members.data() + j.first, j.count}; }
};

enum OrderKind : uint32_t {
  kRunPlain = 0u << 30,
  kRunStart = 1u << 30,
  kRunFinish = 2u << 30,
  kRunJoin = 3u << 30
};
inline constexpr uint32_t kOrderKindMask = 3u << 30;

struct GraphInput {
  const store::Capture& capture;
  const align::Matches& matches;
  const align::ClockModel& clock;
  const CollectiveTimes& times;
  const Steps& steps;
  const std::vector<CallIndex>& calls;
  const CallNames* names;
  unsigned threads = 0;  // 0: as many as the machine has; the result is the same for any number
};
Graph BuildGraph(const GraphInput& input);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_GRAPH_H_
