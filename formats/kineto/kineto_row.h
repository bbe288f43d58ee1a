// KinetoRow: the fields of one Kineto row that the reader needs, as text.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_ROW_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_ROW_H_

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "formats/common/decimal_time.h"
#include "formats/common/read_options.h"

namespace lockstep::formats {

enum class RowCategory : uint8_t {
  kUnknown,  // not read yet
  kOther,    // content is not kept: flows, counters, Python frames, device-side annotations, …
  kKernel,
  kMemcpy,
  kMemset,
  kRuntime,
  kDriver,
  kOperator,
  kAnnotation,
  kSync,
  kCounters,  // hardware counters of a range (cuda_profiler_range)
  // Only with HostDetail::kFrames; otherwise kOther.
  kPython,
  kInstant,
};

// The "args" that the reader uses, grouped by the categories that have them. Each is JSON text as in the
// file, even if it is "N/A". Empty: the row lacks it.
struct RowArgs {
  std::string_view device, context, stream, correlation, cbid;
  std::string_view registers, shared_memory, blocks_per_sm, warps_per_sm, occupancy;
  std::string_view grid[3], block[3];
  std::string_view graph, graph_node;
  std::string_view bytes, bandwidth;
  std::string_view lockstep;  // note of our own writer about rows that it added
  std::string_view sync_kind, wait_on_stream, wait_on_event, event_recorded_by;
  // For frames of the host, with HostDetail::kFrames. `shapes`, `types` and `values` are whole lists.
  std::string_view shapes, types, values, stack, modules, forward_thread, forward_sequence, python_id,
      python_parent;
  std::string_view memory_bytes, memory_address, memory_device, memory_device_type, allocated, reserved;
  std::string_view counters;  // of a range with hardware counters: the whole "args"
  // For collectives.
  std::string_view collective, dtype, in_elements, out_elements, group_size, in_split, out_split;
  std::string_view group_name, group_description, group_ranks, source_rank, destination_rank, sequence,
      nccl_sequence;
};

// PyTorch's host row that describes a collective or message, as JSON text.
inline constexpr std::string_view kAnnouncesCollective = "\"record_param_comms\"";

// The texts are views into the block that holds the row.
struct KinetoRow {
  RowCategory category = RowCategory::kUnknown;
  bool complete = false;        // "ph": "X", a row with a duration
  bool instant = false;         // "ph": "i"
  const char* place = nullptr;  // position of the row's first key
  std::string_view name, ts, dur, tid, pid;
  RowArgs args;
};

// Returns a token without the quotes around it.
inline std::string_view Unquoted(std::string_view token) {
  return token.size() >= 2 && token.front() == '"' && token.back() == '"' ? token.substr(1, token.size() - 2)
                                                                          : token;
}

// Returns the number of a token, or `otherwise` if the token is not a whole number that fits.
template <typename T>
T CountOr(std::string_view token, T otherwise) {
  if (token.empty()) return otherwise;
  const std::optional<int64_t> value = IntegerFromText(token);
  if (!value || !std::in_range<T>(*value)) return otherwise;
  return static_cast<T>(*value);
}

// Reads one element of the event list, with its keys in any order. Stops early if the row is not needed.
// After an error, `row` is partly filled, because the text is damaged.
simdjson::error_code ReadRow(simdjson::ondemand::value element, HostDetail detail, KinetoRow& row);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_ROW_H_
