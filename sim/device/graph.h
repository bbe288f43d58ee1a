// A CUDA graph of the simulated device: what stream capture made of calls, and what can be launched of it.
#ifndef LOCKSTEP_SIM_DEVICE_GRAPH_H_
#define LOCKSTEP_SIM_DEVICE_GRAPH_H_

#include <cstdint>
#include <vector>

#include "sim/device/gpu.h"

namespace lockstep::sim {

struct GraphNode {
  Work work;
  std::vector<size_t> after;  // nodes before this one in the list
};

struct Graph {
  std::vector<GraphNode> nodes;
};

// While streams are captured: shared by all that joined in through events.
struct Capture {
  const Stream* origin = nullptr;
  Graph graph;
};

struct GraphExecutable {
  uint32_t id = 0;
  Graph graph;
  bool before_cupti = false;  // instantiated before CUPTI was first used
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_GRAPH_H_
