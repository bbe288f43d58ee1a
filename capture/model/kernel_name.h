// Kernel names as people read them.
#ifndef LOCKSTEP_AGGREGATOR_STORE_KERNEL_NAME_H_
#define LOCKSTEP_AGGREGATOR_STORE_KERNEL_NAME_H_

#include <string>
#include <string_view>

namespace lockstep::store {

// CUPTI reports a kernel under its linker name ("_Z9vectorAddPKfS0_Pfi"): this is its signature. Empty:
// `name` is no such name, or its signature is longer than anybody reads (a name of a kilobyte can stand for
// one of gigabytes).
std::string DemangledKernelName(std::string_view name);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_KERNEL_NAME_H_
