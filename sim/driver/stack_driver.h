// The functions by which the simulated libcudart tells its libcuda what a program does. It finds them by
// name.
#ifndef LOCKSTEP_SIM_DRIVER_STACK_DRIVER_H_
#define LOCKSTEP_SIM_DRIVER_STACK_DRIVER_H_

#include <cstdint>

// CUDA has been initialised, with this number of devices.
extern "C" void lockstep_sim_initialized(int devices);
// The program has a context on this device from now on.
extern "C" void lockstep_sim_context_created(int device);

#endif  // LOCKSTEP_SIM_DRIVER_STACK_DRIVER_H_
