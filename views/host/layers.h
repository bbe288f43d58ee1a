// The layer view: which layer and operator launched each kernel, with which shapes, in which direction, and
// what it achieved (PyProf).
//
// A kernel of the backward pass has the layer, operator, parameters and call trace of the forward operator
// with its sequence number. An operator is counted once (operator_cost.h), at its longest kernel, so that
// sums are right; the rate is that count over the time of all kernels of the call.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_LAYERS_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_LAYERS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

enum class Direction : uint8_t { kUnknown, kForward, kBackward };

// Rows that are summed, by what they have in common.
enum class LayerGrouping : uint8_t { kNone, kLayer, kOperator };

// A kernel or, grouped, several. Empty texts and nullopt: not known, or not the same for all.
struct LayerRow {
  uint64_t idx = 0;  // of the rank's kernels, by start
  RankId rank = kNoRank;
  std::optional<int64_t> sequence;            // of the innermost operator that has one
  std::optional<int64_t> alternate_sequence;  // of the next one outside that has another
  std::optional<ThreadId> thread;             // that launched it
  std::string_view layer;  // annotations and modules around it, outermost first, separated by '/'
  std::string_view trace;  // innermost call first, separated by ';'
  Direction direction = Direction::kUnknown;
  uint32_t sub = 0;         // place among the kernels of its operator's call
  std::string_view module;  // what comes before the operator's name: "aten", "torch.nn.functional"
  std::string_view op;  // outermost operator around the launch; in the backward pass that of the forward pass
  std::string_view called;  // innermost operator around the launch
  std::string_view kernel;
  std::string_view parameters;  // types and shapes that `op` was called with
  Nanos time;
  std::optional<bool> tensor_cores;  // nullopt: neither does its name say so nor could its operator use them
  std::optional<DeviceId> device;
  std::optional<StreamId> stream;
  const store::KernelDetail* launch = nullptr;
  std::optional<int64_t> flop, bytes;
  Nanos flop_time, bytes_time;      // of all kernels of the calls that were counted
  std::optional<double> peak_flop;  // FLOP that the device can do in flop_time
  std::optional<double> peak_bytes;
  uint64_t kernels = 1;
};

struct Layers {
  std::vector<LayerRow>
      rows;  // in the order of the capture's entries and kernels; grouped: the most time first
  std::deque<std::string> texts;  // what rows point to besides the capture
  uint64_t ambiguous =
      0;  // sequence numbers that several threads have: their backward kernels keep their own names
};

// Texts point into `capture` and the result's own. Kernels of ranks without frames have what is known
// without.
Layers LayersOf(const store::Capture& capture, LayerGrouping grouping);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_LAYERS_H_
