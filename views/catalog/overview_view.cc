// lockstep overview: torch-tb-profiler's overview.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "views/catalog/recommendations.h"
#include "views/catalog/view_columns.h"
#include "views/device/overview.h"

namespace lockstep::tables {
namespace {

constexpr std::string_view kSteps = "steps";
constexpr std::string_view kRecommendations = "recommendations";
constexpr std::string_view kTensorBoard = "tb";

constexpr SubTable kTables[] = {
    {"ranks", "each rank's device, how busy and how full it was, and where the mean step went",
     "rank,device,gpu_utilization_fraction,sm_efficiency_fraction,occupancy_fraction,step_ns,kernel_ns,"
     "memcpy_ns,communication_ns,runtime_ns,"
     "dataloader_ns,cpu_exec_ns,other_ns,tensor_core_fraction,memset_ns"},
    {kSteps, "where each step went",
     "rank,step,step_ns,kernel_ns,memcpy_ns,memset_ns,communication_ns,runtime_ns,dataloader_ns,cpu_exec_ns,"
     "other_ns"},
    {kRecommendations, "what to do, with the number behind it", "recommendation"},
};

constexpr Method kMethods[] = {
    {"lockstep", "the report's steps and figures; communication kernels are communication"},
    {kTensorBoard,
     "torch-tb-profiler's steps and figures, in which communication kernels are kernels (docs/views.md)"},
};

struct Row {
  views::RankOverview rank;
  std::optional<int64_t> step;
  analysis::StepBreakdown breakdown;
  bool has_steps = true;
};

template <auto member>
std::optional<Nanos> Of(const Row& r) {
  return r.has_steps ? std::optional(r.breakdown.*member) : std::nullopt;
}

std::vector<ColumnOf<Row>> BreakdownColumns() {
  using R = Row;
  using B = analysis::StepBreakdown;
  return {
      Make<R>("step_ns", "ns", "the sum of the kinds",
              [](const R& r) { return r.has_steps ? std::optional(r.breakdown.Total()) : std::nullopt; }),
      Make<R>("kernel_ns", "ns", "a kernel ran", Named<&Of<&B::kernel>>()),
      Make<R>("memcpy_ns", "ns", "else a copy ran", Named<&Of<&B::memcpy>>()),
      Make<R>("memset_ns", "ns", "else a set ran", Named<&Of<&B::memset>>()),
      Make<R>("communication_ns", "ns", "else communication ran", Named<&Of<&B::communication>>()),
      Make<R>("runtime_ns", "ns", "else the host was in a call of CUDA", Named<&Of<&B::runtime>>()),
      Make<R>("dataloader_ns", "ns", "else it loaded data", Named<&Of<&B::dataloader>>()),
      Make<R>("cpu_exec_ns", "ns", "else it ran an operator", Named<&Of<&B::cpu_exec>>()),
      Make<R>("other_ns", "ns", "none of these", Named<&Of<&B::other>>()),
  };
}

std::vector<ColumnOf<Row>> RankColumns() {
  using R = Row;
  std::vector<ColumnOf<R>> columns = {
      Make<R>("rank", "", "whose", [](const R& r) { return r.rank.rank; }),
      Make<R>("device_number", "", "of its GPU", [](const R& r) { return int64_t{r.rank.device}; }),
      Make<R>("device", "", "name of its GPU; null: not told",
              [](const R& r) {
                return r.rank.properties == nullptr ? std::nullopt : Known(r.rank.properties->name);
              }),
      Make<R>("memory_bytes", "bytes", "of the GPU",
              [](const R& r) {
                return r.rank.properties == nullptr || r.rank.properties->memory_bytes == 0
                           ? std::nullopt
                           : std::optional(static_cast<int64_t>(r.rank.properties->memory_bytes));
              }),
      Make<R>("compute_capability", "", "of the GPU",
              [](const R& r) -> BorrowedOrMade {
                if (r.rank.properties == nullptr || r.rank.properties->compute_major == 0) return {};
                return {.made = absl::StrCat(r.rank.properties->compute_major, ".",
                                             r.rank.properties->compute_minor)};
              }),
      Make<R>("gpu_utilization_fraction", "fraction", "of the time a kernel ran",
              [](const R& r) { return r.rank.gpu_utilization; }),
      Make<R>("sm_efficiency_fraction", "fraction",
              "estimated: min(1, blocks per multiprocessor) over the time",
              [](const R& r) { return r.rank.sm_efficiency; }),
      Make<R>("occupancy_fraction", "fraction",
              "estimated achieved occupancy, mean over kernels weighted by length",
              [](const R& r) { return r.rank.occupancy; }),
      Make<R>("tensor_core_fraction", "fraction", "of the kernels' time, in kernels that use tensor cores",
              [](const R& r) { return r.rank.tensor_core_fraction; }),
      Make<R>("eligible_fraction", "fraction",
              "of the kernels' time, launched by operators that could use tensor cores",
              [](const R& r) { return r.rank.eligible_fraction; }),
      Make<R>("eligible_tensor_core_fraction", "fraction", "of that, in kernels that do",
              [](const R& r) { return r.rank.eligible_tensor_core_fraction; }),
      Make<R>("steps", "", "how many the means are of",
              [](const R& r) { return static_cast<int64_t>(r.rank.steps.size()); }),
  };
  for (ColumnOf<R>& column : BreakdownColumns()) columns.push_back(std::move(column));
  return columns;
}

std::vector<ColumnOf<Row>> StepColumns() {
  using R = Row;
  std::vector<ColumnOf<R>> columns = {
      Make<R>("rank", "", "whose", [](const R& r) { return r.rank.rank; }),
      Make<R>("step", "", "its number; null: not told", [](const R& r) { return r.step; }),
  };
  for (ColumnOf<R>& column : BreakdownColumns()) columns.push_back(std::move(column));
  return columns;
}

std::vector<views::RankOverview> Overviews(const ViewInput& input, bool tensorboard) {
  const report::Analysis& analysis = input.analysis();
  auto rows =
      views::OverviewOf(input.capture, analysis.steps,
                        tensorboard ? views::OverviewRule::kTensorBoard : views::OverviewRule::kLockstep);
  for (size_t i = 0; !tensorboard && i < std::min(rows.size(), analysis.report.ranks.size()); ++i) {
    const report::RankRow& told = analysis.report.ranks[i];
    rows[i].gpu_utilization = told.gpu_utilization;
    rows[i].sm_efficiency = told.sm_efficiency;
    rows[i].occupancy = told.achieved_occupancy;
    rows[i].tensor_core_fraction = told.tensor_core_fraction;
  }
  return rows;
}

MadeView Recommendations(const ViewInput& input, const std::vector<views::RankOverview>& ranks) {
  return {GridOf<std::string>({"overview_recommendations", "What to do."},
                              RecommendationsOf(input.capture, input.analysis().report, ranks),
                              {Make<std::string>("recommendation", "", "with the number behind it",
                                                 [](const std::string& r) { return r; })}),
          {}};
}

MadeView MakeOverview(const ViewInput& input, const ViewOptions& options) {
  const std::vector<views::RankOverview> ranks = Overviews(input, options.method == kTensorBoard);
  if (options.table == kRecommendations) return Recommendations(input, ranks);
  const bool each = options.table == kSteps || options.Has(GroupBy::kStep);
  std::vector<Row> rows;
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
    return {GridOf({"overview_steps", "Where each step went."}, std::move(rows), StepColumns()),
            std::move(notes)};
  for (std::string& recommendation : RecommendationsOf(input.capture, input.analysis().report, ranks))
    notes.push_back(std::move(recommendation));
  return {GridOf({"overview", "Each rank's device and its mean step."}, std::move(rows), RankColumns()),
          std::move(notes)};
}

constexpr GroupName kGroupings[] = {{"step", GroupBy::kStep, "each step (--table steps)"}};

// torch-tb-profiler's headings.
constexpr Alias kAliases[] = {
    {"gpu_utilization", "gpu_utilization_fraction"},
    {"est_sm_efficiency", "sm_efficiency_fraction"},
    {"est_achieved_occupancy", "occupancy_fraction"},
    {"kernel_time_using_tensor_cores", "tensor_core_fraction"},
    {"cpu_exec", "cpu_exec_ns"},
};

}  // namespace

View OverviewView() {
  return {.name = "overview",
          .about = "each rank's device, how busy and how full it was, and where its steps went",
          .text =
              "torch-tb-profiler's overview. A moment of a step counts as the first of: kernel, copy, set, "
              "communication, call of CUDA, data loader,\n"
              "operator, other; they sum to the step.\n",
          .groupings = kGroupings,
          .tables = kTables,
          .methods = kMethods,
          .aliases = kAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .needs_all_ranks = true,
          .make = &MakeOverview};
}

}  // namespace lockstep::tables
