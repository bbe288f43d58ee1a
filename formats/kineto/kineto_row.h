// One row of a Kineto trace, as text: what the reader needs of it and nothing else.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_ROW_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_ROW_H_

#include <simdjson.h>

#include <cstdint>
#include <string_view>

#include "aggregator/trace/readers.h"

namespace lockstep::trace {

enum class RowCategory : uint8_t {
  kUnknown,  // not seen yet
  kOther,    // rows whose content is not kept: flows, counters, Python frames, device-side annotations, …
  kKernel,
  kMemcpy,
  kMemset,
  kRuntime,
  kDriver,
  kOperator,
  kAnnotation,
  kSync,
  // Only with HostDetail::kFrames; else kOther.
  kPython,
  kInstant,
};

// The "args" that matter, by the category that has them. All are JSON text as it stands in the file, so a
// "N/A" is still one; empty: not there.
struct RowArgs {
  std::string_view device, context, stream, correlation, cbid;
  std::string_view registers, shared_memory, blocks_per_sm, warps_per_sm, occupancy;
  std::string_view grid[3], block[3];
  std::string_view graph, graph_node;
  std::string_view bytes;
  std::string_view lockstep;  // what our own writer says about rows it made up
  std::string_view sync_kind, wait_on_stream, wait_on_event, event_recorded_by;
  // Frames of the host, with HostDetail::kFrames. `shapes`, `types` and `values` are whole lists.
  std::string_view shapes, types, values, stack, modules, forward_thread, forward_sequence, python_id,
      python_parent;
  std::string_view memory_bytes, memory_address, memory_device, memory_device_type, allocated, reserved;
  // Collectives.
  std::string_view collective, dtype, in_elements, out_elements, group_size, in_split, out_split;
  std::string_view group_name, group_description, group_ranks, source_rank, destination_rank, sequence,
      nccl_sequence;
};

// Views into the block that the row was read from.
struct KinetoRow {
  RowCategory category = RowCategory::kUnknown;
  bool complete = false;        // "ph": "X", a row with a duration
  bool instant = false;         // "ph": "i"
  const char* place = nullptr;  // of the row's first key
  std::string_view name, ts, dur, tid, pid;
  RowArgs args;
};

// A token without the quotes around it.
inline std::string_view Unquoted(std::string_view token) {
  return token.size() >= 2 && token.front() == '"' && token.back() == '"' ? token.substr(1, token.size() - 2)
                                                                          : token;
}

// Reads one element of the event list, whatever the order of its keys. Stops early when the row is of no
// interest. An error leaves `row` half filled: damaged text.
simdjson::error_code ReadRow(simdjson::ondemand::value element, HostDetail detail, KinetoRow& row);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_ROW_H_
