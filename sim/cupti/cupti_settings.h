// Settings of the simulated CUPTI from the environment: its release, and the known CUPTI faults that it
// shows. They are read once. An invalid value is reported on stderr and ignored.
//
//   SIMGPU_CUPTI_VERSION=26       the release as cuptiGetVersion counts (13..28, 130001, …). It sets the
//                                 record sizes and the behaviour.
//   SIMGPU_CUPTI_FAULTS=A,B=N,…   a list of these faults:
//     graph_before_cupti          a graph instantiated before CUPTI's first use has no records of its nodes
//     graph_correlation           from the second session on, graph launches and their kernels carry wrong
//                                 correlations
//     zero_stamps=N               every Nth kernel has start = end = 0, as if device buffers ran out
//     drop=N                      every Nth record is dropped and counted
//     vanish=N                    every Nth record is dropped, and not counted
//     twice=N                     every Nth record is written twice
//     correlation=N               every Nth kernel carries a wrong correlation
//     stretch=PERCENT             kernels end later, by this share of their length
//     early=US                    kernels carry stamps that are US microseconds too early
//     no_objects                  existing devices, contexts and streams are not dumped on request
//     instant=N                   every Nth kernel ends when it starts
//     no_external                 there are no records of external correlations
//     late_buffers=MS             a completed buffer is returned MS milliseconds late
//     exclusive                   while a subscriber exists, registration for activity buffers fails, as
//                                 under Nsight
//     keep_buffers                for each buffer that it returns, it requests another one at once, and keeps
//                                 it until it has a record (pytorch#195471)
//     zeroing                     it fills a buffer with zeros on the thread that needs it
//     reorder                     of several buffers that are ready, the newest is returned first
//     one_buffer                  threads share a buffer, as before 13.0 and after Kineto
//     late_drops=MS               dropped records are counted MS milliseconds later
//     finalize=MS                 MS milliseconds after kernel records are switched on, another tool calls
//                                 cuptiFinalize: nothing is recorded from then on, and no buffer returns
//     device_lost=MS              MS milliseconds after kernel records are switched on, the GPU is lost:
//                                 nothing is recorded, no buffer returns, and calls fail with
//                                 CUPTI_ERROR_UNKNOWN
//     not_initialized=N           the first N requests to enable a kind fail with CUPTI_ERROR_NOT_INITIALIZED
//     unknown=N                   the first N requests to enable a kind fail with CUPTI_ERROR_UNKNOWN
//     rival=MS                    another tool is subscribed for the first MS milliseconds after a tool's
//                                 first call, and the fault exclusive is on
//     tsc_clock                   torch.profiler has run and ended: stamps are the processor's counter
//     hostile                     keep_buffers, zeroing, reorder, late_drops=50, late_buffers=5 and
//                                 graph_correlation together: what a capture must survive without a loss
#ifndef LOCKSTEP_SIM_CUPTI_CUPTI_SETTINGS_H_
#define LOCKSTEP_SIM_CUPTI_CUPTI_SETTINGS_H_

#include <cstdint>

#include "wire/foreign/cupti.h"

namespace lockstep::sim {

struct CuptiSettings {
  uint32_t version = foreign::cupti::kVersion_13_0U1;
  bool graph_before_cupti = false;
  bool graph_correlation = false;
  bool exclusive = false;
  uint32_t zero_stamps = 0;  // 0 means never
  uint32_t drop = 0;         // 0 means never
  uint32_t vanish = 0;       // 0 means never
  uint32_t twice = 0;        // 0 means never
  uint32_t correlation = 0;  // 0 means never
  uint32_t stretch_percent = 0;
  uint32_t early_us = 0;
  bool no_objects = false;
  uint32_t instant = 0;  // 0 means never
  bool no_external = false;
  uint32_t late_buffers_ms = 0;
  bool keep_buffers = false;
  bool zeroing = false;
  bool reorder = false;
  bool one_buffer = false;
  bool tsc_clock = false;
  uint32_t late_drops_ms = 0;
  uint32_t finalize_ms = 0;     // 0 means never
  uint32_t device_lost_ms = 0;  // 0 means never
  uint32_t not_initialized = 0;
  uint32_t unknown = 0;
  uint32_t rival_ms = 0;

  // Either text may be null. `*error` receives the text with an invalid value, or null if all values are
  // valid.
  static CuptiSettings Parse(const char* version, const char* faults, const char** error);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_CUPTI_SETTINGS_H_
