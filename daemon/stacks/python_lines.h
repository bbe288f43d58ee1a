// Finds the source line of a Python instruction in the line table of its code object.
#ifndef LOCKSTEP_DAEMON_STACKS_PYTHON_LINES_H_
#define LOCKSTEP_DAEMON_STACKS_PYTHON_LINES_H_

#include <cstdint>
#include <string_view>

#include "daemon/stacks/python_layout.h"

namespace lockstep::daemon {

// `instruction`: offset in bytes from the first instruction. Returns 0 if the instruction has no line. Bytes
// of any content are accepted.
int32_t LineOf(PythonLayout::Lines format, std::string_view table, int32_t first_line, int64_t instruction);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_STACKS_PYTHON_LINES_H_
