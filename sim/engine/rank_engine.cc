#include "sim/engine/rank_engine.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

// Highest number of iterations in progress. Without a limit, the host of an iteration without a blocking call
// would run ahead forever.
constexpr size_t kStepsAlive = 4;

}  // namespace

RankEngine::RankEngine(const Program& program, const Model& model, CollectiveResolver& resolver,
                       RankObserver& observer)
    : program_(program), model_(model), resolver_(resolver), observer_(observer) {
  node_of_op_.assign(program.ops().size(), kNoIndex);
  start_node_of_call_.assign(program.ops().size(), kNoIndex);
  for (uint32_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    (node.kind == NodeKind::kCallStart ? start_node_of_call_ : node_of_op_)[node.op] = n;
  }
  channel_next_.assign(program.channels.size(), 0);
}

void RankEngine::AllowSteps(uint32_t limit) {
  limit_ = std::max(limit_, limit);
  Drain();
}

void RankEngine::BeginStep() {
  const scenario::Scenario& s = *program_.scenario;
  const uint32_t step = next_step_++;
  const VirtualTime planned(s.pacing == scenario::Pacing::kLoop ? s.period.ns() * step : 0);
  if (const auto hold = holds_.find(step); hold != holds_.end()) {
    held_ = std::max(held_, hold->second - planned);
    holds_.erase(hold);
  }
  const VirtualTime origin = planned + held_;
  const size_t n = program_.nodes.size();
  Step& fresh = steps_.emplace_back();
  fresh.base.assign(n, origin);
  fresh.start.resize(n);
  fresh.end.resize(n);
  fresh.missing.resize(n);
  fresh.known.assign(n, false);
  fresh.unknown = static_cast<uint32_t>(n);
  // Counts the edges from the previous iteration. Known nodes count now, the others as soon as they become
  // known.
  const Step* before = steps_.size() > 1 ? &steps_[steps_.size() - 2] : have_before_ ? &before_ : nullptr;
  for (uint32_t node = 0; node < n; ++node) {
    fresh.missing[node] =
        program_.nodes[node].from_here + (before != nullptr ? program_.nodes[node].from_before : 0);
  }
  for (uint32_t from = 0; before != nullptr && from < n; ++from) {
    if (!before->known[from]) continue;
    for (const uint32_t* to = program_.next_edges.begin(from); to != program_.next_edges.end(from); ++to) {
      fresh.base[*to] = std::max(fresh.base[*to], before->end[from]);
      --fresh.missing[*to];
    }
  }
  for (uint32_t node = 0; node < n; ++node) {
    if (fresh.missing[node] == 0) Ready(step, node);
  }
}

std::optional<VirtualTime> RankEngine::NextHostTime() const {
  if (due_.empty()) return std::nullopt;
  return due_.top().at;
}

void RankEngine::RunUntil(VirtualTime until) {
  while (!due_.empty() && due_.top().at <= until) {
    const Due due = due_.top();
    due_.pop();
    Fire(due);
    Drain();
  }
}

void RankEngine::Fire(const Due& due) {
  const Node& node = program_.nodes[due.node];
  const OpRun run{due.step, node.op};
  if (node.kind == NodeKind::kMark)
    observer_.OnMark(run, due.at);
  else
    observer_.OnCallStart(run, due.at);
  Resolve(due.step, due.node, due.at, due.at);
}

void RankEngine::CollectiveDone(OpRun run, VirtualTime latest) {
  const uint32_t node = node_of_op_[run.op];
  Step& s = At(run.step);
  s.base[node] = std::max(s.base[node], latest);
  if (--s.missing[node] != 0) return;
  const VirtualTime start = s.start[node];
  const VirtualTime end = std::max(start, s.base[node] + model_.ServiceTime(run.step, run.op));
  observer_.OnDevice(run, start, end);
  Resolve(run.step, node, start, end);
  Drain();
}

void RankEngine::Reach(uint32_t step, uint32_t node, VirtualTime at) {
  Step& s = At(step);
  s.base[node] = std::max(s.base[node], at);
  if (--s.missing[node] == 0) Ready(step, node);
}

