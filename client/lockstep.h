/* Lockstep's C API: tells the client, where it is loaded, what only the program knows. Every function is safe
 * to call where it is not: declared weak, so test it (or use the macros) when the library may be absent.
 *
 * Any thread. Cost while nothing is captured: one load and a branch. Texts are copied. */
#ifndef LOCKSTEP_CLIENT_LOCKSTEP_H_
#define LOCKSTEP_CLIENT_LOCKSTEP_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if !defined(LOCKSTEP_API)
#define LOCKSTEP_API __attribute__((weak))
#endif

/* "0.1.0", of the library. */
LOCKSTEP_API const char* lockstep_version(void);

/* A training step of this thread: a range named "step N" in the domain "lockstep". Numbers grow, and are the
 * same on all ranks: `lockstep trace --steps` and `--start-on-step` go by them. */
LOCKSTEP_API void lockstep_step_begin(uint64_t step);
LOCKSTEP_API void lockstep_step_end(void);

/* A range of this thread, nested; UTF-8. */
LOCKSTEP_API void lockstep_range_push(const char* name);
LOCKSTEP_API void lockstep_range_pop(void);

/* For `lockstep trace --start-on-profiler-api`, as cudaProfilerStart and cudaProfilerStop: the capture begins
 * and ends here. */
LOCKSTEP_API void lockstep_profiler_start(void);
LOCKSTEP_API void lockstep_profiler_stop(void);

/* 1 while a capture records. */
LOCKSTEP_API int lockstep_capturing(void);

/* Has `started(data)` called when a capture has begun to record and `stopped(data)` when it has ended; either
 * may be null. They are called by the thread that marks steps, from lockstep_step_begin, before the step.
 * Once per process, for its life: returns 1, or 0 when somebody has set them already. */
LOCKSTEP_API int lockstep_on_capture(void (*started)(void*), void (*stopped)(void*), void* data);

/* Connects to the node's daemon now, in a process that does not use CUDA's injection. Returns 1 when our
 * thread runs. */
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
