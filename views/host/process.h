// A process of a capture: the entries of its devices, which share its host threads.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_PROCESS_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_PROCESS_H_

#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

struct Process {
  RankId rank;
  std::vector<uint32_t> entries;              // into Capture::ranks; never empty
  const store::HostFrames* frames = nullptr;  // null: none were kept
};

// In the capture's order. `capture` must outlive them.
std::vector<Process> ProcessesOf(const store::Capture& capture);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_PROCESS_H_
