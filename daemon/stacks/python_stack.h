// Reads the Python stack of a process's main thread from outside. The process is not stopped and does nothing
// for it, so it also works while it sleeps, is stopped, or holds Python's lock.
//
// If the thread runs at the same time, the frames may be of different moments, and the stack may end early.
// Nothing that the memory holds can harm the reader: every value is checked and every loop is bounded.
#ifndef LOCKSTEP_DAEMON_STACKS_PYTHON_STACK_H_
#define LOCKSTEP_DAEMON_STACKS_PYTHON_STACK_H_

#include <string_view>

#include "daemon/stacks/memory.h"
#include "daemon/stacks/python_layout.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

inline constexpr int kMostPythonFrames = 64;

// `maps`: the content of /proc/<pid>/maps. The frames begin with the innermost one. Without frames, `problem`
// has the reason: as "the process runs no Python", or "Python 3.7 is not known".
v1::PythonStack ReadPythonStack(const Memory& memory, std::string_view maps);
// The same for a known interpreter, without its version. `runtime`: address of _PyRuntime.
v1::PythonStack ReadPythonFrames(const Memory& memory, const PythonLayout& layout, uint64_t runtime);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_STACKS_PYTHON_STACK_H_
