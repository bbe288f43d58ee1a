// lockstep ops: PyTorch's key_averages() and torch-tb-profiler's operator view.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "views/catalog/view_columns.h"
#include "views/device/kernel_sequences.h"
#include "views/host/operators.h"

namespace lockstep::tables {
namespace {

struct Row {
  views::OperatorRow op;
  const views::OperatorTotals* totals;
};

template <auto member>
std::optional<int64_t> BytesOf(const std::optional<views::Bytes>& bytes) {
  return bytes ? std::optional((*bytes).*member) : std::nullopt;
}

std::vector<ColumnOf<Row>> Columns() {
  using R = Row;
  using views::Bytes;
  return {
      Make<R>("rank", "", "null: all", [](const R& r) { return Known(r.op.rank); }),
      Make<R>("name", "", "of the operator or range", [](const R& r) { return r.op.name; }),
      Make<R>("kind", "", "operator, or annotation (record_function, NVTX)",
              [](const R& r) { return r.op.kind; }),
      Make<R>("self_host_fraction", "fraction", "of the self host time of all rows",
              [](const R& r) { return Ratio(r.op.self_host, r.totals->self_host); }),
      Make<R>("self_host_ns", "ns", "on the host, without what it called",
              [](const R& r) { return r.op.self_host; }),
      Make<R>("self_runtime_ns", "ns",
              "of self_host_ns, in CUDA's calls (torch-tb-profiler's Self Host Duration is without them)",
              [](const R& r) { return r.op.self_runtime; }),
      Make<R>("host_fraction", "fraction", "of the self host time of all rows",
              [](const R& r) { return Ratio(r.op.host, r.totals->self_host); }),
      Make<R>("host_ns", "ns", "on the host, with what it called", [](const R& r) { return r.op.host; }),
      Make<R>("host_mean_ns", "ns", "host_ns over calls",
              [](const R& r) { return r.op.host / static_cast<int64_t>(r.op.calls); }),
      Make<R>("self_device_ns", "ns", "of the device activities that it launched itself",
              [](const R& r) { return r.op.self_device; }),
      Make<R>("self_device_fraction", "fraction", "of the self device time of all rows",
              [](const R& r) { return Ratio(r.op.self_device, r.totals->self_device); }),
      Make<R>("device_ns", "ns", "of those that it or what it called launched",
              [](const R& r) { return r.op.device; }),
      Make<R>("device_mean_ns", "ns", "device_ns over calls",
              [](const R& r) { return r.op.device / static_cast<int64_t>(r.op.calls); }),
      Make<R>("calls", "", "how often it ran", [](const R& r) { return r.op.calls; }),
      Make<R>("tensor_core_eligible", "", "can its kernels use tensor cores",
              [](const R& r) { return r.op.tensor_core_eligible; }),
      Make<R>("self_tensor_core_fraction", "fraction", "of self_device_ns, in kernels that use them",
              [](const R& r) { return Ratio(r.op.self_tensor_core, r.op.self_device); }),
      Make<R>("tensor_core_fraction", "fraction", "of device_ns, in kernels that use them",
              [](const R& r) { return Ratio(r.op.tensor_core, r.op.device); }),
      Make<R>("host_memory_bytes", "bytes",
              "allocated less released, with what it called; null: not recorded",
              [](const R& r) { return BytesOf<&Bytes::host>(r.op.memory); }),
      Make<R>("self_host_memory_bytes", "bytes", "by itself",
              [](const R& r) { return BytesOf<&Bytes::host>(r.op.self_memory); }),
      Make<R>("device_memory_bytes", "bytes", "allocated less released, with what it called",
              [](const R& r) { return BytesOf<&Bytes::device>(r.op.memory); }),
      Make<R>("self_device_memory_bytes", "bytes", "by itself",
              [](const R& r) { return BytesOf<&Bytes::device>(r.op.self_memory); }),
      Make<R>("shapes", "", "of its arguments, with --group-by shape",
              [](const R& r) { return Known(r.op.shapes); }),
      Make<R>("stack", "", "innermost call first, with --group-by stack",
              [](const R& r) { return Known(r.op.stack); }),
  };
}

constexpr GroupName kGroupings[] = {
    {"rank", GroupBy::kRank, "each rank on its own"},
    {"shape", GroupBy::kShape, "input shapes (PyTorch: group_by_input_shape)"},
    {"stack", GroupBy::kStack,
     "the innermost calls of the Python stack (PyTorch: group_by_stack_n; --stack-depth)"},
};

// PyTorch's sort keys, old spelling and new, and torch-tb-profiler's headings.
constexpr Alias kAliases[] = {
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
  const store::Capture* capture;
};

std::string TextOf(const SequenceRow& row) {
  return absl::StrJoin(row.of.work, " | ",
                       [&](std::string* out, NameId name) { out->append(row.capture->Text(name)); });
}

constexpr std::string_view kSequences = "sequences";

constexpr SubTable kTables[] = {
    {"operators", "what each cost",
     "rank,name,self_host_fraction,self_host_ns,host_fraction,host_ns,host_mean_ns,self_device_ns,self_"
     "device_fraction,device_ns,device_mean_ns,"
     "calls,shapes,stack"},
    {kSequences,
     "what they have the device do in the same order again and again (Holistic Trace Analysis' frequent "
     "kernel sequences)",
     "rank,name,calls,pieces,device_ns,device_mean_ns,host_mean_ns,sequence"},
};

MadeView MakeSequences(const ViewInput& input, const ViewOptions& options) {
  using R = SequenceRow;
  const auto ranks = options.Has(GroupBy::kRank) ? views::LaunchRanks::kEach : views::LaunchRanks::kTogether;
  views::KernelSequences sequences = views::KernelSequencesOf(input.capture, ranks);
  std::vector<R> rows;
  for (views::KernelSequence& of : sequences.rows) rows.push_back({std::move(of), &input.capture});
  MadeView view{
      GridOf<R>(
          {"kernel_sequences", "What operators have the device do in the same order again and again."},
          std::move(rows),
          {
              Make<R>("rank", "", "null: all", [](const R& r) { return Known(r.of.rank); }),
              Make<R>("name", "", "of the operator or range; those inside it have rows of their own",
                      [](const R& r) { return r.of.op; }),
              Make<R>("calls", "", "that had just this done", [](const R& r) { return r.of.calls; }),
              Make<R>("pieces", "", "kernels, copies and sets of a call",
                      [](const R& r) { return r.of.work.size(); }),
              Make<R>("device_ns", "ns", "sum of their lengths, of all calls",
                      [](const R& r) { return r.of.device; }),
              Make<R>("device_mean_ns", "ns", "of a call",
                      [](const R& r) { return r.of.device / static_cast<int64_t>(r.of.calls); }),
              Make<R>("host_ns", "ns", "on the host, of all calls", [](const R& r) { return r.of.host; }),
              Make<R>("host_mean_ns", "ns", "of a call",
                      [](const R& r) { return r.of.host / static_cast<int64_t>(r.of.calls); }),
              Make<R>("sequence", "", "in the order in which they started",
                      [](const R& r) { return BorrowedOrMade{.made = TextOf(r)}; }),
          }),
      NotesOnFrames(input.capture)};
  if (sequences.longer != 0) {
    view.notes.push_back(absl::StrCat(sequences.longer, " calls had more than ", views::kLongestSequence,
                                      " kernels, copies and sets: no sequence"));
  }
  return view;
}

MadeView MakeOps(const ViewInput& input, const ViewOptions& options) {
  if (options.table == kSequences) return MakeSequences(input, options);
  const views::Operators operators = views::OperatorsOf(
      input.capture, {.by_rank = options.Has(GroupBy::kRank),
                      .by_shape = options.Has(GroupBy::kShape),
                      .stack_depth = options.Has(GroupBy::kStack) ? options.stack_depth : 0});
  std::vector<Row> rows;
  for (const views::OperatorRow& op : operators.rows) rows.push_back({op, &operators.totals});
  MadeView view{GridOf({"ops", "What each operator cost."}, std::move(rows), Columns()),
                NotesOnFrames(input.capture)};
  if (operators.totals.crossing != 0) {
    view.notes.push_back(absl::StrCat(operators.totals.crossing,
                                      " frames end after the one they began in; they count beside it"));
  }
  return view;
}

}  // namespace

View OpsView() {
  return {.name = "ops",
          .about = "what each PyTorch operator and annotation cost on host and device",
          .text =
              "The table of PyTorch's key_averages() and of torch-tb-profiler's operator view. Device time "
              "is the sum of the kernels, copies and\n"
              "sets that were launched in a call; concurrent ones each count whole.\n",
          .groupings = kGroupings,
          .tables = kTables,
          .aliases = kAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .make = &MakeOps};
}

}  // namespace lockstep::tables