void RankEngine::Ready(uint32_t step, uint32_t node) {
  Step& s = At(step);
  const Node& n = program_.nodes[node];
  const scenario::Op& op = program_.ops()[n.op];
  switch (n.kind) {
    case NodeKind::kCallStart:
    case NodeKind::kMark:
      due_.push({s.base[node] + model_.Gap(step, n.op), step, node});
      break;
    case NodeKind::kCallEnd: {
      const VirtualTime start = s.start[start_node_of_call_[n.op]];
      const VirtualTime end =
          std::max(start, std::max(start + model_.ServiceTime(step, n.op), s.base[node]) + op.tail);
      observer_.OnCallEnd({step, n.op}, start, end);
      Resolve(step, node, start, end);
      break;
    }
    case NodeKind::kDevice:
      ReadyDevice(step, node);
      break;
  }
}

void RankEngine::ReadyDevice(uint32_t step, uint32_t node) {
  Step& s = At(step);
  const OpRun run{step, program_.nodes[node].op};
  const VirtualTime start = s.base[node] + model_.Gap(step, run.op);
  if (program_.ops()[run.op].kind == scenario::OpKind::kCollective) {
    // From here on, these two hold the answers to the entries. A gap may be negative, so that the start may
    // be earlier than the predecessors' latest end.
    const auto messages = static_cast<uint32_t>(1 + program_.ops()[run.op].more.size());
    s.start[node] = start;
    s.base[node] = start;
    s.missing[node] = messages;
    for (uint32_t m = 0; m < messages; ++m) EnterInOrder(run, m, start);
    return;
  }
  const VirtualTime end = start + model_.ServiceTime(step, run.op);
  observer_.OnDevice(run, start, end);
  Resolve(step, node, start, end);
}

void RankEngine::EnterInOrder(OpRun run, uint32_t message, VirtualTime entry) {
  const CollectivePlace& place = program_.Place(run.op, message);
  uint64_t& next = channel_next_[place.channel];
  const uint64_t mine = uint64_t{run.step} * program_.channels[place.channel].per_step + place.ordinal;
  if (mine != next) {
    parked_.emplace(std::pair(place.channel, mine), Parked{run, message, entry});
    return;
  }
  resolver_.Enter(run, message, entry);
  ++next;
  for (auto it = parked_.find({place.channel, next}); it != parked_.end();
       it = parked_.find({place.channel, next})) {
    resolver_.Enter(it->second.run, it->second.message, it->second.entry);
    parked_.erase(it);
    ++next;
  }
}

void RankEngine::Resolve(uint32_t step, uint32_t node, VirtualTime start, VirtualTime end) {
  Step& s = At(step);
  s.start[node] = start;
  s.end[node] = end;
  s.known[node] = true;
  --s.unknown;
  resolved_.emplace_back(step, node);
}

void RankEngine::Drain() {
  while (true) {
    if (!resolved_.empty()) {
      const auto [step, node] = resolved_.back();
      resolved_.pop_back();
      FollowEdges(step, node);
      continue;
    }
    while (!steps_.empty() && steps_.front().unknown == 0) {
      before_ = std::move(steps_.front());
      have_before_ = true;
      steps_.pop_front();
    }
    // An iteration begins only here, after the edges of every known node were followed, so that no edge
    // counts twice.
    if (next_step_ == limit_ || steps_.size() == kStepsAlive) return;
    BeginStep();
  }
}

void RankEngine::FollowEdges(uint32_t step, uint32_t node) {
  const VirtualTime end = At(step).end[node];
  for (const uint32_t* to = program_.edges.begin(node); to != program_.edges.end(node); ++to)
    Reach(step, *to, end);
  if (step + 1 == next_step_) return;
  for (const uint32_t* to = program_.next_edges.begin(node); to != program_.next_edges.end(node); ++to)
    Reach(step + 1, *to, end);
}

}  // namespace lockstep::sim
