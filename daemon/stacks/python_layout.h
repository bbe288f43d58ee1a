// Where CPython keeps the frames of its threads: offsets of structure members in its releases. Sources: the
// headers in Include/internal of each release; from 3.13 on, the table that the interpreter carries for
// debuggers (_Py_DebugOffsets). python_stack_test.cc compares each with the interpreters that are installed.
#ifndef LOCKSTEP_DAEMON_STACKS_PYTHON_LAYOUT_H_
#define LOCKSTEP_DAEMON_STACKS_PYTHON_LAYOUT_H_

#include <cstdint>
#include <optional>

#include "daemon/stacks/memory.h"

namespace lockstep::daemon {

struct PythonVersion {
  int major = 0, minor = 0;
};

// All members are offsets in bytes, unless stated otherwise.
struct PythonLayout {
  static constexpr uint64_t kAbsent = ~uint64_t{0};

  // How a code object maps instructions to lines.
  enum class Lines : uint8_t {
    kPairs,      // to 3.9: co_lnotab; instructions are counted in bytes
    kRanges,     // 3.10: co_linetable, ranges with or without a line
    kLocations,  // from 3.11: co_linetable, entries with columns
  };

  uint64_t main_interpreter;  // in _PyRuntime
  uint64_t first_thread;      // in the interpreter
  uint64_t next_thread;       // in a thread
  // In a thread: its innermost frame. If `current_frame` is not kAbsent, it is a pointer to a structure that
  // has the pointer to the frame there.
  uint64_t frame;
  uint64_t current_frame;
  // In a frame.
  uint64_t code, caller, instruction;
  uint64_t owner;  // a byte; kAbsent: frames have none
  // In a code object. `bytes` is kAbsent if a frame's instruction is a number and no pointer.
  uint64_t file, function, first_line, line_table, bytes;
  // In strings.
  uint64_t string_state, string_length, ascii_text, wide_text;
  uint64_t byte_count, byte_text;
  Lines lines;
};

// Owners of frames from this one on: the frame only marks an entry from C, or the interpreter's own.
inline constexpr uint8_t kPythonFrameOfC = 3;

// Returns nothing if the version is not known. `runtime`: address of _PyRuntime.
std::optional<PythonLayout> LayoutOf(PythonVersion version, const Memory& memory, uint64_t runtime);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_STACKS_PYTHON_LAYOUT_H_
