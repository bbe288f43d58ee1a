// The layer view: for each kernel the layer, the operator, its shapes, the direction, and the achieved rates
// (PyProf).
//
// A kernel of the backward pass has the layer, operator, parameters and call trace of the forward operator
// with its sequence number. Each call of an operator counts once (operator_cost.h), at its longest kernel, so
// that sums are right. Its rate is the count over the time of all kernels of the call.
#ifndef LOCKSTEP_VIEWS_HOST_LAYERS_H_
#define LOCKSTEP_VIEWS_HOST_LAYERS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

enum class Direction : uint8_t { kUnknown, kForward, kBackward };

// The property by which rows are summed.
enum class LayerGrouping : uint8_t { kNone, kLayer, kOperator };

// One kernel, or a group of kernels. Empty text and nullopt: unknown, or not the same for the whole group.
struct LayerRow {
  uint64_t idx = 0;  // place among the rank's kernels, by start
  RankId rank = kNoRank;
  std::optional<int64_t> sequence;            // of the innermost operator that has one
  std::optional<int64_t> alternate_sequence;  // of the next operator around it that has another one
  std::optional<ThreadId> thread;             // thread of the launch
  std::string_view layer;  // annotations and modules around it, outermost first, separated by '/'
  std::string_view trace;  // innermost call first, separated by ';'
  Direction direction = Direction::kUnknown;
  uint32_t sub = 0;         // place among the kernels of its operator's call
  std::string_view module;  // the part before the operator's name: "aten", "torch.nn.functional"
  std::string_view
      op;  // outermost operator around the launch; in the backward pass, that of the forward pass
  std::string_view called;  // innermost operator around the launch
  std::string_view kernel;
  std::string_view parameters;  // types and shapes of the arguments of `op`
  Nanos time;
  std::optional<bool>
      tensor_cores;  // true: by its name; false: only its operator could use them; nullopt: neither
  std::optional<DeviceId> device;
  std::optional<StreamId> stream;
  const capture::KernelDetail* launch = nullptr;
  std::optional<int64_t> flop, bytes;
  Nanos flop_time, bytes_time;      // of all kernels of the counted calls
  std::optional<double> peak_flop;  // FLOP that the device can do in flop_time
  std::optional<double> peak_bytes;
  uint64_t kernels = 1;
};

struct Layers {
  std::vector<LayerRow> rows;     // by the capture's entries and kernels; grouped: longest time first
  std::deque<std::string> texts;  // texts of rows that the capture does not hold
  uint64_t ambiguous = 0;  // sequence numbers of several threads; their backward kernels keep their own names
};

// Texts point into `capture` and into the result's `texts`. Kernels of ranks without frames have only the
// fields that need no frames.
Layers LayersOf(const capture::Capture& capture, LayerGrouping grouping);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_LAYERS_H_
