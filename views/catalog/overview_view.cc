// lockstep overview: shows torch-tb-profiler's overview.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "views/catalog/recommendations.h"
#include "views/catalog/view_columns.h"
#include "views/device/overview.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kSteps = "steps";
constexpr std::string_view kRecommendations = "recommendations";
constexpr std::string_view kOverviewTensorBoard = "tb";

constexpr SubTable kOverviewTables[] = {
    {"ranks", "device of each rank, its utilisation and occupancy, and the parts of the mean step",
     "rank,device,gpu_utilization_fraction,sm_efficiency_fraction,occupancy_fraction,step_ns,kernel_ns,"
     "memcpy_ns,communication_ns,runtime_ns,"
     "dataloader_ns,cpu_exec_ns,other_ns,tensor_core_fraction,memset_ns"},
    {kSteps, "parts of each step",
     "rank,step,step_ns,kernel_ns,memcpy_ns,memset_ns,communication_ns,runtime_ns,dataloader_ns,cpu_exec_ns,"
     "other_ns"},
    {kRecommendations, "recommendations with their figures", "recommendation"},
};

constexpr Method kOverviewMethods[] = {
    {"lockstep", "the report's steps and figures; communication kernels are communication"},
    {kOverviewTensorBoard,
     "torch-tb-profiler's steps and figures, in which communication kernels are kernels "
     "(docs/views/distributed.md)"},
};

struct OverviewTableRow {
  views::RankOverview rank;
  std::optional<int64_t> step;
  analysis::StepBreakdown breakdown;
  bool has_steps = true;
};

template <auto member>
std::optional<Nanos> Of(const OverviewTableRow& r) {
  return r.has_steps ? std::optional(r.breakdown.*member) : std::nullopt;
}

std::vector<ColumnOf<OverviewTableRow>> BreakdownColumns() {
  using R = OverviewTableRow;
  using B = analysis::StepBreakdown;
  return {
      Make<R>("step_ns", "ns", "sum of the kinds",
              [](const R& r) { return r.has_steps ? std::optional(r.breakdown.Total()) : std::nullopt; }),
      Make<R>("kernel_ns", "ns", "time with a kernel", Named<&Of<&B::kernel>>()),
      Make<R>("memcpy_ns", "ns", "remaining time with a copy", Named<&Of<&B::memcpy>>()),
      Make<R>("memset_ns", "ns", "remaining time with a set", Named<&Of<&B::memset>>()),
      Make<R>("communication_ns", "ns", "remaining time with communication", Named<&Of<&B::communication>>()),
      Make<R>("runtime_ns", "ns", "remaining time in CUDA calls", Named<&Of<&B::runtime>>()),
      Make<R>("dataloader_ns", "ns", "remaining time in data loading", Named<&Of<&B::dataloader>>()),
      Make<R>("cpu_exec_ns", "ns", "remaining time in operators", Named<&Of<&B::cpu_exec>>()),
      Make<R>("other_ns", "ns", "remaining time", Named<&Of<&B::other>>()),
  };
}

std::vector<ColumnOf<OverviewTableRow>> RankColumns() {
  using R = OverviewTableRow;
  std::vector<ColumnOf<R>> columns = {
      Make<R>("rank", "", "rank of the row", [](const R& r) { return r.rank.rank; }),
      Make<R>("device_number", "", "number of the GPU", [](const R& r) { return int64_t{r.rank.device}; }),
      Make<R>("device", "", "name of the GPU; null: unknown",
              [](const R& r) {
                return r.rank.properties == nullptr ? std::nullopt : Known(r.rank.properties->name);
              }),
      Make<R>("memory_bytes", "bytes", "memory of the GPU",
              [](const R& r) {
                return r.rank.properties == nullptr || r.rank.properties->memory_bytes == 0
                           ? std::nullopt
                           : std::optional(static_cast<int64_t>(r.rank.properties->memory_bytes));
              }),
      Make<R>("compute_capability", "", "compute capability of the GPU",
              [](const R& r) -> OwnedOrBorrowedText {
                if (r.rank.properties == nullptr || r.rank.properties->compute_major == 0) return {};
                return {.made = absl::StrCat(r.rank.properties->compute_major, ".",
                                             r.rank.properties->compute_minor)};
              }),
      Make<R>("gpu_utilization_fraction", "fraction", "share of the time with a kernel",
              [](const R& r) { return r.rank.gpu_utilization; }),
      Make<R>("sm_efficiency_fraction", "fraction",
              "estimated: min(1, blocks per multiprocessor) over the time",
              [](const R& r) { return r.rank.sm_efficiency; }),
      Make<R>("occupancy_fraction", "fraction",
              "estimated achieved occupancy, mean over kernels weighted by duration",
              [](const R& r) { return r.rank.occupancy; }),
      Make<R>("tensor_core_fraction", "fraction", "share of kernel time in kernels that use tensor cores",
              [](const R& r) { return r.rank.tensor_core_fraction; }),
      Make<R>("eligible_fraction", "fraction",
              "share of kernel time launched by operators that could use tensor cores",
              [](const R& r) { return r.rank.eligible_fraction; }),
      Make<R>("eligible_tensor_core_fraction", "fraction",
              "share of that time in kernels that use tensor cores",
              [](const R& r) { return r.rank.eligible_tensor_core_fraction; }),
      Make<R>("steps", "", "number of steps in the means",
              [](const R& r) { return static_cast<int64_t>(r.rank.steps.size()); }),
  };
  for (const ColumnOf<R>& column : BreakdownColumns()) columns.push_back(column);
  return columns;
}

