// What the environment asks of the simulated CUPTI: which release it is, and which of CUPTI's known faults it
// shows. Read once; a value that makes no sense is named on stderr and ignored.
//
//   SIMGPU_CUPTI_VERSION=26           as cuptiGetVersion counts (13..28, 130001, …): record sizes and habits
//   follow SIMGPU_CUPTI_FAULTS=A,B=N,…       any of
//     graph_before_cupti    a graph instantiated before CUPTI's first use yields no records of its nodes
//     graph_correlation     from the second session on, graph launches and their kernels carry wrong
//     correlations zero_stamps=N         every Nth kernel has start = end = 0, as when device buffers run out
//     drop=N                every Nth record is dropped and counted
//     late_buffers=MS       a completed buffer comes back so much later
//     exclusive             while somebody is subscribed nobody can register for activity buffers, as under
//     Nsight
#ifndef LOCKSTEP_SIM_CUPTI_KNOBS_H_
#define LOCKSTEP_SIM_CUPTI_KNOBS_H_

#include <cstdint>

#include "wire/foreign/cupti.h"

namespace lockstep::sim {

struct CuptiKnobs {
  uint32_t version = foreign::cupti::kVersion_13_0U1;
  bool graph_before_cupti = false;
  bool graph_correlation = false;
  bool exclusive = false;
  uint32_t zero_stamps = 0;  // 0: never
  uint32_t drop = 0;         // 0: never
  uint32_t late_buffers_ms = 0;

  // Either text may be null. Returns what could not be understood, empty when all was, in `*trouble`.
  static CuptiKnobs Parse(const char* version, const char* faults, const char** trouble);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_KNOBS_H_
