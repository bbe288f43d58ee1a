/* Lockstep's C API. A program reports its steps and ranges to the client, if the client is loaded. The
 * functions are declared weak: where the library may be absent, test the function's address or use the macros
 * below.
 *
 * Any thread may call them. Without a capture a call costs one load and a branch. Texts are copied. */
#ifndef LOCKSTEP_CLIENT_LOCKSTEP_H_
#define LOCKSTEP_CLIENT_LOCKSTEP_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if !defined(LOCKSTEP_API)
#define LOCKSTEP_API __attribute__((weak))
#endif

/* Returns the version of the library, for example "0.1.0". */
LOCKSTEP_API const char* lockstep_version(void);

/* Mark a training step of this thread: a range named "step N" in the domain "lockstep". Numbers must
 * increase, and must be the same on all ranks. `lockstep trace --steps` and `--start-on-step` use them. */
LOCKSTEP_API void lockstep_step_begin(uint64_t step);
LOCKSTEP_API void lockstep_step_end(void);

/* Mark a range of this thread. Ranges may be nested. The name is UTF-8. */
LOCKSTEP_API void lockstep_range_push(const char* name);
LOCKSTEP_API void lockstep_range_pop(void);

/* Begin and end the window of `lockstep trace --start-on-profiler-api`, like cudaProfilerStart and
 * cudaProfilerStop. */
LOCKSTEP_API void lockstep_profiler_start(void);
LOCKSTEP_API void lockstep_profiler_stop(void);

/* Returns 1 while a capture records, else 0. */
LOCKSTEP_API int lockstep_capturing(void);

/* Sets callbacks: `started(data)` when a capture has begun to record, and `stopped(data)` when it has ended.
 * Either may be null. The thread that marks steps calls them in lockstep_step_begin, before the step. They
 * can be set once per process: returns 1, or 0 if they were set before. */
LOCKSTEP_API int lockstep_on_capture(void (*started)(void*), void (*stopped)(void*), void* data);

/* Connects to the node's daemon now, in a process without CUDA's injection. Returns 1 if the client's thread
 * runs. */
LOCKSTEP_API int lockstep_start(void);

#define LOCKSTEP_STEP_BEGIN(step)                       \
  do {                                                  \
    if (lockstep_step_begin) lockstep_step_begin(step); \
  } while (0)
#define LOCKSTEP_STEP_END()                     \
  do {                                          \
    if (lockstep_step_end) lockstep_step_end(); \
  } while (0)

#ifdef __cplusplus
}
#endif

#endif /* LOCKSTEP_CLIENT_LOCKSTEP_H_ */
