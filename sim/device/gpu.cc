#include "sim/device/gpu.h"

#include <time.h>

#include <algorithm>

#include "sim/cupti/device_record.h"
#include "sim/device/graph.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;

constexpr int64_t kLaunchLatencyNs = 3'000;

// Fills in the ids of context, device, stream, call and graph. All record types have these members.
template <typename R>
void Fill(R& r, const Stream& stream, uint32_t correlation) {
  r.device_id = static_cast<uint32_t>(stream.device);
  r.context_id = kSimContextId + static_cast<uint32_t>(stream.device);
  r.stream_id = stream.id;
  r.correlation_id = correlation;
}

}  // namespace

Gpu::Gpu(const DeviceSettings& knobs)
    : settings_(knobs), model_(knobs), timeline_(MonotonicNs, [this](int64_t now) { activity_.Pump(now); }) {
  pthread_key_create(&device_key_, nullptr);
  for (int d = 0; d < settings_.devices; ++d) {
    const auto number = static_cast<uint32_t>(d);
    const cupti::Device5 record = DeviceRecord(number, "Simulated GPU", number + 1);
    activity_.AddObject(&record, sizeof record, nullptr);
  }
  timeline_.Start();
}

Gpu::~Gpu() { pthread_key_delete(device_key_); }

int Gpu::device() const {
  return static_cast<int>(reinterpret_cast<intptr_t>(pthread_getspecific(device_key_)));
}

bool Gpu::SetDevice(int device) {
  if (device < 0 || device >= settings_.devices) return false;
  pthread_setspecific(device_key_, reinterpret_cast<void*>(intptr_t{device}));
  MutexLock lock(&mutex_);
  DefaultStream(device);
  return true;
}

void Gpu::RecordStream(const Stream& stream, int priority) {
  using cupti::StreamFlag;
  const StreamFlag flag = stream.is_default ? StreamFlag::kNull
                          : stream.blocking ? StreamFlag::kDefault
                                            : StreamFlag::kNonBlocking;
  const cupti::Stream record =
      StreamRecord(kSimContextId + static_cast<uint32_t>(stream.device), stream.id, priority, flag);
  activity_.AddObject(&record, sizeof record, stream.is_default ? nullptr : &stream);
}

Stream& Gpu::DefaultStream(int device) {
  std::unique_ptr<Stream>& stream = default_streams_[device];
  if (stream != nullptr) return *stream;
  stream = std::make_unique<Stream>();
  stream->id = kNullStreamId;
  stream->device = device;
  stream->is_default = true;
  const auto number = static_cast<uint32_t>(device);
  const cupti::Context3 context = ContextRecord(kSimContextId + number, number);
  activity_.AddObject(&context, sizeof context, stream.get());
  RecordStream(*stream, 0);
  return *stream;
}

Stream* Gpu::NewStream(bool blocking, int priority) {
  auto made = std::make_unique<Stream>();
  MutexLock lock(&mutex_);
  DefaultStream(device());
  made->id = next_stream_++;
  made->device = device();
  made->blocking = blocking;
  Stream* const stream = made.get();
  RecordStream(*stream, priority);
  streams_[stream] = std::move(made);
  return stream;
}

Stream* Gpu::Find(const void* handle) {
  MutexLock lock(&mutex_);
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return &DefaultStream(device());
  const auto it = streams_.find(handle);
  return it == streams_.end() ? nullptr : it->second.get();
}

// Queued work of the stream continues, because the items do not refer to the stream.
void Gpu::Delete(Stream* stream) {
  MutexLock lock(&mutex_);
  activity_.RemoveObject(ActivityKind::kStream, stream->id);
  streams_.erase(stream);
}

Event* Gpu::NewEvent() {
  auto made = std::make_unique<Event>();
  MutexLock lock(&mutex_);
  Event* const event = made.get();
  event->id = next_event_++;
  events_[event] = std::move(made);
  return event;
}

