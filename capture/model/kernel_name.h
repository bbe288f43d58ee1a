// Kernel names in readable form.
#ifndef LOCKSTEP_CAPTURE_MODEL_KERNEL_NAME_H_
#define LOCKSTEP_CAPTURE_MODEL_KERNEL_NAME_H_

#include <string>
#include <string_view>

namespace lockstep::capture {

// Returns the signature of a kernel that CUPTI reports under its linker name ("_Z9vectorAddPKfS0_Pfi").
// Empty: `name` is not a linker name, or its signature is too long to read. (A name of one kilobyte can stand
// for a signature of gigabytes.)
std::string DemangledKernelName(std::string_view name);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_KERNEL_NAME_H_
