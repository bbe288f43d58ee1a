// A process of a capture: the entries of its devices, which share its host threads.
#ifndef LOCKSTEP_VIEWS_HOST_PROCESS_H_
#define LOCKSTEP_VIEWS_HOST_PROCESS_H_

#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

struct Process {
  RankId rank;
  std::vector<uint32_t> entries;                // indices into Capture::ranks; never empty
  const capture::HostFrames* frames = nullptr;  // null: frames were not kept
};

// Returns the processes in the capture's order. `capture` must outlive them.
std::vector<Process> ProcessesOf(const capture::Capture& capture);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_PROCESS_H_