Event* Gpu::FindEvent(const void* handle) {
  MutexLock lock(&mutex_);
  const auto it = events_.find(handle);
  return it == events_.end() ? nullptr : it->second.get();
}

void Gpu::Delete(Event* event) {
  MutexLock lock(&mutex_);
  events_.erase(event);
}

// Returns the items that the next work of a stream follows: the stream's last item, and those by the rules of
// the default stream.
std::vector<ItemRef> Gpu::Before(const Stream& stream) {
  std::vector<ItemRef> before;
  const auto add = [&](const ItemRef& item) {
    if (item != nullptr) before.push_back(item);
  };
  add(stream.last);
  if (stream.is_default) {
    for (const auto& other : streams_) {
      if (other.second->blocking && other.second->device == stream.device) add(other.second->last);
    }
  } else if (stream.blocking) {
    add(DefaultStream(stream.device).last);
  }
  return before;
}

ItemRef Gpu::MakeItem(const Stream& stream, const Work& work, uint32_t correlation, const GraphPlace& place,
                      std::vector<ItemRef> after) {
  auto item = std::make_shared<Item>();
  item->earliest_start_ns = MonotonicNs() + kLaunchLatencyNs;
  item->duration_ns = work.duration_ns;
  item->after = std::move(after);
  item->effect = work.effect;
  if (work.make_external != nullptr)
    item->external = work.make_external(place.graph == 0 ? Launch::kDirect : Launch::kFromGraph);
  if (work.record_bytes == 0 || place.silent) return item;
  Work told = work;
  const auto fill = [&](auto* r) {
    Fill(*r, stream, correlation);
    r->graph_id = place.graph;
    r->graph_node_id = place.node;
  };
  switch (reinterpret_cast<cupti::Activity*>(told.record.data())->kind) {
    case ActivityKind::kConcurrentKernel:
      fill(reinterpret_cast<cupti::Kernel10*>(told.record.data()));
      break;
    case ActivityKind::kMemcpy:
      fill(reinterpret_cast<cupti::Memcpy6*>(told.record.data()));
      break;
    case ActivityKind::kMemcpyPeer:
      fill(reinterpret_cast<cupti::MemcpyPeer4*>(told.record.data()));
      break;
    case ActivityKind::kMemset:
      fill(reinterpret_cast<cupti::Memset4*>(told.record.data()));
      break;
    default:
      return item;
  }
  uint64_t ticket = 0;
  if (activity_.Launch(told.record.data(), told.record_bytes, &ticket)) {
    item->timed = [this, ticket](const Item& i) { activity_.Finish(ticket, i.start_ns, i.end_ns); };
  }
  return item;
}

void Gpu::Submit(Stream& stream, Work work, uint32_t correlation) {
  MutexLock lock(&mutex_);
  if (stream.capture != nullptr) {
    std::vector<GraphNode>& nodes = stream.capture->graph.nodes;
    nodes.push_back({std::move(work), stream.capture_after});
    stream.capture_after = {nodes.size() - 1};
    return;
  }
  stream.last = MakeItem(stream, work, correlation, {}, Before(stream));
  timeline_.Submit(stream.last);
}

void Gpu::RecordEvent(Stream& stream, Event& event, uint32_t correlation) {
  MutexLock lock(&mutex_);
  event.capture = stream.capture;
  if (stream.capture != nullptr) {
    event.captured_after = stream.capture_after;
    return;
  }
  auto item = std::make_shared<Item>();
  item->earliest_start_ns = MonotonicNs();
  item->after = Before(stream);
  if (activity_.Wants(ActivityKind::kCudaEvent)) {
    cupti::CudaEvent2 record{};
    record.kind = ActivityKind::kCudaEvent;
    record.correlation_id = correlation;
    record.context_id = kSimContextId + static_cast<uint32_t>(stream.device);
    record.stream_id = stream.id;
    record.event_id = event.id;
    record.device_id = static_cast<uint32_t>(stream.device);
    item->timed = [this, record](const Item& i) {
      cupti::CudaEvent2 told = record;
      told.device_timestamp = static_cast<uint64_t>(i.end_ns + RealtimeAheadNs());
      activity_.RecordLater(&told, sizeof told, i.end_ns);
    };
  }
  stream.last = event.recorded = item;
  timeline_.Submit(item);
}

