#include "views/device/distributed.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analysis/prepare/collectives.h"
#include "analysis/time/intervals.h"
#include "analysis/time/step_breakdown.h"
#include "views/device/tensorboard_rules.h"

namespace lockstep::views {
namespace {

using analysis::Clip;
using analysis::Intersect;
using analysis::Measure;
using analysis::Normalize;
using analysis::Subtract;
using Set = analysis::IntervalSet<HostTime>;

// The communication of one step: all of it, its transfer, and its unsplit part.
struct Cut {
  std::vector<HostInterval> all, transfer, unsplit;
};

void AddCut(Cut cut, CommunicationStep& row) {
  const Set all = Normalize(std::move(cut.all));
  const Set transfer = Normalize(std::move(cut.transfer));
  const Set unsplit = Subtract(Normalize(std::move(cut.unsplit)), transfer);
  row.transfer = Measure(Intersect(transfer, all));
  row.unsplit = Measure(unsplit);
  row.wait = Measure(all) - row.transfer - row.unsplit;
}

CommunicationStep StepRow(RankId rank, std::optional<int64_t> number, const HostInterval& slot,
                          const Set& compute, const Set& communication) {
  CommunicationStep row{.rank = rank, .step = number};
  const Set a = Clip(compute, slot), b = Clip(communication, slot);
  row.length = slot.length();
  row.overlap = Measure(Intersect(a, b));
  row.computation = Measure(a) - row.overlap;
  row.communication = Measure(b) - row.overlap;
  row.other = row.length - row.computation - row.overlap - row.communication;
  return row;
}

// Returns the mean of the rows. `steps` is the number of steps. `cuts` is the number of rows with
// communication, which may include communication outside of all steps.
CommunicationStep MeanOf(const std::vector<CommunicationStep>& rows, int64_t steps, int64_t cuts) {
  CommunicationStep mean{.rank = rows.front().rank, .mean = true};
  const auto of = [&](Nanos CommunicationStep::*member, int64_t n) {
    for (const CommunicationStep& row : rows) mean.*member += row.*member;
    mean.*member = n == 0 ? Nanos() : mean.*member / n;
  };
  for (Nanos CommunicationStep::*member : {&CommunicationStep::computation, &CommunicationStep::overlap,
                                           &CommunicationStep::communication, &CommunicationStep::other}) {
    of(member, steps);
  }
  for (Nanos CommunicationStep::*member :
       {&CommunicationStep::transfer, &CommunicationStep::wait, &CommunicationStep::unsplit})
    of(member, cuts);
  // The means are rounded down. Their sum therefore replaces the mean length.
  mean.length = mean.computation + mean.overlap + mean.communication + mean.other;
  return mean;
}

void AddOp(CommunicationOp& row, std::optional<int64_t> bytes, Nanos latency, std::optional<Nanos> transfer,
           std::optional<Nanos> wait) {
  if (row.calls++ == 0) row.bytes = 0;
  row.bytes = row.bytes && bytes ? std::optional(*row.bytes + *bytes) : std::nullopt;
  row.latency += latency;
  if (transfer) row.transfer = row.transfer.value_or(Nanos()) + *transfer;
  if (wait) row.wait = row.wait.value_or(Nanos()) + *wait;
}

using OpRows = std::map<std::pair<RankId, std::string_view>, CommunicationOp>;

std::vector<CommunicationOp> Sorted(OpRows&& rows) {
  std::vector<CommunicationOp> out;
  for (auto& [key, row] : rows) {
    row.rank = key.first;
    row.name = key.second;
    out.push_back(row);
  }
  std::stable_sort(out.begin(), out.end(), [](const CommunicationOp& a, const CommunicationOp& b) {
    return std::tie(a.rank, b.latency) < std::tie(b.rank, a.latency);
  });
  return out;
}

class OurRule {
 public:
  OurRule(const DistributedInput& in, OpRanks op_ranks)
      : in_(in), op_ranks_(op_ranks), times_(analysis::TimeCollectives(in.capture, in.matches, in.clock)) {}

