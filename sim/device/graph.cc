#include "sim/device/graph.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {

namespace cupti = foreign::cupti;

bool AllJoined(const Capture& capture, const std::vector<size_t>& at_end) {
  std::vector<bool> followed(capture.graph.nodes.size(), false);
  for (const GraphNode& node : capture.graph.nodes) {
    for (size_t before : node.after) followed[before] = true;
  }
  for (size_t node = 0; node < followed.size(); ++node) {
    if (!followed[node] && std::find(at_end.begin(), at_end.end(), node) == at_end.end()) return false;
  }
  return true;
}

ItemRef MakeGraphEnd(Activity& activity, const GraphExecutable& graph, const Stream& stream,
                     uint32_t correlation, const std::vector<ItemRef>& items, std::vector<ItemRef> after) {
  auto end = std::make_shared<Item>();
  end->after = std::move(after);
  cupti::GraphTrace2 record{};
  record.kind = cupti::ActivityKind::kGraphTrace;
  record.graph_id = graph.id;
  record.end_device_id = static_cast<uint32_t>(stream.device);
  record.end_context_id = kSimContextId + static_cast<uint32_t>(stream.device);
  record.device_id = record.end_device_id;
  record.context_id = record.end_context_id;
  record.stream_id = stream.id;
  record.correlation_id = correlation;
  uint64_t ticket = 0;
  if (items.empty() || !activity.Launch(&record, sizeof record, &ticket)) return end;
  end->timed = [&activity, ticket, items](const Item& i) {
    int64_t first = i.end_ns;
    for (const ItemRef& item : items) first = std::min(first, item->start_ns);
    activity.Finish(ticket, first, i.end_ns);
  };
  return end;
}

}  // namespace lockstep::sim
