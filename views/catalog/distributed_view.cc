// lockstep distributed: shows torch-tb-profiler's distributed view.
#include <utility>

#include "views/catalog/view_columns.h"
#include "views/device/distributed.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kOps = "ops";
constexpr std::string_view kDistributedTensorBoard = "tb";

constexpr SubTable kDistributedTables[] = {
    {"steps", "computation, overlap, communication and other time of each step; transfer and waiting",
     "rank,step,step_ns,computation_ns,overlap_ns,communication_ns,other_ns,transfer_ns,wait_ns,unsplit_ns"},
    {kOps, "cost of each operation",
     "rank,operation,calls,bytes,mean_bytes,latency_ns,mean_latency_ns,transfer_ns,mean_transfer_ns,wait_ns"},
};

constexpr Method kDistributedMethods[] = {
    {"lockstep", "communication kernels; waiting as in the report (docs/analysis/waiting.md)"},
    {kDistributedTensorBoard,
     "torch-tb-profiler's: transfer is the end of each operation, as long as the shortest of all ranks "
     "(docs/views/distributed.md)"},
};

Grid Steps(std::vector<views::CommunicationStep> rows) {
  using R = views::CommunicationStep;
  return GridOf<R>(
      {"distributed_steps", "Overlap of communication, and its waiting."}, std::move(rows),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.rank; }),
          Make<R>("step", "",
                  "step number; null: mean over the steps, or with --group-by step: outside the steps",
                  [](const R& r) { return r.step; }),
          Make<R>("step_ns", "ns", "sum of computation, overlap, communication and other",
                  [](const R& r) { return r.length; }),
          Make<R>("computation_ns", "ns", "time with compute kernels and no communication",
                  [](const R& r) { return r.computation; }),
          Make<R>("overlap_ns", "ns", "time with both", [](const R& r) { return r.overlap; }),
          Make<R>("communication_ns", "ns", "time with communication and no compute kernel",
                  [](const R& r) { return r.communication; }),
          Make<R>("other_ns", "ns", "time with neither", [](const R& r) { return r.other; }),
          Make<R>("transfer_ns", "ns", "transfer of data in all communication, hidden or exposed",
                  [](const R& r) { return r.transfer; }),
          Make<R>("wait_ns", "ns",
                  "waiting for other ranks in all communication (torch-tb-profiler: synchronizing)",
                  [](const R& r) { return r.wait; }),
          Make<R>("unsplit_ns", "ns", "communication that cannot be split into transfer and waiting",
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
      {"distributed_ops", "Cost of each communication operation."}, std::move(rows),
      {
          Make<R>("rank", "", "rank of the row; null: all ranks", [](const R& r) { return Known(r.rank); }),
          Make<R>("operation", "", "name of the operation", [](const R& r) { return r.name; }),
          Make<R>("calls", "", "number of calls", [](const R& r) { return r.calls; }),
          Make<R>("bytes", "bytes", "bytes of all calls; null: some are unknown",
                  [](const R& r) { return r.bytes; }),
          Make<R>("mean_bytes", "bytes", "bytes over calls",
                  [](const R& r) {
                    return r.bytes && r.calls > 0 ? std::optional(*r.bytes / static_cast<int64_t>(r.calls))
                                                  : std::nullopt;
                  }),
          Make<R>("latency_ns", "ns", "duration of all calls, including waiting",
                  [](const R& r) { return r.latency; }),
          Make<R>(
              "mean_latency_ns", "ns", "latency_ns over calls",
              [](const R& r) { return r.latency / static_cast<int64_t>(std::max<uint64_t>(r.calls, 1)); }),
          Make<R>("transfer_ns", "ns", "transfer time of the calls for which it is known",
                  [](const R& r) { return r.transfer; }),
          Make<R>("mean_transfer_ns", "ns", "transfer_ns over calls",
                  [](const R& r) { return Mean<&views::CommunicationOp::transfer>(r); }),
          Make<R>("wait_ns", "ns", "waiting for other ranks in the same calls",
                  [](const R& r) { return r.wait; }),
          Make<R>("mean_wait_ns", "ns", "wait_ns over calls",
                  [](const R& r) { return Mean<&views::CommunicationOp::wait>(r); }),
      });
}

constexpr GroupName kDistributedGroupings[] = {
    {"rank", GroupBy::kRank, "each rank separately (the steps always are)"},
    {"step", GroupBy::kStep, "each step instead of their mean"},
};

MadeView MakeDistributed(const ViewInput& input, const ViewOptions& options) {
  const report::Analysis& analysis = input.analysis();
  const bool tensorboard = options.method == kDistributedTensorBoard;
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

// Headings of torch-tb-profiler.
constexpr Alias kDistributedAliases[] = {{"data_transfer_time", "transfer_ns"},
                                         {"synchronizing_time", "wait_ns"}};

}  // namespace

View DistributedView() {
  return {
      .name = "distributed",
      .about = "overlap of each rank's communication with computation, and its waiting",
      .text = "torch-tb-profiler's distributed view.\n",
      .groupings = kDistributedGroupings,
      .tables = kDistributedTables,
      .methods = kDistributedMethods,
      .aliases = kDistributedAliases,
      .needs_frames = [](const ViewOptions& options) { return options.method == kDistributedTensorBoard; },
      .needs_all_ranks = true,
      .make = &MakeDistributed};
}

}  // namespace lockstep::views
