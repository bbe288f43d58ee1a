// A CUDA graph of the simulated device: the nodes that stream capture collects, and the executable graph.
#ifndef LOCKSTEP_SIM_DEVICE_GRAPH_H_
#define LOCKSTEP_SIM_DEVICE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/device/gpu.h"

namespace lockstep::sim {

struct GraphNode {
  Work work;
  std::vector<size_t> after;  // indices of earlier nodes
};

struct Graph {
  std::vector<GraphNode> nodes;
};

// The state of a stream capture. All streams that joined it through events share it.
struct Capture {
  const Stream* origin = nullptr;
  Graph graph;
};

struct GraphExecutable {
  uint32_t id = 0;
  Graph graph;
  bool before_cupti = false;  // instantiated before CUPTI was first used
};

// Returns true if every node without a follower is among those at the end of the stream on which the capture
// began. Otherwise a stream was forked and never joined.
bool AllJoined(const Capture& capture, const std::vector<size_t>& at_end);

// Makes the last item of a launch, which follows `after`. `items` are those of the graph's nodes. If CUPTI
// wants graph records, the item adds one for the launch. `activity` must outlive the item.
ItemRef MakeGraphEnd(Activity& activity, const GraphExecutable& graph, const Stream& stream,
                     uint32_t correlation, const std::vector<ItemRef>& items, std::vector<ItemRef> after);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_GRAPH_H_
