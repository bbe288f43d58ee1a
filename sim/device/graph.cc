#include "sim/device/graph.h"

#include <algorithm>

namespace lockstep::sim {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;

bool Gpu::BeginCapture(Stream& stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream.is_default || stream.capture != nullptr) return false;
  stream.capture = std::make_shared<Capture>();
  stream.capture->origin = &stream;
  stream.capture_after.clear();
  return true;
}

bool Gpu::Capturing(const Stream& stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  return stream.capture != nullptr;
}

std::shared_ptr<Graph> Gpu::EndCapture(Stream& stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stream.capture == nullptr || stream.capture->origin != &stream) return nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  // Whatever nobody follows must be where the origin is, else a stream was forked and never joined.
  std::vector<bool> followed(capture->graph.nodes.size(), false);
  for (const GraphNode& node : capture->graph.nodes) {
    for (size_t before : node.after) followed[before] = true;
  }
  bool joined = true;
  for (size_t node = 0; node < followed.size(); ++node) {
    const auto& at_end = stream.capture_after;
    joined = joined && (followed[node] || std::find(at_end.begin(), at_end.end(), node) != at_end.end());
  }
  for (const auto& other : streams_) {
    if (other.second->capture != capture) continue;
    other.second->capture = nullptr;
    other.second->capture_after.clear();
  }
  for (const auto& event : events_) {
    if (event.second->capture == capture) event.second->capture = nullptr;
  }
  return joined ? std::make_shared<Graph>(std::move(capture->graph)) : nullptr;
}

std::shared_ptr<GraphExecutable> Gpu::Instantiate(const Graph& graph) {
  auto made = std::make_shared<GraphExecutable>();
  made->graph = graph;
  made->before_cupti = !activity_.used();
  std::lock_guard<std::mutex> lock(mutex_);
  made->id = next_graph_++;
  return made;
}

ItemRef Gpu::MakeGraphEnd(const GraphExecutable& graph, const Stream& stream, uint32_t correlation,
                          const std::vector<ItemRef>& items, std::vector<ItemRef> after) {
  auto end = std::make_shared<Item>();
  end->after = std::move(after);
  cupti::GraphTrace2 record{};
  record.kind = ActivityKind::kGraphTrace;
  record.graph_id = graph.id;
  record.end_device_id = static_cast<uint32_t>(stream.device);
  record.end_context_id = kSimContextId + static_cast<uint32_t>(stream.device);
  record.device_id = record.end_device_id;
  record.context_id = record.end_context_id;
  record.stream_id = stream.id;
  record.correlation_id = correlation;
  uint64_t ticket = 0;
  if (items.empty() || !activity_.Launch(&record, sizeof record, &ticket)) return end;
  end->timed = [this, ticket, items](const Item& i) {
    int64_t first = i.end_ns;
    for (const ItemRef& item : items) first = std::min(first, item->start_ns);
    activity_.Finish(ticket, first, i.end_ns);
  };
  return end;
}

void Gpu::LaunchGraph(const GraphExecutable& graph, Stream& stream, uint32_t correlation) {
  const CuptiKnobs* faults = activity_.knobs();
  // A graph record stands for those of its nodes.
  const bool silent = activity_.Wants(ActivityKind::kGraphTrace) ||
                      (graph.before_cupti && faults != nullptr && faults->graph_before_cupti);
  std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<ItemRef> before = Before(stream);
  std::vector<ItemRef> items;
  std::vector<ItemRef> last = before;
  for (size_t n = 0; n < graph.graph.nodes.size(); ++n) {
    const GraphNode& node = graph.graph.nodes[n];
    std::vector<ItemRef> after = node.after.empty() ? before : std::vector<ItemRef>{};
    for (size_t i : node.after) after.push_back(items[i]);
    items.push_back(MakeItem(stream, node.work, correlation,
                             {graph.id, (uint64_t{graph.id} << 32) + n + 1, silent}, after));
    timeline_.Submit(items.back());
    last.push_back(items.back());
  }
  stream.last = MakeGraphEnd(graph, stream, correlation, items, std::move(last));
  timeline_.Submit(stream.last);
}

}  // namespace lockstep::sim