  Distributed Run() {
    for (size_t r = 0; r < in_.capture.ranks.size(); ++r) {
      AddSteps(r);
      AddOps(r);
    }
    out_.ops = Sorted(std::move(ops_));
    return std::move(out_);
  }

 private:
  void AddSteps(size_t r) {
    const capture::RankData& rank = in_.capture.ranks[r];
    const analysis::RankSteps& steps = in_.steps.ranks[r];
    if (steps.steps.empty()) return;
    const analysis::StepKinds kinds = analysis::KindsOf(in_.capture, rank);
    const std::vector<HostInterval> slots = analysis::StepIntervals(steps);
    std::vector<Cut> cuts(slots.size());
    for (size_t i = 0; i < rank.collectives.size(); ++i) {
      const capture::DeviceActivity& a = rank.activities[rank.collectives[i].activity];
      const analysis::Part& part = times_.parts[r][i];
      for (size_t s = 0; s < slots.size(); ++s) {
        const HostInterval within{std::max(a.start, slots[s].start), std::min(a.end, slots[s].end)};
        if (within.start >= within.end) continue;
        cuts[s].all.push_back(within);
        if (!part.split) {
          cuts[s].unsplit.push_back(within);
        } else {
          cuts[s].transfer.push_back({std::max(within.start, a.start + part.wait), within.end});
        }
      }
    }
    std::vector<CommunicationStep> rows;
    for (size_t s = 0; s < slots.size(); ++s) {
      rows.push_back(StepRow(rank.rank, in_.steps.names[s], slots[s], kinds.kernel, kinds.communication));
      AddCut(std::move(cuts[s]), rows.back());
    }
    const auto n = static_cast<int64_t>(rows.size());
    out_.steps.push_back(MeanOf(rows, n, n));
    out_.steps.insert(out_.steps.end(), rows.begin(), rows.end());
  }

  void AddOps(size_t r) {
    const capture::RankData& rank = in_.capture.ranks[r];
    for (size_t i = 0; i < rank.collectives.size(); ++i) {
      const capture::Collective& c = rank.collectives[i];
      const capture::DeviceActivity& a = rank.activities[c.activity];
      const analysis::Part& part = times_.parts[r][i];
      const Nanos length = a.end - a.start;
      CommunicationOp& row =
          ops_[{op_ranks_ == OpRanks::kEach ? rank.rank : kNoRank, capture::CollectiveOpName(c.op)}];
      AddOp(row, c.bytes >= 0 ? std::optional(c.bytes) : std::nullopt, length,
            part.split ? std::optional(length - part.wait) : std::nullopt,
            part.split ? std::optional(part.wait) : std::nullopt);
    }
  }

  const DistributedInput& in_;
  const OpRanks op_ranks_;
  const analysis::CollectiveTimes times_;
  Distributed out_;
  OpRows ops_;
};

class TensorBoardRule {
 public:
  TensorBoardRule(const DistributedInput& in, OpRanks op_ranks)
      : in_(in), op_ranks_(op_ranks), processes_(ProcessesOf(in.capture)) {}

  Distributed Run() {
    std::erase_if(processes_, [](const Process& p) { return p.frames == nullptr; });
    for (const Process& process : processes_) {
      steps_.push_back(TensorBoardSteps(in_.capture, process));
      ops_.push_back(TensorBoardOps(in_.capture, process, steps_.back()));
    }
    out_.withheld = DiffersInNumbers();
    for (size_t p = 0; p < processes_.size(); ++p) {
      AddSteps(p);
      if (!out_.withheld) AddOps(p);
    }
    out_.ops = Sorted(std::move(rows_));
    return std::move(out_);
  }

