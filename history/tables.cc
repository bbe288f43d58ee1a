#include "history/tables.h"

#include <algorithm>
#include <cassert>

#include "absl/strings/str_cat.h"

namespace lockstep::history {
namespace {

constexpr ColumnType kWhole = ColumnType::kWhole, kReal = ColumnType::kReal, kText = ColumnType::kText;
constexpr ColumnNull kNever = ColumnNull::kNever, kUnknown = ColumnNull::kUnknown;
constexpr TableColumn kCaptureColumn = {"capture", kText, kNever, "", "the capture, as in captures"};

constexpr TableColumn kCaptureColumns[] = {
    {"capture", kText, kNever, "", "id; an import has the name of its input, @ and its begin"},
    {"job", kText, kNever, "", "name under which captures are compared: --job, else the report's job"},
    {"job_id", kText, kNever, "", "identity of the job in the report"},
    {"source", kText, kNever, "", "live or import"},
    {"captured_unix_ns", kWhole, kNever, "ns", "begin of the window; the time of adding if it is unknown"},
    {"added_unix_ns", kWhole, kNever, "ns", "time at which the capture was added"},
    {"duration_ns", kWhole, kUnknown, "ns", "length of the window"},
    {"world_size", kWhole, kNever, "", "ranks of the job"},
    {"hosts", kWhole, kNever, "", "hosts with records"},
    {"steps", kWhole, kNever, "", "steps that the report used"},
    {"partial", kWhole, kNever, "", "1: ranks are missing or incomplete, else 0"},
    {"lost_records", kWhole, kNever, "", "records that a stage lost"},
    {"step_ns", kReal, kUnknown, "ns", "median of the durations of the steps"},
    {"ideal_step_ns", kReal, kUnknown, "ns", "step of the report's ideal job"},
    {"lost_ns_per_step", kReal, kUnknown, "ns", "the report's observed step minus the ideal step"},
    {"noise_floor_ns_per_step", kReal, kUnknown, "ns", "no straggler below it is listed"},
    {"exposed_ns_per_step", kReal, kUnknown, "ns", "communication that nothing hides; mean of the ranks"},
    {"idle_fraction", kReal, kUnknown, "fraction", "span of the ranks without device activity"},
    {"parallel_efficiency", kReal, kUnknown, "fraction", "parallel efficiency of the job"},
    {"load_balance", kReal, kUnknown, "fraction", "mean over largest compute time"},
    {"communication_efficiency", kReal, kUnknown, "fraction", "communication efficiency"},
    {"orchestration", kReal, kUnknown, "fraction", "efficiency of the hosts"},
    {"gain_ns_per_step", kReal, kUnknown, "ns",
     "gain of fixing the first straggler; 0: judged, and none was found"},
    {"verdict", kText, kNever, "", "first sentence of the report"},
};
constexpr TableColumn kLabelColumns[] = {
    kCaptureColumn,
    {"name", kText, kNever, "", "name of the label, such as commit"},
    {"value", kText, kNever, "", "value of the label"},
};
constexpr TableColumn kRankColumns[] = {
    kCaptureColumn,
    {"place", kWhole, kNever, "", "place in the report's list, from 0"},
    {"rank", kWhole, kNever, "", "world rank"},
    {"host", kText, kNever, "", "name of its host"},
    {"device", kWhole, kNever, "", "CUDA ordinal in its process"},
    {"device_name", kText, kUnknown, "", "model of the device"},
    {"device_uuid", kText, kUnknown, "", "identity of the device, as in nvidia-smi"},
    {"compute_ns", kWhole, kNever, "ns", "kernels that are not communication, in the window"},
    {"exposed_communication_ns", kWhole, kNever, "ns", "communication without compute, in the window"},
    {"idle_ns", kWhole, kNever, "ns", "span without device activity"},
    {"caused_wait_ns", kWhole, kNever, "ns", "waiting of other ranks for it"},
    {"gain_ns_per_step", kReal, kUnknown, "ns", "gain of making the rank typical"},
};
constexpr TableColumn kStepColumns[] = {
    kCaptureColumn,
    {"place", kWhole, kNever, "", "place in the report's list, from 0"},
    {"step", kWhole, kNever, "", "number of the step"},
    {"duration_ns", kWhole, kNever, "ns", "duration of the job's step"},
    {"parallel_efficiency", kReal, kUnknown, "fraction", "parallel efficiency of the step"},
    {"load_balance", kReal, kUnknown, "fraction", "mean over largest compute time"},
    {"communication_efficiency", kReal, kUnknown, "fraction", "communication efficiency"},
    {"orchestration", kReal, kUnknown, "fraction", "efficiency of the hosts"},
    {"wait_ns", kReal, kUnknown, "ns", "waiting for other ranks; mean of the ranks"},
    {"overlap_ns", kReal, kUnknown, "ns", "compute and communication at the same time; mean of the ranks"},
    {"costliest_rank", kWhole, kUnknown, "", "rank that cost the job most"},
    {"costliest_lost_ns", kWhole, kUnknown, "ns", "its cost in this step"},
};
constexpr TableColumn kFindingColumns[] = {
    kCaptureColumn,
    {"place", kWhole, kNever, "", "place among the findings of the capture, from 0"},
    {"list", kText, kNever, "", "stragglers or shared_losses, as in report.json"},
    {"kind", kText, kNever, "", "kind of the entry, such as rank, link or exposed_transfer"},
    {"cause", kText, kNever, "", "cause of a straggler, as in docs/causes.md; else empty"},
    {"lost_ns_per_step", kReal, kUnknown, "ns", "cost to the job"},
    {"gain_ns_per_step", kReal, kUnknown, "ns", "gain of a fix"},
    {"verdict", kText, kNever, "", "sure, likely or undecided; else empty"},
    {"confidence", kReal, kUnknown, "fraction", "confidence of the verdict"},
    {"since_step", kWhole, kUnknown, "", "first step that shows it"},
    {"action", kText, kNever, "", "recommended action"},
};
constexpr TableColumn kFindingRankColumns[] = {
    kCaptureColumn,
    {"place", kWhole, kNever, "", "the finding, as in findings"},
    {"rank", kWhole, kNever, "", "one of its ranks"},
    {"host", kText, kNever, "", "host of that rank; empty: unknown"},
};

constexpr HistoryTable kHistoryTables[] = {
    {"captures", "one row per capture", kCaptureColumns, "captured_unix_ns, capture"},
    {"labels", "labels that the user gave to captures", kLabelColumns, "capture, name"},
    {"ranks", "ranks of each capture", kRankColumns, "capture, place"},
    {"steps", "steps of each capture", kStepColumns, "capture, place"},
    {"findings", "stragglers and shared losses of each capture", kFindingColumns, "capture, place"},
    {"finding_ranks", "ranks and hosts of the findings", kFindingRankColumns, "capture, place, rank"},
};

}  // namespace

std::span<const HistoryTable> HistoryTables() { return kHistoryTables; }

const HistoryTable& TableNamed(std::string_view name) {
  const auto* found = std::find_if(std::begin(kHistoryTables), std::end(kHistoryTables),
                                   [name](const HistoryTable& table) { return name == table.name; });
  assert(found != std::end(kHistoryTables) && "no such table");
  return *found;
}

std::string ColumnList(const HistoryTable& table, const char* prefix) {
  std::string list;
  for (const TableColumn& column : table.columns)
    absl::StrAppend(&list, list.empty() ? "" : ", ", prefix, column.name);
  return list;
}

}  // namespace lockstep::history
