#include "sim/engine/program.h"

#include <map>
#include <tuple>

#include "sim/engine/random.h"

namespace lockstep::sim {
namespace {

using scenario::Collective;
using scenario::Message;
using scenario::Needs;
using scenario::Op;
using scenario::OpKind;
using scenario::Wait;

class Compiler {
 public:
  Compiler(const scenario::Scenario& scenario, uint32_t rank) {
    program_.scenario = &scenario;
    program_.rank = rank;
    thread_last_.assign(scenario.ranks[rank].threads.size(), kNoIndex);
    thread_first_ = thread_last_;
    stream_last_.assign(scenario.ranks[rank].streams.size(), kNoIndex);
    stream_first_ = stream_last_;
    stream_waits_.resize(stream_last_.size());
  }

  Program Run() {
    const std::vector<Op>& ops = program_.ops();
    program_.first_place.assign(ops.size(), kNoIndex);
    program_.call_of.assign(ops.size(), kNoIndex);
    program_.launcher.assign(ops.size(), kNoIndex);
    FindLastOfStreams();
    for (uint32_t i = 0; i < ops.size(); ++i) Add(i, ops[i]);
    FinishCall();
    WrapAround();
    for (size_t p = 0; p < program_.places.size(); ++p)
      program_.places[p].sequence_step = sequence_sizes_[sequence_keys_[p]];
    program_.edges.Build(program_.nodes.size(), here_);
    program_.next_edges.Build(program_.nodes.size(), before_);
    return std::move(program_);
  }

 private:
  // A moment that later work follows: a node of this iteration, or the last node of a stream in the previous
  // iteration.
  struct Instant {
    uint32_t node = kNoIndex;
    uint32_t stream_before = kNoIndex;
  };

  uint32_t AddNode(NodeKind kind, uint32_t op) {
    program_.nodes.push_back({kind, op});
    return static_cast<uint32_t>(program_.nodes.size() - 1);
  }

  void Link(uint32_t from, uint32_t to) {
    here_.emplace_back(from, to);
    ++program_.nodes[to].from_here;
  }

  void LinkBefore(uint32_t from, uint32_t to) {
    before_.emplace_back(from, to);
    ++program_.nodes[to].from_before;
  }

  void LinkInstant(const Instant& instant, uint32_t to) {
    if (instant.node != kNoIndex)
      Link(instant.node, to);
    else if (instant.stream_before != kNoIndex)
      pending_before_.emplace_back(instant.stream_before, to);
  }

  Instant Latest(uint32_t stream) const {
    if (stream_last_[stream] != kNoIndex) return {stream_last_[stream], kNoIndex};
    return {kNoIndex, stream};
  }

  // Finds the stream on which each event is recorded last. A wait before the record in program order refers
  // to the record of the previous iteration.
  void FindLastOfStreams() {
    for (const Op& op : program_.ops()) {
      if (op.kind == OpKind::kRecordEvent) event_final_stream_[op.event] = op.stream;
    }
  }

  void Add(uint32_t i, const Op& op) {
    if (op.IsHost()) {
      FinishCall();
      AddHost(i, op);
    } else if (op.IsDevice()) {
      AddDevice(i, op);
    } else {
      program_.launcher[i] = call_op_;
      if (call_op_ != kNoIndex) program_.call_of[i] = program_.call_of[call_op_];
      if (op.kind == OpKind::kRecordEvent)
        events_[op.event] = Latest(op.stream);
      else
        AddWait(op);
    }
  }

  void AddWait(const Op& op) {
    if (auto it = events_.find(op.event); it != events_.end()) {
      stream_waits_[op.stream].push_back(it->second);
    } else if (auto final = event_final_stream_.find(op.event); final != event_final_stream_.end()) {
      stream_waits_[op.stream].push_back({kNoIndex, final->second});
    }
  }

  void AddHost(uint32_t i, const Op& op) {
    const uint32_t node = AddNode(op.kind == OpKind::kCall ? NodeKind::kCallStart : NodeKind::kMark, i);
    if (thread_last_[op.thread] != kNoIndex)
      Link(thread_last_[op.thread], node);
    else
      thread_first_[op.thread] = node;
    if (op.follows != kNoIndex && op.follows != op.thread && thread_last_[op.follows] != kNoIndex)
      Link(thread_last_[op.follows], node);
    thread_last_[op.thread] = node;
    if (op.kind != OpKind::kCall) return;
    call_op_ = i;
    call_start_ = node;
    call_open_ = true;
    program_.call_of[i] = program_.calls++;
  }

  // A call's end node is added after its device ops, because the call may wait for them.
  void FinishCall() {
    if (!call_open_) return;
    call_open_ = false;
    const Op& op = program_.ops()[call_op_];
    const uint32_t end = AddNode(NodeKind::kCallEnd, call_op_);
    Link(call_start_, end);
    if (op.wait == Wait::kAllStreams) {
      for (uint32_t s = 0; s < stream_last_.size(); ++s) LinkInstant(Latest(s), end);
    } else if (op.wait == Wait::kStreams) {
      for (uint32_t s : op.wait_streams) LinkInstant(Latest(s), end);
    }
    thread_last_[op.thread] = end;
  }

