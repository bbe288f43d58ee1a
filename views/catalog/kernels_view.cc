// lockstep kernels: torch-tb-profiler's kernel view.
#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"
#include "views/device/kernels.h"

namespace lockstep::tables {
namespace {

using R = views::KernelRow;

template <typename T>
BorrowedOrMade ThreeOf(const R& r, const T (store::KernelDetail::*member)[3]) {
  if (!r.launch) return {};
  const auto& of = (*r.launch).*member;
  return {.made = absl::StrCat(of[0], ",", of[1], ",", of[2])};
}

std::vector<ColumnOf<R>> Columns() {
  return {
      Make<R>("rank", "", "null: all", [](const R& r) { return Known(r.rank); }),
      Make<R>("name", "", "of the kernel", [](const R& r) { return r.name; }),
      Make<R>("communication", "", "is it a communication kernel",
              [](const R& r) { return r.communication; }),
      Make<R>("tensor_cores", "", "does its name say that it uses them",
              [](const R& r) { return r.tensor_cores; }),
      Make<R>("operator", "", "innermost operator around the launch, with --group-by launch",
              [](const R& r) { return Known(r.launched_by); }),
      Make<R>("operator_tensor_core_eligible", "", "could that operator use them",
              [](const R& r) {
                return r.launched_by.empty() ? std::nullopt : std::optional(r.tensor_core_eligible);
              }),
      Make<R>("grid", "", "blocks, with --group-by launch",
              [](const R& r) { return ThreeOf(r, &store::KernelDetail::grid); }),
      Make<R>("block", "", "threads", [](const R& r) { return ThreeOf(r, &store::KernelDetail::block); }),
      Make<R>(
          "registers", "", "for each thread",
          [](const R& r) { return r.launch ? std::optional<int32_t>(r.launch->registers) : std::nullopt; }),
      Make<R>("shared_memory_bytes", "bytes", "for each block",
              [](const R& r) {
                return r.launch ? std::optional<int64_t>(int64_t{r.launch->static_shared_bytes} +
                                                         r.launch->dynamic_shared_bytes)
                                : std::nullopt;
              }),
      Make<R>("calls", "", "how often it ran", [](const R& r) { return r.calls; }),
      Make<R>("total_ns", "ns", "sum over the calls", [](const R& r) { return r.total; }),
      Make<R>("total_fraction", "fraction", "of the time of all kernels",
              [](const R& r) { return r.fraction; }),
      Make<R>("mean_ns", "ns", "total_ns over calls",
              [](const R& r) { return r.total / static_cast<int64_t>(r.calls); }),
      Make<R>("min_ns", "ns", "the shortest call", [](const R& r) { return r.least; }),
      Make<R>("max_ns", "ns", "the longest call", [](const R& r) { return r.most; }),
      Make<R>("blocks_per_sm", "", "mean over the calls, weighted by their lengths",
              [](const R& r) { return r.blocks_per_sm; }),
      Make<R>("occupancy_fraction", "fraction", "estimated achieved occupancy, weighted alike",
              [](const R& r) { return r.occupancy; }),
  };
}

constexpr GroupName kGroupings[] = {
    {"rank", GroupBy::kRank, "each rank on its own"},
    {"launch", GroupBy::kLaunch,
     "operator, grid, block, registers and shared memory (torch-tb-profiler: Kernel Properties + Op Name)"},
};

constexpr Alias kAliases[] = {
    {"total_duration", "total_ns"}, {"mean_duration", "mean_ns"}, {"max_duration", "max_ns"},
    {"min_duration", "min_ns"},     {"count", "calls"},
};

MadeView MakeKernels(const ViewInput& input, const ViewOptions& options) {
  const bool by_launch = options.Has(GroupBy::kLaunch);
  MadeView view{GridOf({"kernels", "The time of each kernel."},
                       views::KernelsOf(input.capture,
                                        {.by_rank = options.Has(GroupBy::kRank), .by_launch = by_launch}),
                       Columns()),
                by_launch ? NotesOnFrames(input.capture) : std::vector<std::string>()};
  return view;
}

}  // namespace

View KernelsView() {
  return {.name = "kernels",
          .about = "the time of each GPU kernel, and how well it filled the device",
          .text = "torch-tb-profiler's kernel view. Copies and sets are no kernels.\n",
          .groupings = kGroupings,
          .columns =
              "rank,name,tensor_cores,operator,grid,block,registers,calls,total_ns,total_fraction,mean_ns,"
              "min_ns,max_ns,blocks_per_sm,"
              "occupancy_fraction",
          .aliases = kAliases,
          .needs_frames = [](const ViewOptions& options) { return options.Has(GroupBy::kLaunch); },
          .make = &MakeKernels};
}

}  // namespace lockstep::tables
