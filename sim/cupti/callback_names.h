// Maps CUPTI's callback ids to the names of the API functions that traces show.
#ifndef LOCKSTEP_SIM_CUPTI_CALLBACK_NAMES_H_
#define LOCKSTEP_SIM_CUPTI_CALLBACK_NAMES_H_

#include <cstdint>

#include "wire/foreign/cupti.h"

namespace lockstep::sim {

// Returns a name as cuptiGetCallbackName does ("cudaLaunchKernel_v7000"), or null if the simulation does not
// know the id.
const char* CallbackName(foreign::cupti::CallbackDomain domain, uint32_t cbid);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_CALLBACK_NAMES_H_
