// lockstep ops: shows PyTorch's key_averages() and torch-tb-profiler's operator view.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/explain/causes.h"
#include "views/catalog/view_columns.h"
#include "views/device/kernel_sequences.h"
#include "views/host/operators.h"

namespace lockstep::views {
namespace {

struct OpsTableRow {
  views::OperatorRow op;
  const views::OperatorTotals* totals;
};

template <auto member>
std::optional<int64_t> BytesOf(const std::optional<views::Bytes>& bytes) {
  return bytes ? std::optional((*bytes).*member) : std::nullopt;
}

std::vector<ColumnOf<OpsTableRow>> OpsColumns() {
  using R = OpsTableRow;
  using views::Bytes;
  return {
      Make<R>("rank", "", "rank of the row; null: all ranks", [](const R& r) { return Known(r.op.rank); }),
      Make<R>("name", "", "name of the operator or range", [](const R& r) { return r.op.name; }),
      Make<R>("kind", "", "operator, or annotation (record_function, NVTX)",
              [](const R& r) { return r.op.kind; }),
      Make<R>("self_host_fraction", "fraction", "share of the self host time of all rows",
              [](const R& r) { return Ratio(r.op.self_host, r.totals->self_host); }),
      Make<R>("self_host_ns", "ns", "time on the host without called operators",
              [](const R& r) { return r.op.self_host; }),
      Make<R>("self_runtime_ns", "ns",
              "part of self_host_ns in CUDA calls (torch-tb-profiler's Self Host Duration excludes it)",
              [](const R& r) { return r.op.self_runtime; }),
      Make<R>("host_fraction", "fraction", "host_ns over the self host time of all rows",
              [](const R& r) { return Ratio(r.op.host, r.totals->self_host); }),
      Make<R>("host_ns", "ns", "time on the host, including called operators",
              [](const R& r) { return r.op.host; }),
      Make<R>("host_mean_ns", "ns", "host_ns over calls",
              [](const R& r) { return r.op.host / static_cast<int64_t>(r.op.calls); }),
      Make<R>("self_device_ns", "ns", "time of the device activities that it launched itself",
              [](const R& r) { return r.op.self_device; }),
      Make<R>("self_device_fraction", "fraction", "share of the self device time of all rows",
              [](const R& r) { return Ratio(r.op.self_device, r.totals->self_device); }),
      Make<R>("device_ns", "ns", "time of the device activities that it or called operators launched",
              [](const R& r) { return r.op.device; }),
      Make<R>("device_mean_ns", "ns", "device_ns over calls",
              [](const R& r) { return r.op.device / static_cast<int64_t>(r.op.calls); }),
      Make<R>("calls", "", "number of calls", [](const R& r) { return r.op.calls; }),
      Make<R>("tensor_core_eligible", "", "true if its kernels can use tensor cores",
              [](const R& r) { return r.op.tensor_core_eligible; }),
      Make<R>("self_tensor_core_fraction", "fraction",
              "share of self_device_ns in kernels that use tensor cores",
              [](const R& r) { return Ratio(r.op.self_tensor_core, r.op.self_device); }),
      Make<R>("tensor_core_fraction", "fraction", "share of device_ns in kernels that use tensor cores",
              [](const R& r) { return Ratio(r.op.tensor_core, r.op.device); }),
      Make<R>("host_memory_bytes", "bytes",
              "allocated minus released bytes on the host, including called operators; null: not recorded",
              [](const R& r) { return BytesOf<&Bytes::host>(r.op.memory); }),
      Make<R>("self_host_memory_bytes", "bytes",
              "allocated minus released bytes on the host by the operator itself",
              [](const R& r) { return BytesOf<&Bytes::host>(r.op.self_memory); }),
      Make<R>("device_memory_bytes", "bytes",
              "allocated minus released bytes on devices, including called operators",
              [](const R& r) { return BytesOf<&Bytes::device>(r.op.memory); }),
      Make<R>("self_device_memory_bytes", "bytes",
              "allocated minus released bytes on devices by the operator itself",
              [](const R& r) { return BytesOf<&Bytes::device>(r.op.self_memory); }),
      Make<R>("shapes", "", "shapes of the arguments, with --group-by shape",
              [](const R& r) { return Known(r.op.shapes); }),
      Make<R>("stack", "", "call stack, innermost first, with --group-by stack",
              [](const R& r) { return Known(r.op.stack); }),
  };
}

constexpr GroupName kOpsGroupings[] = {
    {"rank", GroupBy::kRank, "each rank separately"},
    {"shape", GroupBy::kShape, "input shapes (PyTorch: group_by_input_shape)"},
    {"stack", GroupBy::kStack,
     "the innermost calls of the Python stack (PyTorch: group_by_stack_n; --stack-depth)"},
};

// PyTorch's sort keys in the old and the new spelling, and torch-tb-profiler's headings.
constexpr Alias kOpsAliases[] = {
    {"cpu_time", "host_mean_ns"},
    {"cpu_time_total", "host_ns"},
    {"self_cpu_time_total", "self_host_ns"},
    {"cuda_time", "device_mean_ns"},
    {"cuda_time_total", "device_ns"},
    {"self_cuda_time_total", "self_device_ns"},
    {"device_time", "device_mean_ns"},
    {"device_time_total", "device_ns"},
    {"self_device_time_total", "self_device_ns"},
    {"cpu_memory_usage", "host_memory_bytes"},
    {"self_cpu_memory_usage", "self_host_memory_bytes"},
    {"cuda_memory_usage", "device_memory_bytes"},
    {"self_cuda_memory_usage", "self_device_memory_bytes"},
    {"device_memory_usage", "device_memory_bytes"},
    {"self_device_memory_usage", "self_device_memory_bytes"},
    {"count", "calls"},
};

struct SequenceRow {
  views::KernelSequence of;
  const capture::Capture* capture;
};

std::string TextOf(const SequenceRow& row) {
  return absl::StrJoin(row.of.work, " | ",
                       [&](std::string* out, NameId name) { out->append(row.capture->Text(name)); });
}

constexpr std::string_view kSequences = "sequences";

constexpr SubTable kOpsTables[] = {
    {"operators", "cost of each operator",
     "rank,name,self_host_fraction,self_host_ns,host_fraction,host_ns,host_mean_ns,self_device_ns,self_"
     "device_fraction,device_ns,device_mean_ns,"
     "calls,shapes,stack"},
    {kSequences,
     "repeated sequences of device work of operators (Holistic Trace Analysis' frequent kernel sequences)",
     "rank,name,calls,pieces,device_ns,device_mean_ns,host_mean_ns,sequence"},
};

MadeView MakeSequences(const ViewInput& input, const ViewOptions& options) {
  using R = SequenceRow;
  const auto ranks = options.Has(GroupBy::kRank) ? views::LaunchRanks::kEach : views::LaunchRanks::kTogether;
  views::KernelSequences sequences = views::KernelSequencesOf(input.capture, ranks);
  std::vector<R> rows;
  for (views::KernelSequence& of : sequences.rows) rows.push_back({std::move(of), &input.capture});
  MadeView view{
      GridOf<R>({"kernel_sequences", "Repeated sequences of device work of operators."}, std::move(rows),
                {
                    Make<R>("rank", "", "rank of the row; null: all ranks",
                            [](const R& r) { return Known(r.of.rank); }),
                    Make<R>("name", "", "name of the operator or range; inner ones have separate rows",
                            [](const R& r) { return r.of.op; }),
                    Make<R>("calls", "", "number of calls with exactly this sequence",
                            [](const R& r) { return r.of.calls; }),
                    Make<R>("pieces", "", "number of kernels, copies and sets of a call",
                            [](const R& r) { return r.of.work.size(); }),
                    Make<R>("device_ns", "ns", "sum of their durations over all calls",
                            [](const R& r) { return r.of.device; }),
                    Make<R>("device_mean_ns", "ns", "mean of device_ns per call",
                            [](const R& r) { return r.of.device / static_cast<int64_t>(r.of.calls); }),
                    Make<R>("host_ns", "ns", "time on the host over all calls",
                            [](const R& r) { return r.of.host; }),
                    Make<R>("host_mean_ns", "ns", "mean of host_ns per call",
                            [](const R& r) { return r.of.host / static_cast<int64_t>(r.of.calls); }),
                    Make<R>("sequence", "", "names in the order of their starts",
                            [](const R& r) { return OwnedOrBorrowedText{.made = TextOf(r)}; }),
                }),
      NotesOnFrames(input.capture)};
  if (sequences.longer != 0) {
    view.notes.push_back(absl::StrCat(sequences.longer, " calls had more than ", views::kLongestSequence,
                                      " kernels, copies and sets: they have no sequence"));
  }
  return view;
}

std::string LengthOf(Nanos length) { return analysis::LengthText(static_cast<double>(length.ns())); }

MadeView MakeOps(const ViewInput& input, const ViewOptions& options) {
  if (options.table == kSequences) return MakeSequences(input, options);
  const views::Operators operators = views::OperatorsOf(
      input.capture, {.by_rank = options.Has(GroupBy::kRank),
                      .by_shape = options.Has(GroupBy::kShape),
                      .stack_depth = options.Has(GroupBy::kStack) ? options.stack_depth : 0});
  std::vector<OpsTableRow> rows;
  for (const views::OperatorRow& op : operators.rows) rows.push_back({op, &operators.totals});
  MadeView view{GridOf({"ops", "Cost of each operator."}, std::move(rows), OpsColumns()),
                NotesOnFrames(input.capture)};
  view.totals.push_back(absl::StrCat("self host total ", LengthOf(operators.totals.self_host)));
  view.totals.push_back(absl::StrCat("self device total ", LengthOf(operators.totals.self_device)));
  if (operators.totals.crossing != 0) {
    view.notes.push_back(absl::StrCat(
        operators.totals.crossing, " frames end after the frame in which they began; they count beside it"));
  }
  return view;
}

}  // namespace

View OpsView() {
  return {.name = "ops",
          .about = "cost of each PyTorch operator and annotation on host and device",
          .text =
              "The table of PyTorch's key_averages() and of torch-tb-profiler's operator view. Device time "
              "is the sum of the kernels, copies and\n"
              "sets that were launched in a call; concurrent ones count in full.\n",
          .groupings = kOpsGroupings,
          .tables = kOpsTables,
          .aliases = kOpsAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .make = &MakeOps};
}

}  // namespace lockstep::views
