// Names of the API functions that traces show, by CUPTI's callback id.
#ifndef LOCKSTEP_SIM_CUPTI_CALLBACK_NAMES_H_
#define LOCKSTEP_SIM_CUPTI_CALLBACK_NAMES_H_

#include <cstdint>

#include "wire/foreign/cupti.h"

namespace lockstep::sim {

// As cuptiGetCallbackName gives them ("cudaLaunchKernel_v7000"); null for ids that the simulation does not
// know.
const char* CallbackName(foreign::cupti::CallbackDomain domain, uint32_t cbid);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_CALLBACK_NAMES_H_