std::vector<ColumnOf<OverviewTableRow>> StepColumns() {
  using R = OverviewTableRow;
  std::vector<ColumnOf<R>> columns = {
      Make<R>("rank", "", "rank of the row", [](const R& r) { return r.rank.rank; }),
      Make<R>("step", "", "step number; null: unknown", [](const R& r) { return r.step; }),
  };
  for (const ColumnOf<R>& column : BreakdownColumns()) columns.push_back(column);
  return columns;
}

std::vector<views::RankOverview> Overviews(const ViewInput& input, bool tensorboard) {
  const report::Analysis& analysis = input.analysis();
  auto rows =
      views::OverviewOf(input.capture, analysis.steps,
                        tensorboard ? views::OverviewRule::kTensorBoard : views::OverviewRule::kLockstep);
  for (size_t i = 0; !tensorboard && i < std::min(rows.size(), analysis.report.ranks.size()); ++i) {
    const report::RankRow& row = analysis.report.ranks[i];
    rows[i].gpu_utilization = row.gpu_utilization;
    rows[i].sm_efficiency = row.sm_efficiency;
    rows[i].occupancy = row.achieved_occupancy;
    rows[i].tensor_core_fraction = row.tensor_core_fraction;
  }
  return rows;
}

MadeView Recommendations(const ViewInput& input, const std::vector<views::RankOverview>& ranks) {
  return {GridOf<std::string>({"overview_recommendations", "Recommendations."},
                              RecommendationsOf(input.capture, input.analysis().report, ranks),
                              {Make<std::string>("recommendation", "", "recommendation with its figures",
                                                 [](const std::string& r) { return r; })}),
          {}};
}

MadeView MakeOverview(const ViewInput& input, const ViewOptions& options) {
  const std::vector<views::RankOverview> ranks = Overviews(input, options.method == kOverviewTensorBoard);
  if (options.table == kRecommendations) return Recommendations(input, ranks);
  const bool each = options.table == kSteps || options.Has(GroupBy::kStep);
  std::vector<OverviewTableRow> rows;
  for (const views::RankOverview& rank : ranks) {
    if (!each) {
      rows.push_back({rank, std::nullopt, rank.mean, !rank.steps.empty()});
      continue;
    }
    for (const views::StepTime& step : rank.steps)
      rows.push_back({{.rank = rank.rank}, step.number, step.breakdown});
  }
  std::vector<std::string> notes = NotesOnFrames(input.capture);
  if (each)
    return {GridOf({"overview_steps", "Parts of each step."}, std::move(rows), StepColumns()),
            std::move(notes)};
  for (std::string& recommendation : RecommendationsOf(input.capture, input.analysis().report, ranks))
    notes.push_back(std::move(recommendation));
  return {GridOf({"overview", "Device and mean step of each rank."}, std::move(rows), RankColumns()),
          std::move(notes)};
}

constexpr GroupName kOverviewGroupings[] = {{"step", GroupBy::kStep, "each step (--table steps)"}};

// Headings of torch-tb-profiler.
constexpr Alias kOverviewAliases[] = {
    {"gpu_utilization", "gpu_utilization_fraction"},
    {"est_sm_efficiency", "sm_efficiency_fraction"},
    {"est_achieved_occupancy", "occupancy_fraction"},
    {"kernel_time_using_tensor_cores", "tensor_core_fraction"},
    {"cpu_exec", "cpu_exec_ns"},
};

}  // namespace

View OverviewView() {
  return {.name = "overview",
          .about = "device of each rank, its utilisation and occupancy, and the parts of its steps",
          .text =
              "torch-tb-profiler's overview. A moment of a step counts as the first of: kernel, copy, set, "
              "communication, call of CUDA, data loader,\n"
              "operator, other; they sum to the step.\n",
          .groupings = kOverviewGroupings,
          .tables = kOverviewTables,
          .methods = kOverviewMethods,
          .aliases = kOverviewAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .needs_all_ranks = true,
          .make = &MakeOverview};
}

}  // namespace lockstep::views