 private:
  // The i-th operation of each rank counts as the same collective, and so do their j-th ranges.
  Nanos Shortest(size_t i, size_t j) const {
    Nanos least = Nanos::Max();
    for (const auto& ops : ops_) least = std::min(least, ops[i].ranges[j].length());
    return least;
  }
  // Adds the ranges of a rank's i-th operation, and their ends, in which data moves.
  void AddRanges(size_t p, size_t i, std::vector<HostInterval>& all,
                 std::vector<HostInterval>& transfer) const {
    const std::vector<HostInterval>& ranges = ops_[p][i].ranges;
    for (size_t j = 0; j < ranges.size(); ++j) {
      all.push_back(ranges[j]);
      transfer.push_back({ranges[j].end - Shortest(i, j), ranges[j].end});
    }
  }
  // The plugin shows nothing unless all ranks have as many operations, with as many ranges each.
  bool DiffersInNumbers() const {
    for (const auto& ops : ops_) {
      if (ops.size() != ops_.front().size()) return true;
      for (size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].ranges.size() != ops_.front()[i].ranges.size()) return true;
      }
    }
    return false;
  }

  void AddSteps(size_t p) {
    const RankId rank = processes_[p].rank;
    if (steps_[p].empty()) return;
    const analysis::StepKinds kinds = TensorBoardKinds(in_.capture, processes_[p]);
    // Without a GPU, the host computes.
    const Set& compute = kinds.kernel.empty() ? kinds.cpu_exec : kinds.kernel;
    std::map<std::optional<int64_t>, Cut> cuts;
    for (size_t i = 0; i < ops_[p].size() && !out_.withheld; ++i) {
      Cut& cut = cuts[ops_[p][i].step];
      AddRanges(p, i, cut.all, cut.transfer);
    }
    const auto groups = static_cast<int64_t>(cuts.size());
    std::vector<CommunicationStep> rows;
    for (const TensorBoardStep& step : steps_[p]) {
      rows.push_back(StepRow(rank, step.number, step.time, compute, kinds.communication));
      const auto cut = cuts.find(step.number);
      if (cut == cuts.end()) continue;
      AddCut(std::move(cut->second), rows.back());
      cuts.erase(cut);
    }
    const auto n = static_cast<int64_t>(rows.size());
    for (auto& [step, cut] : cuts)
      AddCut(std::move(cut), rows.emplace_back(CommunicationStep{.rank = rank, .step = step}));
    out_.steps.push_back(MeanOf(rows, n, groups));
    out_.steps.insert(out_.steps.end(), rows.begin(), rows.end());
  }

  // Sums all calls of each name. Overlapping calls count once.
  void AddOps(size_t p) {
    struct Times {
      std::vector<HostInterval> all, transfer;
      uint64_t calls = 0;
      int64_t bytes = 0;
    };
    std::map<std::string_view, Times> of;
    for (size_t i = 0; i < ops_[p].size(); ++i) {
      const TensorBoardOp& op = ops_[p][i];
      Times& times = of[op.name];
      AddRanges(p, i, times.all, times.transfer);
      ++times.calls;
      times.bytes += op.bytes;
    }
    for (auto& [name, times] : of) {
      CommunicationOp& row = rows_[{op_ranks_ == OpRanks::kEach ? processes_[p].rank : kNoRank, name}];
      const uint64_t calls = row.calls + times.calls;
      const Nanos latency = Measure(Normalize(std::move(times.all)));
      const Nanos transfer = Measure(Normalize(std::move(times.transfer)));
      AddOp(row, times.bytes, latency, transfer, latency - transfer);
      row.calls = calls;
    }
  }

  const DistributedInput& in_;
  const OpRanks op_ranks_;
  std::vector<Process> processes_;
  std::vector<std::vector<TensorBoardStep>> steps_;
  std::vector<std::vector<TensorBoardOp>> ops_;
  Distributed out_;
  OpRows rows_;
};

}  // namespace

Distributed DistributedOf(const DistributedInput& input, CommunicationRule rule, OpRanks op_ranks) {
  return rule == CommunicationRule::kTensorBoard ? TensorBoardRule(input, op_ranks).Run()
                                                 : OurRule(input, op_ranks).Run();
}

}  // namespace lockstep::views
