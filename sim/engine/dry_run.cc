#include "sim/engine/dry_run.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <tuple>

#include "sim/engine/rank_engine.h"

namespace lockstep::sim {
namespace {

using scenario::Collective;
using scenario::Message;
using scenario::Needs;
using scenario::Op;

// One member's entry into an operation or a message; the answer goes to `rank` for `run`.
struct Entry {
  uint32_t rank;
  OpRun run;
  uint32_t message;
  VirtualTime at;
};

// Passes entries between the engines of one process. It queues the answers, because Enter must not call an
// engine.
class Exchange {
 public:
  struct Answer {
    uint32_t rank;
    OpRun run;
    VirtualTime latest;
  };

  Exchange(const scenario::Scenario& s, const std::vector<Program>& programs) : s_(s), programs_(programs) {}

  void Enter(const Entry& entry) {
    const Program& program = programs_[entry.rank];
    const OpRun run = entry.run;
    const CollectivePlace& place = program.Place(run.op, entry.message);
    const Channel& channel = program.channels[place.channel];
    const uint64_t number = uint64_t{run.step} * channel.per_step + place.ordinal;
    const Key key{channel.group, channel.from, channel.to, number};
    std::vector<Entry>& entries = open_[key];
    entries.push_back(entry);
    const bool everybody = channel.from == scenario::kNoIndex;
    const size_t members = everybody ? s_.groups[channel.group].members.size() : 2;
    if (everybody)
      AnswerGroup(entries, program.ops()[run.op], members, entry.rank, run, entry.at);
    else
      AnswerPair(entries, entry);
    if (entries.size() == members) open_.erase(key);
  }

  std::deque<Answer> answers;

  // Returns a text about one operation in which a member still waits.
  std::string Waiting() const {
    for (const auto& [key, entries] : open_) {
      const Entry& e = entries.front();
      const Op& op = programs_[e.rank].ops()[e.run.op];
      const std::vector<Message> messages = scenario::MessagesOf(op);
      const Collective collective = messages.empty() ? op.collective : messages[e.message].collective;
      // The sender of a small message does not wait for its receiver.
      if (!messages.empty() && collective == Collective::kSend && !Both(messages[e.message])) continue;
      return "rank " + std::to_string(e.rank) + " waits in step " + std::to_string(e.run.step) + " in " +
             std::string(scenario::CollectiveName(collective)) + " of group g" + std::to_string(op.group) +
             (op.line != 0 ? " (line " + std::to_string(op.line) + ")" : "") + " for members that never come";
    }
    return "a call waits for work that is launched after it; no rank waits in a collective";
  }

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>;

  void AnswerGroup(const std::vector<Entry>& entries, const Op& op, size_t members, uint32_t rank, OpRun run,
                   VirtualTime at) {
    const Needs needs = scenario::NeedsOf(op.collective);
    const uint32_t root = op.peer >= 0 ? s_.groups[op.group].members[op.peer] : scenario::kNoIndex;
    const bool complete = entries.size() == members;
    const VirtualTime latest =
        std::max_element(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
          return a.at < b.at;
        })->at;
    if (needs == Needs::kAll) {
      for (const Entry& e : entries) {
        if (complete) answers.push_back({e.rank, e.run, latest});
      }
    } else if (needs == Needs::kRoot) {
      AnswerRooted(entries, root, rank, run, at);
    } else {
      if (rank != root) answers.push_back({rank, run, at});
      for (const Entry& e : entries) {
        if (complete && e.rank == root) answers.push_back({e.rank, e.run, latest});
      }
    }
  }

  void AnswerRooted(const std::vector<Entry>& entries, uint32_t root, uint32_t rank, OpRun run,
                    VirtualTime at) {
    const auto of_root =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.rank == root; });
    if (of_root == entries.end()) return;
    if (rank != root) {
      answers.push_back({rank, run, std::max(at, of_root->at)});
      return;
    }
    for (const Entry& e : entries) answers.push_back({e.rank, e.run, std::max(e.at, at)});
  }

  Message MessageOf(const Entry& e) const {
    return scenario::MessagesOf(programs_[e.rank].ops()[e.run.op])[e.message];
  }
  // Returns whether sender and receiver need each other.
  bool Both(const Message& message) const { return message.bytes > s_.buffered_bytes; }

  void AnswerPair(const std::vector<Entry>& entries, const Entry& last) {
    const Message message = MessageOf(last);
    const bool both = Both(message);
    if (message.collective == Collective::kSend && !both) answers.push_back({last.rank, last.run, last.at});
    if (entries.size() != 2) return;
    const VirtualTime latest = std::max(entries[0].at, entries[1].at);
    for (const Entry& e : entries) {
      if (both || MessageOf(e).collective == Collective::kReceive) answers.push_back({e.rank, e.run, latest});
    }
  }

  const scenario::Scenario& s_;
  const std::vector<Program>& programs_;
  std::map<Key, std::vector<Entry>> open_;
};

