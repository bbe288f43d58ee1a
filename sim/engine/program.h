// One rank's turn as a graph: who must be finished before what can begin.
//
// Nodes are the instants the formulas of common/scenario/scenario.h speak of. Edges lead within a turn or
// into the next one. Built once per rank, read-only afterwards, any thread; refers to the scenario, which
// must outlive it.
#ifndef LOCKSTEP_SIM_ENGINE_PROGRAM_H_
#define LOCKSTEP_SIM_ENGINE_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "scenario/scenario.h"

namespace lockstep::sim {

using scenario::kNoIndex;

enum class NodeKind : uint8_t {
  kCallStart,  // paced: happens when the wall clock lets the host come here
  kMark,       // a push or pop; paced too
  kCallEnd,
  kDevice,
};

struct Node {
  NodeKind kind;
  uint32_t op;               // into Rank::program
  uint32_t from_here = 0;    // edges that end here and start in this turn
  uint32_t from_before = 0;  // … in the turn before
};

// Edges grouped by the node they start from.
class Edges {
 public:
  void Build(size_t nodes, const std::vector<std::pair<uint32_t, uint32_t>>& from_to);
  const uint32_t* begin(uint32_t node) const { return to_.data() + first_[node]; }
  const uint32_t* end(uint32_t node) const { return to_.data() + first_[node + 1]; }

 private:
  std::vector<uint32_t> first_;
  std::vector<uint32_t> to_;
};

// Operations that members must begin in one order: all of a group that involve everybody, or the messages
// from one rank to another.
struct Channel {
  uint32_t group;
  uint32_t from = kNoIndex;  // world ranks of a message; kNoIndex: everybody
  uint32_t to = kNoIndex;
  uint32_t per_step = 0;
  uint64_t key = 0;  // the same on all members
};

struct CollectivePlace {
  uint32_t channel = kNoIndex;  // into Program::channels
  uint32_t ordinal = 0;         // in this turn
  // NCCL's count per (communicator, function): step * sequence_step + sequence.
  uint32_t sequence = 0;
  uint32_t sequence_step = 0;
};

struct Program {
  const scenario::Scenario* scenario = nullptr;
  uint32_t rank = 0;
  std::vector<Node> nodes;
  Edges edges;       // to nodes of the same turn
  Edges next_edges;  // to nodes of the next turn
  std::vector<Channel> channels;
  // By op of the rank's program.
  std::vector<CollectivePlace> places;
  std::vector<uint32_t> call_of;   // calls: their ordinal; device ops: their call's, kNoIndex when unlaunched
  std::vector<uint32_t> launcher;  // device and event ops: the op of their call, kNoIndex when unlaunched
  uint32_t calls = 0;

  const std::vector<scenario::Op>& ops() const { return scenario->ranks[rank].program; }
  // 0: none. Wraps after 2^32 calls, as CUPTI's does.
  uint32_t Correlation(uint32_t step, uint32_t op) const {
    return call_of[op] == kNoIndex ? 0 : static_cast<uint32_t>(1 + uint64_t{step} * calls + call_of[op]);
  }
};

// `scenario` must be valid (scenario::Validate).
Program Compile(const scenario::Scenario& scenario, uint32_t rank);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_ENGINE_PROGRAM_H_
