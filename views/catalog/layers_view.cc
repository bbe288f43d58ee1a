// lockstep layers: PyProf's table of kernels.
#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"
#include "views/host/layers.h"

namespace lockstep::tables {
namespace {

using R = views::LayerRow;

// PyProf's words.
std::optional<std::string_view> DirectionOf(const R& r) {
  switch (r.direction) {
    case views::Direction::kForward:
      return "fprop";
    case views::Direction::kBackward:
      return "bprop";
    case views::Direction::kUnknown:
      return std::nullopt;
  }
  return std::nullopt;
}

template <typename T>
BorrowedOrMade ThreeOf(const R& r, const T (store::KernelDetail::*member)[3]) {
  if (r.launch == nullptr) return {};
  const auto& of = (*r.launch).*member;
  return {.made = absl::StrCat(of[0], ",", of[1], ",", of[2])};
}

std::optional<double> Rate(std::optional<int64_t> count, Nanos time) {
  if (!count || time <= Nanos()) return std::nullopt;
  return static_cast<double>(*count) * 1e9 / static_cast<double>(time.ns());
}

std::optional<double> OfPeak(std::optional<int64_t> count, std::optional<double> peak) {
  if (!count || !peak || *peak <= 0) return std::nullopt;
  return static_cast<double>(*count) / *peak;
}

std::vector<ColumnOf<R>> Columns() {
  return {
      Make<R>("rank", "", "null: all", [](const R& r) { return Known(r.rank); }),
      Make<R>("idx", "", "of the rank's kernels by start, or of the row where rows are sums",
              [](const R& r) { return r.idx; }),
      Make<R>("seq", "", "PyTorch's sequence number, which forward and backward share",
              [](const R& r) { return r.sequence; }),
      Make<R>("altseq", "", "the next one further out, where that differs",
              [](const R& r) { return r.alternate_sequence; }),
      Make<R>("tid", "", "thread that launched it", [](const R& r) { return r.thread; }),
      Make<R>("layer", "", "annotations and modules around it, outermost first",
              [](const R& r) { return Known(r.layer); }),
      Make<R>("trace", "", "calls, innermost first", [](const R& r) { return Known(r.trace); }),
      Make<R>("dir", "", "fprop or bprop", [](const R& r) { return DirectionOf(r); }),
      Make<R>("sub", "", "place among the kernels of its operator's call", [](const R& r) { return r.sub; }),
      Make<R>("mod", "", "where the operator is from", [](const R& r) { return Known(r.module); }),
      Make<R>("op", "", "outermost operator; of the backward pass, that of the forward pass",
              [](const R& r) { return Known(r.op); }),
      Make<R>("operator", "", "innermost operator around the launch",
              [](const R& r) { return Known(r.called); }),
      Make<R>("kernel", "", "name", [](const R& r) { return Known(r.kernel); }),
      Make<R>("params", "", "types and shapes that op was called with",
              [](const R& r) { return Known(r.parameters); }),
      Make<R>("kernels", "", "how many the row is of", [](const R& r) { return r.kernels; }),
      Make<R>("sil_ns", "ns", "silicon time: how long it ran on the device",
              [](const R& r) { return r.time; }),
      Make<R>("tc", "", "does it use tensor cores; null: its operator could not",
              [](const R& r) { return r.tensor_cores; }),
      Make<R>("device", "", "CUDA's number", [](const R& r) { return r.device; }),
      Make<R>("stream", "", "CUDA's number", [](const R& r) { return r.stream; }),
      Make<R>("grid", "", "blocks", [](const R& r) { return ThreeOf(r, &store::KernelDetail::grid); }),
      Make<R>("block", "", "threads", [](const R& r) { return ThreeOf(r, &store::KernelDetail::block); }),
      Make<R>("flop", "flop",
              "that the operator needs by its shapes, at its longest kernel; a multiply-add is 2",
              [](const R& r) { return r.flop; }),
      Make<R>("bytes", "bytes", "that it has to read and write, likewise",
              [](const R& r) { return r.bytes; }),
      Make<R>("flop_per_s", "flop_per_s", "flop over the time of all kernels of the operator's call",
              [](const R& r) { return Rate(r.flop, r.flop_time); }),
      Make<R>("flop_peak_fraction", "fraction", "of what the device can do in that type and unit",
              [](const R& r) { return OfPeak(r.flop, r.peak_flop); }),
      Make<R>("bytes_per_s", "bytes_per_s", "bytes over that time",
              [](const R& r) { return Rate(r.bytes, r.bytes_time); }),
      Make<R>("bytes_peak_fraction", "fraction", "of the device's memory bandwidth",
              [](const R& r) { return OfPeak(r.bytes, r.peak_bytes); }),
  };
}

constexpr GroupName kGroupings[] = {
    {"layer", GroupBy::kLayer, "sums by layer and direction"},
    {"op", GroupBy::kOperator, "sums by operator and direction"},
};

constexpr Alias kAliases[] = {{"sil", "sil_ns"}, {"flops", "flop"}};

MadeView MakeLayers(const ViewInput& input, const ViewOptions& options) {
  const auto grouping = options.Has(GroupBy::kLayer)      ? views::LayerGrouping::kLayer
                        : options.Has(GroupBy::kOperator) ? views::LayerGrouping::kOperator
                                                          : views::LayerGrouping::kNone;
  views::Layers layers = views::LayersOf(input.capture, grouping);
  MadeView view{GridOf({"layers", "Which operator launched each kernel, and what it achieved."},
                       std::move(layers.rows), Columns()),
                NotesOnFrames(input.capture)};
  if (layers.ambiguous != 0) {
    view.notes.push_back(absl::StrCat(
        layers.ambiguous,
        " sequence numbers are those of several threads: their backward kernels are not joined with "
        "the forward pass"));
  }
  return view;
}

}  // namespace

View LayersView() {
  return {.name = "layers",
          .about =
              "which layer and operator launched each kernel, with which shapes, and the FLOP and bytes that "
              "it needed",
          .text =
              "PyProf's table, a row for each kernel: `lockstep layers CAPTURE -w 130 -c "
              "kernel,op,sil,tc,flops,bytes,device,stream,block,grid`.\n"
              "FLOP and bytes follow from the shapes and types that the capture has (PyTorch: "
              "record_shapes=True); null where they do not.\n",
          .groupings = kGroupings,
          .columns = "idx,layer,dir,op,kernel,params,kernels,sil_ns,tc,flop,bytes,flop_per_s,bytes_per_s",
          .aliases = kAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .groups_are_sums = true,
          .make = &MakeLayers};
}

}  // namespace lockstep::tables