  void AddDevice(uint32_t i, const Op& op) {
    const uint32_t node = AddNode(NodeKind::kDevice, i);
    if (stream_last_[op.stream] != kNoIndex)
      Link(stream_last_[op.stream], node);
    else
      stream_first_[op.stream] = node;
    stream_last_[op.stream] = node;
    for (const Instant& instant : stream_waits_[op.stream]) LinkInstant(instant, node);
    stream_waits_[op.stream].clear();
    if (op.launched && call_op_ != kNoIndex) {
      Link(call_start_, node);
      program_.launcher[i] = call_op_;
      program_.call_of[i] = program_.call_of[call_op_];
    }
    if (op.kind != OpKind::kCollective) return;
    program_.first_place[i] = static_cast<uint32_t>(program_.places.size());
    if (scenario::NeedsOf(op.collective) == Needs::kPeer) {
      for (const Message& message : scenario::MessagesOf(op)) PlaceMessage(op.group, message);
    } else {
      PlaceCollective(op);
    }
  }

  // Links the iteration's first work to the previous iteration.
  void WrapAround() {
    for (size_t t = 0; t < thread_first_.size(); ++t) {
      if (thread_first_[t] != kNoIndex) LinkBefore(thread_last_[t], thread_first_[t]);
    }
    for (size_t s = 0; s < stream_first_.size(); ++s) {
      if (stream_first_[s] == kNoIndex) continue;
      LinkBefore(stream_last_[s], stream_first_[s]);
      // A wait without later work on its stream delays the work of the next iteration.
      for (const Instant& instant : stream_waits_[s]) {
        if (instant.node != kNoIndex) LinkBefore(instant.node, stream_first_[s]);
      }
    }
    for (const auto& [stream, to] : pending_before_) {
      if (stream_last_[stream] != kNoIndex) LinkBefore(stream_last_[stream], to);
    }
  }

  using SequenceKey = std::tuple<uint32_t, Collective, int32_t>;  // (group, function, peer or -1)

  void PlaceCollective(const Op& op) {
    // NCCL has no barrier. Frameworks all-reduce one element instead.
    const Collective function =
        op.collective == Collective::kBarrier ? Collective::kAllReduce : op.collective;
    AddPlace({op.group}, {op.group, function, -1});
  }

  void PlaceMessage(uint32_t group, const Message& message) {
    const uint32_t other = program_.scenario->groups[group].members[message.peer];
    Channel channel{group};
    channel.from = message.collective == Collective::kSend ? program_.rank : other;
    channel.to = message.collective == Collective::kSend ? other : program_.rank;
    AddPlace(channel, {group, message.collective, message.peer});
  }

  void AddPlace(Channel channel, const SequenceKey& sequence) {
    const auto [it, added] = channel_index_.try_emplace({channel.group, channel.from, channel.to},
                                                        static_cast<uint32_t>(program_.channels.size()));
    if (added) {
      channel.key = Combine(Combine(program_.scenario->groups[channel.group].comm, channel.from), channel.to);
      program_.channels.push_back(channel);
    }
    CollectivePlace& place = program_.places.emplace_back();
    place.channel = it->second;
    place.ordinal = program_.channels[it->second].per_step++;
    place.sequence = sequence_sizes_[sequence]++;
    sequence_keys_.push_back(sequence);
  }

  Program program_;
  std::vector<std::pair<uint32_t, uint32_t>> here_, before_;
  std::vector<std::pair<uint32_t, uint32_t>> pending_before_;  // (stream, node)
  std::vector<uint32_t> thread_first_, thread_last_, stream_first_, stream_last_;
  std::vector<std::vector<Instant>> stream_waits_;  // the stream's next work waits for these
  std::map<uint32_t, Instant> events_;
  std::map<uint32_t, uint32_t> event_final_stream_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> channel_index_;
  std::map<SequenceKey, uint32_t> sequence_sizes_;
  std::vector<SequenceKey> sequence_keys_;  // by place
  uint32_t call_op_ = kNoIndex;
  uint32_t call_start_ = kNoIndex;
  bool call_open_ = false;
};

}  // namespace

void Edges::Build(size_t nodes, const std::vector<std::pair<uint32_t, uint32_t>>& from_to) {
  first_.assign(nodes + 1, 0);
  for (const auto& [from, to] : from_to) ++first_[from + 1];
  for (size_t i = 0; i < nodes; ++i) first_[i + 1] += first_[i];
  to_.resize(from_to.size());
  std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
  for (const auto& [from, to] : from_to) to_[next[from]++] = to;
}

Program Compile(const scenario::Scenario& scenario, uint32_t rank) { return Compiler(scenario, rank).Run(); }

}  // namespace lockstep::sim