class DryRank final : public CollectiveResolver, public RankObserver {
 public:
  DryRank(const Program& program, const ModelSettings& settings, Exchange& exchange)
      : program_(program),
        model_(program, settings),
        exchange_(exchange),
        engine_(program, model_, *this, *this) {
    for (uint32_t i = 0; i < program.ops().size() && first_host_op_ == kNoIndex; ++i) {
      if (program.ops()[i].IsHost()) first_host_op_ = i;
    }
  }

  RankEngine& engine() { return engine_; }
  RankHistory TakeHistory() {
    std::sort(history_.records.begin(), history_.records.end(), [](const TrueRecord& a, const TrueRecord& b) {
      return std::tie(a.step, a.op) < std::tie(b.step, b.op);
    });
    return std::move(history_);
  }

  void Enter(OpRun run, uint32_t message, VirtualTime entry) override {
    exchange_.Enter({program_.rank, run, message, entry});
  }
  void OnCallStart(OpRun run, VirtualTime start) override { NoteStep(run, start); }
  void OnCallEnd(OpRun run, VirtualTime start, VirtualTime end) override { Add(run, start, end); }
  void OnDevice(OpRun run, VirtualTime start, VirtualTime end) override { Add(run, start, end); }
  void OnMark(OpRun run, VirtualTime at) override {
    NoteStep(run, at);
    Add(run, at, at);
  }

 private:
  void NoteStep(OpRun run, VirtualTime at) {
    if (run.op == first_host_op_) history_.step_starts.push_back(at - model_.Gap(run.step, run.op));
  }
  void Add(OpRun run, VirtualTime start, VirtualTime end) {
    history_.records.push_back({run.step, run.op, program_.Correlation(run.step, run.op), start, end});
    history_.end = std::max(history_.end, end);
  }

  const Program& program_;
  Model model_;
  Exchange& exchange_;
  RankHistory history_;
  uint32_t first_host_op_ = kNoIndex;
  RankEngine engine_;
};

}  // namespace

WorldHistory DryRun(const scenario::Scenario& scenario, const ModelSettings& settings, uint32_t steps) {
  std::vector<Program> programs;
  for (uint32_t r = 0; r < scenario.ranks.size(); ++r) programs.push_back(Compile(scenario, r));
  Exchange exchange(scenario, programs);
  std::vector<std::unique_ptr<DryRank>> ranks;
  for (const Program& program : programs)
    ranks.push_back(std::make_unique<DryRank>(program, settings, exchange));
  for (auto& rank : ranks) rank->engine().AllowSteps(steps);
  bool moved = true;
  while (moved) {
    moved = false;
    for (auto& rank : ranks) {
      moved |= rank->engine().NextHostTime().has_value();
      rank->engine().RunUntil(VirtualTime::Max());
    }
    while (!exchange.answers.empty()) {
      const Exchange::Answer answer = exchange.answers.front();
      exchange.answers.pop_front();
      ranks[answer.rank]->engine().CollectiveDone(answer.run, answer.latest);
      moved = true;
    }
  }
  WorldHistory world;
  for (auto& rank : ranks) {
    if (!rank->engine().Finished() && world.stuck.empty()) world.stuck = exchange.Waiting();
    world.ranks.push_back(rank->TakeHistory());
  }
  return world;
}

Nanos MeanStep(const scenario::Scenario& scenario, const WorldHistory& history) {
  if (scenario.pacing == scenario::Pacing::kLoop) return scenario.period;
  const std::vector<VirtualTime>& starts = history.ranks[0].step_starts;
  if (starts.size() < 2) return history.ranks[0].end - VirtualTime();
  const size_t first = starts.size() > 4 ? 2 : 0;
  return (starts.back() - starts[first]) / static_cast<int64_t>(starts.size() - 1 - first);
}

Nanos MeanIteration(const scenario::Scenario& scenario, const WorldHistory& history) {
  std::vector<VirtualTime> ends(history.ranks[0].step_starts.size());
  for (const RankHistory& rank : history.ranks) {
    for (const TrueRecord& r : rank.records) {
      if (r.step < ends.size()) ends[r.step] = std::max(ends[r.step], r.end);
    }
  }
  if (scenario.pacing == scenario::Pacing::kChain) {
    if (ends.size() < 2) return history.ranks[0].end - VirtualTime();
    const size_t first = ends.size() > 4 ? 2 : 0;
    return (ends.back() - ends[first]) / static_cast<int64_t>(ends.size() - 1 - first);
  }
  Nanos sum;
  VirtualTime before;  // the latest end of an earlier iteration
  for (size_t k = 0; k < ends.size(); ++k) {
    const VirtualTime origin(scenario.period.ns() * static_cast<int64_t>(k));
    sum += ends[k] - std::max(origin, before);
    before = std::max(before, ends[k]);
  }
  return ends.empty() ? Nanos() : sum / static_cast<int64_t>(ends.size());
}

}  // namespace lockstep::sim
