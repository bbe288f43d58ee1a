// One iteration of a rank's program as a graph of dependencies.
//
// The nodes are the moments in the formulas of scenario/scenario.h. An edge leads to a node of the same
// iteration or of the next iteration. A Program is built once per rank and is read-only afterwards, so that
// any thread may read it. The scenario must outlive it.
#ifndef LOCKSTEP_SIM_ENGINE_PROGRAM_H_
#define LOCKSTEP_SIM_ENGINE_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "scenario/scenario.h"

namespace lockstep::sim {

using scenario::kNoIndex;

enum class NodeKind : uint8_t {
  kCallStart,  // paced: it happens when the wall clock reaches it
  kMark,       // a push or pop, also paced
  kCallEnd,
  kDevice,
};

struct Node {
  NodeKind kind;
  uint32_t op;               // index in Rank::program
  uint32_t from_here = 0;    // number of incoming edges from this iteration
  uint32_t from_before = 0;  // number of incoming edges from the previous iteration
};

// Edges grouped by their start node.
class Edges {
 public:
  void Build(size_t nodes, const std::vector<std::pair<uint32_t, uint32_t>>& from_to);
  const uint32_t* begin(uint32_t node) const { return to_.data() + first_[node]; }
  const uint32_t* end(uint32_t node) const { return to_.data() + first_[node + 1]; }

 private:
  std::vector<uint32_t> first_;
  std::vector<uint32_t> to_;
};

// Operations that all members must begin in the same order: the collectives of a group with all members, or
// the messages from one rank to another.
struct Channel {
  uint32_t group;
  uint32_t from = kNoIndex;  // world rank of a message's sender; kNoIndex for all members
  uint32_t to = kNoIndex;
  uint32_t per_step = 0;
  uint64_t key = 0;  // equal on all members
};

// The place of a collective, or of one message.
struct CollectivePlace {
  uint32_t channel = kNoIndex;  // index in Program::channels
  uint32_t ordinal = 0;         // position in this iteration
  // NCCL's count per (communicator, function): step * sequence_step + sequence.
  uint32_t sequence = 0;
  uint32_t sequence_step = 0;
};

struct Program {
  const scenario::Scenario* scenario = nullptr;
  uint32_t rank = 0;
  std::vector<Node> nodes;
  Edges edges;       // to nodes of the same iteration
  Edges next_edges;  // to nodes of the next iteration
  std::vector<Channel> channels;
  std::vector<CollectivePlace> places;  // of all collectives in program order; a message has its own
  // The next three are indexed by op of the rank's program. An op without a launch has kNoIndex.
  std::vector<uint32_t> first_place;  // into places; kNoIndex for all ops but collectives
  std::vector<uint32_t> call_of;      // number of the call, or of the device op's call
  std::vector<uint32_t> launcher;     // for device and event ops, the op of their call
  uint32_t calls = 0;

  // `message` is the position in scenario::MessagesOf; 0 for an op that is not a send or receive.
  const CollectivePlace& Place(uint32_t op, uint32_t message) const {
    return places[first_place[op] + message];
  }
  const std::vector<scenario::Op>& ops() const { return scenario->ranks[rank].program; }
  // Returns 0 for an op without a call. It wraps after 2^32 calls, as CUPTI's does.
  uint32_t Correlation(uint32_t step, uint32_t op) const {
    return call_of[op] == kNoIndex ? 0 : static_cast<uint32_t>(1 + uint64_t{step} * calls + call_of[op]);
  }
};

// `scenario` must be valid (scenario::Validate).
Program Compile(const scenario::Scenario& scenario, uint32_t rank);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_ENGINE_PROGRAM_H_
