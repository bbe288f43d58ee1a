#include "formats/kineto/kineto_row.h"

#include <cstring>
#include <utility>

namespace lockstep::formats {
namespace {

namespace ondemand = simdjson::ondemand;

std::string_view Trim(std::string_view token) {
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ') token.remove_suffix(1);
  return token;
}

// Compares the key after its opening quote with `name`, closing quote included.
template <size_t N>
bool Is(const char* key, const char (&name)[N]) {
  // Keys are in a padded block, so the comparison may read beyond the end of a shorter key.
  static_assert(N < 40);
  return std::memcmp(key, name, N - 1) == 0 && key[N - 1] == '"';
}

RowCategory CategoryOf(std::string_view token, HostDetail detail) {
  const std::string_view cat = Unquoted(token);
  if (cat.empty()) return RowCategory::kOther;
  // PyTorch wrote capitalised categories until 2021.
  switch (cat[0]) {
    case 'k':
    case 'K':
      if (cat.substr(1) == "ernel") return RowCategory::kKernel;
      break;
    case 'g':
      if (cat == "gpu_memcpy") return RowCategory::kMemcpy;
      if (cat == "gpu_memset") return RowCategory::kMemset;
      break;
    case 'M':
      if (cat == "Memcpy") return RowCategory::kMemcpy;
      if (cat == "Memset") return RowCategory::kMemset;
      break;
    case 'R':
      if (cat == "Runtime") return RowCategory::kRuntime;
      break;
    case 'O':
      if (cat == "Operator") return RowCategory::kOperator;
      break;
    case 'c':
      if (cat == "cpu_op") return RowCategory::kOperator;
      if (cat == "cuda_sync") return RowCategory::kSync;
      if (cat == "cuda_profiler_range") return RowCategory::kCounters;
      break;
    case 'u':
      if (cat == "user_annotation") return RowCategory::kAnnotation;
      break;
    default:
      break;
  }
  if (cat == "python_function" && detail == HostDetail::kFrames) return RowCategory::kPython;
  if (cat.ends_with("_runtime")) return RowCategory::kRuntime;
  if (cat.ends_with("_driver")) return RowCategory::kDriver;
  return RowCategory::kOther;
}

bool NeedsArgs(const KinetoRow& row, HostDetail detail) {
  if (row.category == RowCategory::kOperator)
    return detail == HostDetail::kFrames || row.name == kAnnouncesCollective;
  switch (row.category) {
    case RowCategory::kKernel:
    case RowCategory::kMemcpy:
    case RowCategory::kMemset:
    case RowCategory::kRuntime:
    case RowCategory::kDriver:
    case RowCategory::kSync:
    case RowCategory::kCounters:
    case RowCategory::kAnnotation:
    case RowCategory::kPython:
    case RowCategory::kInstant:
      return true;
    default:
      return false;
  }
}

bool IsFrame(RowCategory category) {
  return category == RowCategory::kOperator || category == RowCategory::kAnnotation ||
         category == RowCategory::kPython;
}

simdjson::error_code ReadThree(ondemand::value value, std::string_view (&out)[3]) {
  ondemand::array list;
  if (auto error = value.get_array().get(list))
    return error == simdjson::INCORRECT_TYPE ? simdjson::SUCCESS : error;
  size_t i = 0;
  for (auto element : list) {
    std::string_view number;
    if (auto error = element.raw_json_token().get(number)) return error;
    if (i < 3) out[i++] = Trim(number);
  }
  return simdjson::SUCCESS;
}

std::string_view* CollectiveField(const char* key, RowArgs& args) {
  switch (key[0]) {
    case 'C':
      if (Is(key, "Collective name")) return &args.collective;
      break;
    case 'd':
      if (Is(key, "dtype")) return &args.dtype;
      break;
    case 'I':
      if (Is(key, "In msg nelems")) return &args.in_elements;
      if (Is(key, "In split size")) return &args.in_split;
      break;
    case 'O':
      if (Is(key, "Out msg nelems")) return &args.out_elements;
      if (Is(key, "Out split size")) return &args.out_split;
      break;
    case 'N':
      if (Is(key, "NCCL Seq")) return &args.nccl_sequence;
      break;
    case 'G':
      if (Is(key, "Group size")) return &args.group_size;
      break;
    case 'P':
      if (Is(key, "Process Group Name")) return &args.group_name;
      if (Is(key, "Process Group Description")) return &args.group_description;
      if (Is(key, "Process Group Ranks")) return &args.group_ranks;
      break;
    case 'S':
      if (Is(key, "Seq")) return &args.sequence;
      if (Is(key, "Src Rank")) return &args.source_rank;
      break;
    case 'D':
      if (Is(key, "Dst Rank")) return &args.destination_rank;
      break;
    default:
      break;
  }
  return nullptr;
}

std::string_view* ScalarField(const char* key, RowArgs& args) {
  switch (key[0]) {
    case 'd':
      if (Is(key, "device")) return &args.device;
      break;
    case 'c':
      if (Is(key, "correlation")) return &args.correlation;
      if (Is(key, "context")) return &args.context;
      if (Is(key, "cbid")) return &args.cbid;
      if (Is(key, "cuda_sync_kind")) return &args.sync_kind;
      break;
    case 's':
      if (Is(key, "stream")) return &args.stream;
      if (Is(key, "shared memory")) return &args.shared_memory;
      break;
    case 'r':
      if (Is(key, "registers per thread")) return &args.registers;
      break;
    case 'b':
      if (Is(key, "bytes")) return &args.bytes;
      if (Is(key, "blocks per SM")) return &args.blocks_per_sm;
      break;
    case 'm':
      if (Is(key, "memory bandwidth (GB/s)")) return &args.bandwidth;
      break;
    case 'w':
      if (Is(key, "warps per SM")) return &args.warps_per_sm;
      if (Is(key, "wait_on_stream")) return &args.wait_on_stream;
      if (Is(key, "wait_on_cuda_event_id")) return &args.wait_on_event;
      if (Is(key, "wait_on_cuda_event_record_corr_id")) return &args.event_recorded_by;
      break;
    case 'l':
      if (Is(key, "lockstep")) return &args.lockstep;
      break;
    case 'e':
      if (Is(key, "est. achieved occupancy %")) return &args.occupancy;
      break;
    case 'g':
      if (Is(key, "graph id")) return &args.graph;
      if (Is(key, "graph node id")) return &args.graph_node;
      break;
    default:
      break;
  }
  return nullptr;
}

std::string_view* FrameField(const char* key, RowArgs& args) {
  switch (key[0]) {
    case 'I':
      // PyTorch wrote "Input dims" until 2021.
      if (Is(key, "Input Dims") || Is(key, "Input dims")) return &args.shapes;
      if (Is(key, "Input type")) return &args.types;
      break;
    case 'C':
      if (Is(key, "Call stack")) return &args.stack;
      if (Is(key, "Concrete Inputs")) return &args.values;
      break;
    case 'M':
      if (Is(key, "Module Hierarchy")) return &args.modules;
      break;
    case 'F':
      if (Is(key, "Fwd thread id")) return &args.forward_thread;
      break;
    case 'S':
      if (Is(key, "Sequence number")) return &args.forward_sequence;
      break;
    case 'P':
      if (Is(key, "Python id")) return &args.python_id;
      if (Is(key, "Python parent id")) return &args.python_parent;
      break;
    default:
      break;
  }
  return nullptr;
}

std::string_view* MemoryField(const char* key, RowArgs& args) {
  if (Is(key, "Bytes")) return &args.memory_bytes;
  if (Is(key, "Addr")) return &args.memory_address;
  if (Is(key, "Device Id")) return &args.memory_device;
  if (Is(key, "Device Type")) return &args.memory_device_type;
  if (Is(key, "Total Allocated")) return &args.allocated;
  if (Is(key, "Total Reserved")) return &args.reserved;
  return nullptr;
}

// Returns a list as a whole, and any other value as its token.
simdjson::error_code ReadText(ondemand::value value, std::string_view& out) {
  ondemand::json_type type;
  if (auto error = value.type().get(type)) return error;
  if (type != ondemand::json_type::array) {
    out = Trim(value.raw_json_token());
    return simdjson::SUCCESS;
  }
  ondemand::array list;
  if (auto error = value.get_array().get(list)) return error;
  if (auto error = list.raw_json().get(out)) return error;
  out = Trim(out);
  return simdjson::SUCCESS;
}

simdjson::error_code ReadArgs(ondemand::value value, HostDetail detail, KinetoRow& row) {
  ondemand::object object;
  // "args": null, or another value that is not an object, holds no arguments.
  if (auto error = value.get_object().get(object))
    return error == simdjson::INCORRECT_TYPE ? simdjson::SUCCESS : error;
  if (row.category == RowCategory::kCounters) return object.raw_json().get(row.args.counters);
  const bool kernel = row.category == RowCategory::kKernel;
  const bool communicates = kernel || row.name == kAnnouncesCollective;
  for (auto result : object) {
    ondemand::field field;
    if (auto error = std::move(result).get(field)) return error;
    const char* const key = field.key().raw();
    if (kernel && (key[0] == 'g' || key[0] == 'b')) {
      simdjson::error_code error = simdjson::SUCCESS;
      if (Is(key, "grid")) {
        error = ReadThree(field.value(), row.args.grid);
      } else if (Is(key, "block")) {
        error = ReadThree(field.value(), row.args.block);
      }
      if (error) return error;
    }
    std::string_view* place = ScalarField(key, row.args);
    if (place == nullptr && communicates) place = CollectiveField(key, row.args);
    if (place == nullptr && row.category == RowCategory::kInstant) place = MemoryField(key, row.args);
    if (place != nullptr) {
      *place = Trim(field.value().raw_json_token());
    } else if (detail == HostDetail::kFrames && IsFrame(row.category)) {
      place = FrameField(key, row.args);
      if (place == nullptr) continue;
      if (auto error = ReadText(field.value(), *place)) return error;
    }
  }
  return simdjson::SUCCESS;
}

// True if all needed fields of a row without args are known.
bool Enough(const KinetoRow& row, HostDetail detail) {
  return row.category != RowCategory::kUnknown && (row.complete || row.instant) && !NeedsArgs(row, detail) &&
         !row.ts.empty() && (!row.dur.empty() || row.instant) &&
         (!row.name.empty() || row.category == RowCategory::kOther) &&
         (!row.tid.empty() || row.category == RowCategory::kOther);
}

enum class KeyResult { kGoOn, kArgsTooEarly, kDone };

simdjson::error_code ReadKey(ondemand::field& field, HostDetail detail, KinetoRow& row, KeyResult& result) {
  const char* const key = field.key().raw();
  const auto token = [&field] { return Trim(field.value().raw_json_token()); };
  if (row.place == nullptr) row.place = key;
  switch (key[0]) {
    case 'p':
      if (Is(key, "ph")) {
        const std::string_view phase = Unquoted(token());
        row.complete = phase == "X";
        row.instant = phase == "i" || phase == "I";
        if (!row.complete && !row.instant) result = KeyResult::kDone;
        if (row.instant)
          row.category = detail == HostDetail::kFrames ? RowCategory::kInstant : RowCategory::kOther;
      } else if (Is(key, "pid")) {
        row.pid = token();
      }
      break;
    case 'c':
      if (Is(key, "cat") && !row.instant) row.category = CategoryOf(token(), detail);
      break;
    case 'n':
      if (Is(key, "name")) row.name = token();
      break;
    case 't':
      if (Is(key, "ts")) row.ts = token();
      if (Is(key, "tid")) row.tid = token();
      break;
    case 'd':
      if (Is(key, "dur")) row.dur = token();
      break;
    case 'a':
      if (Is(key, "args")) {
        const bool unnamed_operator = row.category == RowCategory::kOperator && row.name.empty();
        if (row.category == RowCategory::kUnknown || unnamed_operator) {
          result = KeyResult::kArgsTooEarly;
        } else if (NeedsArgs(row, detail)) {
          return ReadArgs(field.value(), detail, row);
        }
      }
      break;
    default:
      break;
  }
  return simdjson::SUCCESS;
}

simdjson::error_code ReadArgsAgain(ondemand::object& object, HostDetail detail, KinetoRow& row) {
  if (auto error = object.reset().error()) return error;
  for (auto result : object) {
    ondemand::field field;
    if (auto error = std::move(result).get(field)) return error;
    if (Is(field.key().raw(), "args")) return ReadArgs(field.value(), detail, row);
  }
  return simdjson::SUCCESS;
}

}  // namespace

simdjson::error_code ReadRow(ondemand::value element, HostDetail detail, KinetoRow& row) {
  ondemand::object object;
  if (auto error = element.get_object().get(object)) return error;
  bool args_skipped = false;
  for (auto result : object) {
    ondemand::field field;
    if (auto error = std::move(result).get(field)) return error;
    KeyResult key_result = KeyResult::kGoOn;
    if (auto error = ReadKey(field, detail, row, key_result)) return error;
    args_skipped |= key_result == KeyResult::kArgsTooEarly;
    if (key_result == KeyResult::kDone || Enough(row, detail)) return simdjson::SUCCESS;
  }
  if (args_skipped && NeedsArgs(row, detail)) return ReadArgsAgain(object, detail, row);
  return simdjson::SUCCESS;
}

}  // namespace lockstep::formats
