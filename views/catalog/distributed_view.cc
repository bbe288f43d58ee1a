// lockstep distributed: torch-tb-profiler's distributed view.
#include <utility>

#include "views/catalog/view_columns.h"
#include "views/device/distributed.h"

namespace lockstep::tables {
namespace {

constexpr std::string_view kOps = "ops";
constexpr std::string_view kTensorBoard = "tb";

constexpr SubTable kTables[] = {
    {"steps", "computation, overlap, communication and the rest of each step; transfer and waiting",
     "rank,step,step_ns,computation_ns,overlap_ns,communication_ns,other_ns,transfer_ns,wait_ns,unsplit_ns"},
    {kOps, "what each operation costs",
     "rank,operation,calls,bytes,mean_bytes,latency_ns,mean_latency_ns,transfer_ns,mean_transfer_ns,wait_ns"},
};

constexpr Method kMethods[] = {
    {"lockstep", "communication kernels; who waited for whom as in the report (docs/analysis.md)"},
    {kTensorBoard,
     "torch-tb-profiler's: transfer is the end of each operation, as long as the shortest of all ranks "
     "(docs/views.md)"},
};

Grid Steps(std::vector<views::CommunicationStep> rows) {
  using R = views::CommunicationStep;
  return GridOf<R>(
      {"distributed_steps", "How much of communication hides, and how much is waiting."}, std::move(rows),
      {
          Make<R>("rank", "", "whose", [](const R& r) { return r.rank; }),
          Make<R>("step", "", "null: the mean over steps, or with --group-by step outside of them",
                  [](const R& r) { return r.step; }),
          Make<R>("step_ns", "ns", "computation + overlap + communication + other",
                  [](const R& r) { return r.length; }),
          Make<R>("computation_ns", "ns", "compute kernels, no communication beside them",
                  [](const R& r) { return r.computation; }),
          Make<R>("overlap_ns", "ns", "both", [](const R& r) { return r.overlap; }),
          Make<R>("communication_ns", "ns", "communication, no compute kernel beside it",
                  [](const R& r) { return r.communication; }),
          Make<R>("other_ns", "ns", "neither", [](const R& r) { return r.other; }),
          Make<R>("transfer_ns", "ns", "of all communication, hidden or not: data moves",
                  [](const R& r) { return r.transfer; }),
          Make<R>("wait_ns", "ns",
                  "of all communication: waiting for others (torch-tb-profiler: synchronizing)",
                  [](const R& r) { return r.wait; }),
          Make<R>("unsplit_ns", "ns", "of all communication: which of the two is not known",
                  [](const R& r) { return r.unsplit; }),
      });
}

template <auto member>
std::optional<Nanos> Mean(const views::CommunicationOp& r) {
  const std::optional<Nanos> sum = r.*member;
  return sum && r.calls > 0 ? std::optional(*sum / static_cast<int64_t>(r.calls)) : std::nullopt;
}

Grid Ops(std::vector<views::CommunicationOp> rows) {
  using R = views::CommunicationOp;
  return GridOf<R>(
      {"distributed_ops", "What each communication operation costs."}, std::move(rows),
      {
          Make<R>("rank", "", "null: all", [](const R& r) { return Known(r.rank); }),
          Make<R>("operation", "", "its name", [](const R& r) { return r.name; }),
          Make<R>("calls", "", "how often it ran", [](const R& r) { return r.calls; }),
          Make<R>("bytes", "bytes", "of all calls; null: not known of all",
                  [](const R& r) { return r.bytes; }),
          Make<R>("mean_bytes", "bytes", "bytes over calls",
                  [](const R& r) {
                    return r.bytes && r.calls > 0 ? std::optional(*r.bytes / static_cast<int64_t>(r.calls))
                                                  : std::nullopt;
                  }),
          Make<R>("latency_ns", "ns", "of all calls, waiting included", [](const R& r) { return r.latency; }),
          Make<R>(
              "mean_latency_ns", "ns", "latency_ns over calls",
              [](const R& r) { return r.latency / static_cast<int64_t>(std::max<uint64_t>(r.calls, 1)); }),
          Make<R>("transfer_ns", "ns", "of the calls where it is known",
                  [](const R& r) { return r.transfer; }),
          Make<R>("mean_transfer_ns", "ns", "transfer_ns over calls",
                  [](const R& r) { return Mean<&views::CommunicationOp::transfer>(r); }),
          Make<R>("wait_ns", "ns", "waiting for others, alike", [](const R& r) { return r.wait; }),
          Make<R>("mean_wait_ns", "ns", "wait_ns over calls",
                  [](const R& r) { return Mean<&views::CommunicationOp::wait>(r); }),
      });
}

constexpr GroupName kGroupings[] = {
    {"rank", GroupBy::kRank, "each rank on its own (the steps always are)"},
    {"step", GroupBy::kStep, "each step instead of their mean"},
};

MadeView MakeDistributed(const ViewInput& input, const ViewOptions& options) {
  const report::Analysis& analysis = input.analysis();
  const bool tensorboard = options.method == kTensorBoard;
  views::Distributed distributed = views::DistributedOf(
      {input.capture, analysis.matches, analysis.clock, analysis.steps},
      tensorboard ? views::CommunicationRule::kTensorBoard : views::CommunicationRule::kLockstep,
      options.Has(GroupBy::kRank) ? views::OpRanks::kEach : views::OpRanks::kTogether);
  std::vector<std::string> notes;
  if (tensorboard) notes = NotesOnFrames(input.capture);
  if (distributed.withheld)
    notes.emplace_back(
        "ranks have different numbers of communication operations, so torch-tb-profiler compares none");
  if (options.table == kOps) return {Ops(std::move(distributed.ops)), std::move(notes)};
  const bool each = options.Has(GroupBy::kStep);
  std::erase_if(distributed.steps, [&](const views::CommunicationStep& s) { return s.mean == each; });
  return {Steps(std::move(distributed.steps)), std::move(notes)};
}

// torch-tb-profiler's headings.
constexpr Alias kAliases[] = {{"data_transfer_time", "transfer_ns"}, {"synchronizing_time", "wait_ns"}};

}  // namespace

View DistributedView() {
  return {.name = "distributed",
          .about = "how much of each rank's communication hides behind computation, and how much is waiting",
          .text = "torch-tb-profiler's distributed view.\n",
          .groupings = kGroupings,
          .tables = kTables,
          .methods = kMethods,
          .aliases = kAliases,
          .needs_frames = [](const ViewOptions& options) { return options.method == kTensorBoard; },
          .needs_all_ranks = true,
          .make = &MakeDistributed};
}

}  // namespace lockstep::tables