void Gpu::WaitEvent(Stream& stream, const Event& event) {
  MutexLock lock(&mutex_);
  if (event.capture != nullptr) {
    stream.capture = event.capture;
    for (size_t node : event.captured_after) {
      if (std::find(stream.capture_after.begin(), stream.capture_after.end(), node) ==
          stream.capture_after.end())
        stream.capture_after.push_back(node);
    }
    return;
  }
  if (event.recorded == nullptr) return;
  auto item = std::make_shared<Item>();
  item->after = Before(stream);
  item->after.push_back(event.recorded);
  stream.last = item;
  timeline_.Submit(item);
}

void Gpu::Synchronize(Stream& stream) {
  std::vector<ItemRef> before;
  {
    MutexLock lock(&mutex_);
    before = Before(stream);
  }
  for (const ItemRef& item : before) timeline_.Wait(item);
}

bool Gpu::Idle(Stream& stream) {
  std::vector<ItemRef> before;
  {
    MutexLock lock(&mutex_);
    before = Before(stream);
  }
  return std::all_of(before.begin(), before.end(), [this](const ItemRef& i) { return timeline_.Done(i); });
}

ItemRef Gpu::RecordedIn(const Event& event) {
  MutexLock lock(&mutex_);
  return event.recorded;
}

void Gpu::Synchronize(const Event& event) {
  if (const ItemRef item = RecordedIn(event)) timeline_.Wait(item);
}

bool Gpu::Done(const Event& event) {
  const ItemRef item = RecordedIn(event);
  return item == nullptr || timeline_.Done(item);
}

bool Gpu::TimeOf(const Event& event, int64_t* at_ns) {
  const ItemRef item = RecordedIn(event);
  if (item == nullptr || !timeline_.Done(item)) return false;
  *at_ns = item->end_ns;
  return true;
}

bool Gpu::BeginCapture(Stream& stream) {
  MutexLock lock(&mutex_);
  if (stream.is_default || stream.capture != nullptr) return false;
  stream.capture = std::make_shared<Capture>();
  stream.capture->origin = &stream;
  stream.capture_after.clear();
  return true;
}

bool Gpu::Capturing(const Stream& stream) {
  MutexLock lock(&mutex_);
  return stream.capture != nullptr;
}

std::shared_ptr<Graph> Gpu::EndCapture(Stream& stream) {
  MutexLock lock(&mutex_);
  if (stream.capture == nullptr || stream.capture->origin != &stream) return nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  const bool joined = AllJoined(*capture, stream.capture_after);
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
  MutexLock lock(&mutex_);
  made->id = next_graph_++;
  return made;
}

void Gpu::LaunchGraph(const GraphExecutable& graph, Stream& stream, uint32_t correlation) {
  const CuptiSettings* faults = activity_.settings();
  // A graph record replaces the records of the graph's nodes.
  const bool silent = activity_.Wants(ActivityKind::kGraphTrace) ||
                      (graph.before_cupti && faults != nullptr && faults->graph_before_cupti);
  MutexLock lock(&mutex_);
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
  stream.last = MakeGraphEnd(activity_, graph, stream, correlation, items, std::move(last));
  timeline_.Submit(stream.last);
}

int64_t Gpu::KernelNs(const char* name, const KernelShape& shape) {
  MutexLock lock(&mutex_);
  return model_.KernelNs(name, shape);
}

void Gpu::BeforeKernelLaunch() {
  bool stall = false;
  {
    MutexLock lock(&mutex_);
    stall = ++kernel_launches_ == settings_.stall_launch;
  }
  if (!stall) return;
  const timespec t = {settings_.stall_ns / 1'000'000'000, settings_.stall_ns % 1'000'000'000};
  nanosleep(&t, nullptr);
}

}  // namespace lockstep::sim
