// lockstep layers: shows PyProf's table of kernels.
#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"
#include "views/host/layers.h"

namespace lockstep::views {
namespace {

// The words are PyProf's.
std::optional<std::string_view> DirectionOf(const LayerRow& r) {
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

std::optional<double> Rate(std::optional<int64_t> count, Nanos time) {
  if (!count || time <= Nanos()) return std::nullopt;
  return static_cast<double>(*count) * 1e9 / static_cast<double>(time.ns());
}

std::optional<double> OfPeak(std::optional<int64_t> count, std::optional<double> peak) {
  if (!count || !peak || *peak <= 0) return std::nullopt;
  return static_cast<double>(*count) / *peak;
}

std::vector<ColumnOf<LayerRow>> LayersColumns() {
  using R = LayerRow;
  return {
      Make<R>("rank", "", "rank of the row; null: all ranks", [](const R& r) { return Known(r.rank); }),
      Make<R>("idx", "", "index among the rank's kernels by start; if rows are sums, index of the row",
              [](const R& r) { return r.idx; }),
      Make<R>("seq", "", "PyTorch's sequence number, which forward and backward share",
              [](const R& r) { return r.sequence; }),
      Make<R>("altseq", "", "sequence number of the next outer operator, if different",
              [](const R& r) { return r.alternate_sequence; }),
      Make<R>("tid", "", "id of the launching thread", [](const R& r) { return r.thread; }),
      Make<R>("layer", "", "annotations and modules around it, outermost first",
              [](const R& r) { return Known(r.layer); }),
      Make<R>("trace", "", "call stack, innermost first", [](const R& r) { return Known(r.trace); }),
      Make<R>("dir", "", "direction: fprop or bprop", [](const R& r) { return DirectionOf(r); }),
      Make<R>("sub", "", "index among the kernels of its operator's call", [](const R& r) { return r.sub; }),
      Make<R>("mod", "", "module of the operator", [](const R& r) { return Known(r.module); }),
      Make<R>("op", "", "outermost operator; in the backward pass, that of the forward pass",
              [](const R& r) { return Known(r.op); }),
      Make<R>("operator", "", "innermost operator around the launch",
              [](const R& r) { return Known(r.called); }),
      Make<R>("kernel", "", "name of the kernel", [](const R& r) { return Known(r.kernel); }),
      Make<R>("params", "", "types and shapes of the arguments of op",
              [](const R& r) { return Known(r.parameters); }),
      Make<R>("kernels", "", "number of kernels of the row", [](const R& r) { return r.kernels; }),
      Make<R>("sil_ns", "ns", "silicon time: duration on the device", [](const R& r) { return r.time; }),
      Make<R>("tc", "", "true if it uses tensor cores; null: its operator cannot",
              [](const R& r) { return r.tensor_cores; }),
      Make<R>("device", "", "CUDA's device number", [](const R& r) { return r.device; }),
      Make<R>("stream", "", "CUDA's stream number", [](const R& r) { return r.stream; }),
      Make<R>("grid", "", "blocks of the grid",
              [](const R& r) { return ThreeOf(r, &capture::KernelDetail::grid); }),
      Make<R>("block", "", "threads of a block",
              [](const R& r) { return ThreeOf(r, &capture::KernelDetail::block); }),
      Make<R>("flop", "flop",
              "operations that the operator needs by its shapes, in the row of its longest kernel; a "
              "multiply-add is 2",
              [](const R& r) { return r.flop; }),
      Make<R>("bytes", "bytes", "bytes that the operator must read and write, in the same row",
              [](const R& r) { return r.bytes; }),
      Make<R>("flop_per_s", "flop_per_s", "flop over the time of all kernels of the operator's call",
              [](const R& r) { return Rate(r.flop, r.flop_time); }),
      Make<R>("flop_peak_fraction", "fraction", "flop_per_s over the device's peak in that type and unit",
              [](const R& r) { return OfPeak(r.flop, r.peak_flop); }),
      Make<R>("bytes_per_s", "bytes_per_s", "bytes over that time",
              [](const R& r) { return Rate(r.bytes, r.bytes_time); }),
      Make<R>("bytes_peak_fraction", "fraction", "bytes_per_s over the device's memory bandwidth",
              [](const R& r) { return OfPeak(r.bytes, r.peak_bytes); }),
  };
}

constexpr GroupName kLayersGroupings[] = {
    {"layer", GroupBy::kLayer, "sums by layer and direction"},
    {"op", GroupBy::kOperator, "sums by operator and direction"},
};

constexpr Alias kLayersAliases[] = {{"sil", "sil_ns"}, {"flops", "flop"}};

MadeView MakeLayers(const ViewInput& input, const ViewOptions& options) {
  const auto grouping = options.Has(GroupBy::kLayer)      ? views::LayerGrouping::kLayer
                        : options.Has(GroupBy::kOperator) ? views::LayerGrouping::kOperator
                                                          : views::LayerGrouping::kNone;
  views::Layers layers = views::LayersOf(input.capture, grouping);
  MadeView view{
      GridOf({"layers", "Operator of each kernel, and its rates."}, std::move(layers.rows), LayersColumns()),
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
          .about = "layer, operator and shapes of each kernel, with its FLOP and bytes",
          .text =
              "PyProf's table, a row for each kernel: `lockstep layers CAPTURE -w 130 -c "
              "kernel,op,sil,tc,flops,bytes,device,stream,block,grid`.\n"
              "FLOP and bytes follow from the shapes and types that the capture has (PyTorch: "
              "record_shapes=True); null where they do not.\n",
          .groupings = kLayersGroupings,
          .columns = "idx,layer,dir,op,kernel,params,kernels,sil_ns,tc,flop,bytes,flop_per_s,bytes_per_s",
          .aliases = kLayersAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .groups_are_sums = true,
          .make = &MakeLayers};
}

}  // namespace lockstep::views
