#include "daemon/stacks/process_stacks.h"

#include "daemon/stacks/native_stack.h"
#include "daemon/stacks/python_stack.h"

namespace lockstep::daemon {

v1::ProcessStacks StacksWithProblem(const std::string& problem, StackKinds kinds) {
  v1::ProcessStacks stacks;
  stacks.mutable_python()->set_problem(problem);
  if (kinds == StackKinds::kPythonAndNative) stacks.set_native_problem(problem);
  return stacks;
}

ProcessStacksReader::ProcessStacksReader(pid_t pid, const Memory& memory, StackKinds kinds)
    : pid_(pid), memory_(memory), kinds_(kinds), threads_(std::vector<ThreadSnapshot>()) {
  if (kinds == StackKinds::kPythonAndNative) threads_ = TakeSnapshots(pid, memory);
}

v1::ProcessStacks ProcessStacksReader::Read(std::string_view maps) const {
  v1::ProcessStacks stacks;
  *stacks.mutable_python() = ReadPythonStack(memory_, maps);
  if (kinds_ == StackKinds::kPython) return stacks;
  if (!threads_.ok()) {
    stacks.set_native_problem(std::string(threads_.status().message()));
  } else if (threads_->empty()) {
    stacks.set_native_problem("none of its threads stopped in time: they are in an uninterruptible call");
  } else {
    AddNativeStacks(pid_, maps, memory_, *threads_, stacks);
  }
  return stacks;
}

}  // namespace lockstep::daemon
