/* A preload that gives a process another CLOCK_REALTIME, to simulate a host with its own clock.
 *
 *   LOCKSTEP_TEST_CLOCK=offset_ns:drift_ppb:reference_monotonic_ns[:step_ns:step_at_monotonic_ns]
 *   realtime' = realtime + offset + drift * (monotonic - reference) + (monotonic >= step_at ? step : 0)
 *
 * All processes with the same numbers see the same clock, independent of their start. CLOCK_MONOTONIC is
 * unchanged.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static int (*real_clock_gettime)(clockid_t, struct timespec*);
static int64_t offset_ns, drift_ppb, reference_ns, step_ns, step_at_ns;

static int64_t to_ns(const struct timespec* t) { return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec; }

__attribute__((constructor)) static void init(void) {
  real_clock_gettime = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const char* text = getenv("LOCKSTEP_TEST_CLOCK");
  long long offset, drift, reference, step = 0, step_at = 0;
  if (text && sscanf(text, "%lld:%lld:%lld:%lld:%lld", &offset, &drift, &reference, &step, &step_at) >= 3) {
    offset_ns = offset;
    drift_ppb = drift;
    reference_ns = reference;
    step_ns = step;
    step_at_ns = step_at;
  }
}

EXPORT int clock_gettime(clockid_t clock, struct timespec* out) {
  if (!real_clock_gettime) init();
  int rc = real_clock_gettime(clock, out);
  if (rc == 0 && clock == CLOCK_REALTIME) {
    struct timespec mono;
    real_clock_gettime(CLOCK_MONOTONIC, &mono);
    int64_t since = to_ns(&mono) - reference_ns;
    int64_t step = to_ns(&mono) >= step_at_ns ? step_ns : 0;
    int64_t ns = to_ns(out) + offset_ns + step + (int64_t)((__int128)since * drift_ppb / 1000000000);
    out->tv_sec = ns / 1000000000;
    out->tv_nsec = ns % 1000000000;
  }
  return rc;
}

EXPORT int gettimeofday(struct timeval* tv, void* zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tv->tv_sec = now.tv_sec;
  tv->tv_usec = now.tv_nsec / 1000;
  return 0;
}

EXPORT time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

EXPORT int timespec_get(struct timespec* out, int base) {
  if (base != TIME_UTC) return 0;
  clock_gettime(CLOCK_REALTIME, out);
  return base;
}
