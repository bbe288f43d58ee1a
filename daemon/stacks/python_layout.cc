#include "daemon/stacks/python_layout.h"

#include <cstring>

namespace lockstep::daemon {
namespace {

using Lines = PythonLayout::Lines;
constexpr uint64_t kAbsent = PythonLayout::kAbsent;

constexpr PythonLayout k38 = {
    .main_interpreter = 40,
    .first_thread = 8,
    .next_thread = 8,
    .frame = 24,
    .current_frame = kAbsent,
    .code = 32,
    .caller = 24,
    .instruction = 104,
    .owner = kAbsent,
    .file = 104,
    .function = 112,
    .first_line = 40,
    .line_table = 120,
    .bytes = kAbsent,
    .string_state = 32,
    .string_length = 16,
    .ascii_text = 48,
    .wide_text = 72,
    .byte_count = 16,
    .byte_text = 32,
    .lines = Lines::kPairs,
};

constexpr PythonLayout Make310() {
  PythonLayout layout = k38;
  layout.instruction = 96;
  layout.lines = Lines::kRanges;
  return layout;
}

constexpr PythonLayout Make311() {
  PythonLayout layout = k38;
  layout.main_interpreter = 48;
  layout.first_thread = 16;
  layout.frame = 56;
  layout.current_frame = 8;
  layout.code = 32;
  layout.caller = 48;
  layout.instruction = 56;
  layout.owner = 69;
  layout.file = 112;
  layout.function = 128;  // with the names of its class and of the functions around it
  layout.first_line = 72;
  layout.line_table = 136;
  layout.bytes = 184;
  layout.lines = Lines::kLocations;
  return layout;
}

constexpr PythonLayout Make312() {
  PythonLayout layout = Make311();
  layout.first_thread = 72;
  layout.current_frame = 0;
  layout.code = 0;
  layout.caller = 8;
  layout.owner = 70;
  layout.first_line = 68;
  layout.bytes = 192;
  layout.ascii_text = 40;
  layout.wide_text = 56;
  return layout;
}

// _Py_DebugOffsets of 3.13, the first member of _PyRuntime. Its parts begin with their size.
struct DebugOffsets313 {
  char cookie[8];
  uint64_t version, free_threaded;
  uint64_t runtime_size, finalizing, interpreters_head;
  uint64_t interpreter_size, id, next_interpreter, threads_head, of_interpreter[9];
  uint64_t thread_size, previous_thread, next_thread, interpreter, current_frame, of_thread[4];
  uint64_t frame_size, caller, code, instruction, locals, owner;
  uint64_t code_size, file, name, qualified_name, line_table, first_line, of_code[3], bytes;
  uint64_t object_size, type;
  uint64_t type_size, of_type[3];
  uint64_t tuple_size, of_tuple[2];
  uint64_t list_size, of_list[2];
  uint64_t dict_size, of_dict[2];
  uint64_t float_size, of_float;
  uint64_t long_size, of_long[2];
  uint64_t bytes_size, byte_count, byte_text;
  uint64_t string_size, string_state, string_length, ascii_size;
};

// That of 3.14.
struct DebugOffsets314 {
  char cookie[8];
  uint64_t version, free_threaded;
  uint64_t runtime_size, finalizing, interpreters_head;
  uint64_t interpreter_size, id, next_interpreter, threads_head, of_interpreter[12];
  uint64_t thread_size, previous_thread, next_thread, interpreter, current_frame, of_thread[4];
  uint64_t frame_size, caller, code, instruction, locals, owner, of_frame[2];
  uint64_t code_size, file, name, qualified_name, line_table, first_line, of_code[3], bytes, local_bytes;
  uint64_t object_size, type;
  uint64_t type_size, of_type[3];
  uint64_t tuple_size, of_tuple[2];
  uint64_t list_size, of_list[2];
  uint64_t set_size, of_set[3];
  uint64_t dict_size, of_dict[2];
  uint64_t float_size, of_float;
  uint64_t long_size, of_long[2];
  uint64_t bytes_size, byte_count, byte_text;
  uint64_t string_size, string_state, string_length, ascii_size;
};

template <typename DebugOffsets>
std::optional<PythonLayout> ReadOffsets(const Memory& memory, uint64_t runtime) {
  const std::optional<DebugOffsets> read = memory.Get<DebugOffsets>(runtime);
  if (!read || std::memcmp(read->cookie, "xdebugpy", sizeof(read->cookie)) != 0) return std::nullopt;
  return PythonLayout{
      .main_interpreter = read->interpreters_head + sizeof(uint64_t),
      .first_thread = read->threads_head,
      .next_thread = read->next_thread,
      .frame = read->current_frame,
      .current_frame = kAbsent,
      .code = read->code,
      .caller = read->caller,
      .instruction = read->instruction,
      .owner = read->owner,
      .file = read->file,
      .function = read->qualified_name,
      .first_line = read->first_line,
      .line_table = read->line_table,
      .bytes = read->bytes,
      .string_state = read->string_state,
      .string_length = read->string_length,
      .ascii_text = read->ascii_size,
      .wide_text = read->ascii_size + 2 * sizeof(uint64_t),
      .byte_count = read->byte_count,
      .byte_text = read->byte_text,
      .lines = Lines::kLocations,
  };
}

}  // namespace

std::optional<PythonLayout> LayoutOf(PythonVersion version, const Memory& memory, uint64_t runtime) {
  if (version.major != 3) return std::nullopt;
  switch (version.minor) {
    case 8:
    case 9:
      return k38;
    case 10:
      return Make310();
    case 11:
      return Make311();
    case 12:
      return Make312();
    case 13:
      return ReadOffsets<DebugOffsets313>(memory, runtime);
    case 14: {
      const std::optional<DebugOffsets314> read = memory.Get<DebugOffsets314>(runtime);
      // Without the global lock, each thread has its own copy of the instructions.
      if (!read || read->free_threaded != 0) return std::nullopt;
      return ReadOffsets<DebugOffsets314>(memory, runtime);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace lockstep::daemon
