// lockstep kernels: shows torch-tb-profiler's kernel view.
#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"
#include "views/device/kernels.h"

namespace lockstep::views {
namespace {

std::vector<ColumnOf<KernelRow>> KernelsColumns() {
  using R = KernelRow;
  return {
      Make<R>("rank", "", "rank of the row; null: all ranks", [](const R& r) { return Known(r.rank); }),
      Make<R>("name", "", "name of the kernel", [](const R& r) { return r.name; }),
      Make<R>("communication", "", "true for a communication kernel",
              [](const R& r) { return r.communication; }),
      Make<R>("tensor_cores", "", "true if the name shows that it uses tensor cores",
              [](const R& r) { return r.tensor_cores; }),
      Make<R>("operator", "", "innermost operator around the launch, with --group-by launch",
              [](const R& r) { return Known(r.launched_by); }),
      Make<R>("operator_tensor_core_eligible", "", "true if that operator could use tensor cores",
              [](const R& r) {
                return r.launched_by.empty() ? std::nullopt : std::optional(r.tensor_core_eligible);
              }),
      Make<R>("grid", "", "blocks of the grid, with --group-by launch",
              [](const R& r) { return ThreeOf(r, &capture::KernelDetail::grid); }),
      Make<R>("block", "", "threads of a block",
              [](const R& r) { return ThreeOf(r, &capture::KernelDetail::block); }),
      Make<R>(
          "registers", "", "registers per thread",
          [](const R& r) { return r.launch ? std::optional<int32_t>(r.launch->registers) : std::nullopt; }),
      Make<R>("shared_memory_bytes", "bytes", "shared memory per block",
              [](const R& r) {
                return r.launch ? std::optional<int64_t>(int64_t{r.launch->static_shared_bytes} +
                                                         r.launch->dynamic_shared_bytes)
                                : std::nullopt;
              }),
      Make<R>("calls", "", "number of calls", [](const R& r) { return r.calls; }),
      Make<R>("total_ns", "ns", "sum of durations", [](const R& r) { return r.total; }),
      Make<R>("total_fraction", "fraction", "share of the time of all kernels",
              [](const R& r) { return r.fraction; }),
      Make<R>("mean_ns", "ns", "total_ns over calls",
              [](const R& r) { return r.total / static_cast<int64_t>(r.calls); }),
      Make<R>("min_ns", "ns", "the shortest call", [](const R& r) { return r.least; }),
      Make<R>("max_ns", "ns", "the longest call", [](const R& r) { return r.most; }),
      Make<R>("blocks_per_sm", "", "mean over the calls, weighted by duration",
              [](const R& r) { return r.blocks_per_sm; }),
      Make<R>("occupancy_fraction", "fraction", "estimated achieved occupancy, mean weighted by duration",
              [](const R& r) { return r.occupancy; }),
  };
}

constexpr GroupName kKernelsGroupings[] = {
    {"rank", GroupBy::kRank, "each rank separately"},
    {"launch", GroupBy::kLaunch,
     "operator, grid, block, registers and shared memory (torch-tb-profiler: Kernel Properties + Op Name)"},
};

constexpr Alias kKernelsAliases[] = {
    {"total_duration", "total_ns"}, {"mean_duration", "mean_ns"}, {"max_duration", "max_ns"},
    {"min_duration", "min_ns"},     {"count", "calls"},
};

MadeView MakeKernels(const ViewInput& input, const ViewOptions& options) {
  const bool by_launch = options.Has(GroupBy::kLaunch);
  MadeView view{GridOf({"kernels", "Time of each kernel."},
                       views::KernelsOf(input.capture,
                                        {.by_rank = options.Has(GroupBy::kRank), .by_launch = by_launch}),
                       KernelsColumns()),
                by_launch ? NotesOnFrames(input.capture) : std::vector<std::string>()};
  return view;
}

}  // namespace

View KernelsView() {
  return {.name = "kernels",
          .about = "time of each GPU kernel, and its occupancy",
          .text = "torch-tb-profiler's kernel view. Copies and sets are not kernels.\n",
          .groupings = kKernelsGroupings,
          .columns =
              "rank,name,tensor_cores,operator,grid,block,registers,calls,total_ns,total_fraction,mean_ns,"
              "min_ns,max_ns,blocks_per_sm,"
              "occupancy_fraction",
          .aliases = kKernelsAliases,
          .needs_frames = [](const ViewOptions& options) { return options.Has(GroupBy::kLaunch); },
          .make = &MakeKernels};
}

}  // namespace lockstep::views
