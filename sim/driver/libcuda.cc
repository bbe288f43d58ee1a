// A small libcuda.so.1 for programs that call only the driver. It lets such programs of tools/gpu_check run
// without a GPU. No kernel runs: each occupies its stream for the number of cycles in its second parameter,
// and the simulated CUPTI records it. Its times are those of the wall clock, unlike those of
// lockstep-sim-rank.
//
// cuInit loads $CUDA_INJECTION64_PATH, as the driver's does. The simulated CUPTI is $LOCKSTEP_SIM_CUPTI.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/read_clock.h"
#include "sim/cupti/core.h"
#include "wire/foreign/cupti.h"

#define LOCKSTEP_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;

// Values of CUresult.
constexpr int kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3;
constexpr int64_t kNsPerLaunch = 3'000, kNsPerCopy = 2'000;
constexpr int64_t kCyclesPerNs = 2;
constexpr size_t kDeviceBytes = size_t{1} << 30;
constexpr uint32_t kDevice = 0, kFirstStream = 13, kStreams = 64;

// A captured launch.
struct Node {
  cupti::Kernel10 record{};
  int64_t ns = 0;
};
struct Graph {
  std::vector<Node> nodes;
  uint32_t id = 0;            // id of the executable graph; 0 if not instantiated
  bool before_cupti = false;  // instantiated before CUPTI's first use
};

// The handles of streams, events and graphs are numbers cast to pointers. Number 0 is the default stream.
struct Stream {
  int64_t free_at = 0;  // CLOCK_MONOTONIC
  bool capturing = false;
  Graph captured;
};

class Driver {
 public:
  int Init() {
    const char* path = std::getenv("LOCKSTEP_SIM_CUPTI");
    void* library = dlopen(path != nullptr ? path : "liblockstep_sim_cupti.so", RTLD_NOW | RTLD_LOCAL);
    const auto core =
        library == nullptr ? nullptr : reinterpret_cast<SimCoreFn>(dlsym(library, kSimCoreSymbol));
    core_ = core == nullptr ? nullptr : core(kSimCoreVersion);
    if (core_ == nullptr) return kNotInitialized;
    uint32_t streams[kStreams];
    for (uint32_t i = 0; i < kStreams; ++i) streams[i] = kFirstStream + i;
    const SimDevice device{kDevice, "Simulated GPU", streams, kStreams, 1};
    core_->attach(&device);
    LoadInjection();
    return kSuccess;
  }

  uint64_t NewStream() {
    MutexLock lock(&mutex_);
    return ++last_stream_;
  }
  uint64_t NewEvent() {
    MutexLock lock(&mutex_);
    events_[++last_event_] = 0;
    return last_event_;
  }

  // Submits work of `ns` to a stream. Returns its correlation.
  template <typename Record>
  uint32_t Enqueue(uint64_t stream, int64_t ns, Record record) {
    MutexLock lock(&mutex_);
    record.correlation_id = ++correlation_;
    Run(stream, ns, record, core_->wants(record.kind));
    return correlation_;
  }

  // Does the same as Enqueue. While the stream captures, the launch becomes a node and does not run.
  uint32_t Launch(uint64_t stream, int64_t ns, const cupti::Kernel10& record) {
    {
      MutexLock lock(&mutex_);
      Stream& s = streams_[stream];
      if (s.capturing) {
        s.captured.nodes.push_back({record, ns});
        return ++correlation_;
      }
    }
    return Enqueue(stream, ns, record);
  }

  bool BeginCapture(uint64_t stream) {
    MutexLock lock(&mutex_);
    Stream& s = streams_[stream];
    if (stream == 0 || s.capturing) return false;
    s.capturing = true;
    s.captured = {};
    return true;
  }
  bool Destroy(uint64_t graph) {
    MutexLock lock(&mutex_);
    return graphs_.erase(graph) == 1;
  }
  // Returns 0 if the stream was not capturing.
  uint64_t EndCapture(uint64_t stream) {
    MutexLock lock(&mutex_);
    Stream& s = streams_[stream];
    if (!s.capturing) return 0;
    s.capturing = false;
    graphs_[++last_graph_] = std::move(s.captured);
    return last_graph_;
  }
  uint64_t Instantiate(uint64_t graph) {
    MutexLock lock(&mutex_);
    const auto found = graphs_.find(graph);
    if (found == graphs_.end()) return 0;
    Graph made = found->second;
    made.id = static_cast<uint32_t>(++last_graph_);
    made.before_cupti = !core_->used();
    graphs_[last_graph_] = std::move(made);
    return last_graph_;
  }
  // Returns the launch's correlation, or 0 if the executable graph does not exist.
  uint32_t LaunchGraph(uint64_t executable, uint64_t stream) {
    MutexLock lock(&mutex_);
    const auto found = graphs_.find(executable);
    if (found == graphs_.end() || found->second.id == 0) return 0;
    const Graph& graph = found->second;
    const bool silent = graph.before_cupti && core_->settings()->graph_before_cupti;
    ++correlation_;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      cupti::Kernel10 record = graph.nodes[n].record;
      record.graph_id = graph.id;
      record.graph_node_id = (uint64_t{graph.id} << 32) + n + 1;
      record.correlation_id = correlation_;
      Run(stream, graph.nodes[n].ns, record, !silent && core_->wants(record.kind));
    }
    return correlation_;
  }

  void NoteCall(uint32_t cbid, uint32_t correlation, int64_t start_real) {
    const SimCall call{cupti::CallbackDomain::kDriverApi, cbid};
    if (!core_->wants_call(call.domain, call.cbid)) return;
    cupti::Api record{};
    record.kind = ActivityKind::kDriver;
    record.cbid = call.cbid;
    record.start = static_cast<uint64_t>(start_real);
    record.end = static_cast<uint64_t>(ReadClockNs(CLOCK_REALTIME));
    record.process_id = static_cast<uint32_t>(getpid());
    record.thread_id = core_->thread_id();
    record.correlation_id = correlation;
    core_->record(&record, sizeof record, call, start_real, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDeliver);
  }

  void Synchronize(uint64_t stream) {
    int64_t until = 0;
    {
      MutexLock lock(&mutex_);
      until = streams_[stream].free_at;
    }
    for (int64_t left = until - ReadClockNs(CLOCK_MONOTONIC); left > 0;
         left = until - ReadClockNs(CLOCK_MONOTONIC)) {
      const timespec t = {left / 1'000'000'000, left % 1'000'000'000};
      nanosleep(&t, nullptr);
    }
    core_->pump(ReadClockNs(CLOCK_MONOTONIC));
  }

  void RecordEvent(uint64_t event, uint64_t stream) {
    MutexLock lock(&mutex_);
    events_[event] = std::max(ReadClockNs(CLOCK_MONOTONIC), streams_[stream].free_at);
  }
  int64_t EventTime(uint64_t event) {
    MutexLock lock(&mutex_);
    return events_[event];
  }
  bool ready() const { return core_ != nullptr; }
  void CreateContext() { has_context_.store(true); }
  bool has_context() const { return has_context_.load(); }

 private:
  // Runs the work as soon as the stream is free.
  template <typename Record>
  void Run(uint64_t stream, int64_t ns, Record record, bool recorded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const int64_t mono = ReadClockNs(CLOCK_MONOTONIC), real = ReadClockNs(CLOCK_REALTIME) - mono;
    const int64_t start = std::max(mono + kNsPerLaunch, streams_[stream].free_at);
    streams_[stream].free_at = start + ns;
    if (!recorded) return;
    record.device_id = kDevice;
    record.context_id = kSimContextId;
    record.stream_id = kFirstStream + static_cast<uint32_t>(stream);
    core_->complete(core_->launch(&record, sizeof record), real + start, real + start + ns, start + ns,
                    Delivery::kDeliver);
  }

  static void LoadInjection() {
    const char* path = std::getenv("CUDA_INJECTION64_PATH");
    void* library = path == nullptr || *path == '\0' ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto initialize =
        reinterpret_cast<cupti::InitializeInjectionFn>(dlsym(library, "InitializeInjection"));
    if (initialize != nullptr) initialize();
  }

  const SimCore* core_ = nullptr;  // set before Init() returns
  std::atomic<bool> has_context_{false};
  Mutex mutex_;
  std::map<uint64_t, Stream> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, int64_t> events_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Graph> graphs_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_stream_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_event_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_graph_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t correlation_ ABSL_GUARDED_BY(mutex_) = 0;
};

Driver& TheDriver() {
  static Driver* driver = new Driver;  // outlives every thread of the program
  return *driver;
}

uint64_t Number(const void* handle) { return reinterpret_cast<uint64_t>(handle); }

int StoreHandle(void** out, uint64_t number) {
  *out = reinterpret_cast<void*>(number);
  return kSuccess;
}

}  // namespace
}  // namespace lockstep::sim

using namespace lockstep::sim;

LOCKSTEP_SIM_EXPORT int cuInit(unsigned) { return TheDriver().Init(); }
LOCKSTEP_SIM_EXPORT int cuGetErrorString(int code, const char** text) {
  *text = code == kNotInitialized ? "initialization error" : "simulated error";
  return kSuccess;
}
LOCKSTEP_SIM_EXPORT int cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
LOCKSTEP_SIM_EXPORT int cuDeviceGet(int* device, int number) {
  if (!TheDriver().ready()) return kNotInitialized;
  *device = number;
  return number == 0 ? kSuccess : kInvalidValue;
}
LOCKSTEP_SIM_EXPORT int cuDeviceGetCount(int* count) {
  if (!TheDriver().ready()) return kNotInitialized;
  return *count = 1, kSuccess;
}
LOCKSTEP_SIM_EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  TheDriver().CreateContext();
  return StoreHandle(context, 1);
}
LOCKSTEP_SIM_EXPORT int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  if (!TheDriver().ready()) return kNotInitialized;
  return *flags = 0, *active = TheDriver().has_context() ? 1 : 0, kSuccess;
}
LOCKSTEP_SIM_EXPORT int cuCtxSetCurrent(void* context) {
  return context == nullptr ? kInvalidValue : kSuccess;
}
LOCKSTEP_SIM_EXPORT int cuModuleLoadData(void** module, const void* image) {
  return image == nullptr ? kInvalidValue : StoreHandle(module, 1);
}
LOCKSTEP_SIM_EXPORT int cuModuleGetFunction(void** function, void*, const char*) {
  return StoreHandle(function, 1);
}
LOCKSTEP_SIM_EXPORT int cuMemAlloc_v2(uint64_t* memory, size_t bytes) {
  *memory = Number(std::calloc(1, bytes));
  return *memory == 0 ? kInvalidValue : kSuccess;
}
// Allocations use host memory, so that all device memory is always free.
LOCKSTEP_SIM_EXPORT int cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  *free_bytes = *total_bytes = kDeviceBytes;
  return kSuccess;
}
LOCKSTEP_SIM_EXPORT int cuStreamCreate(void** stream, unsigned) {
  return StoreHandle(stream, TheDriver().NewStream());
}
LOCKSTEP_SIM_EXPORT int cuEventCreate(void** event, unsigned) {
  return StoreHandle(event, TheDriver().NewEvent());
}

LOCKSTEP_SIM_EXPORT int cuMemcpyHtoDAsync_v2(uint64_t, const void* from, size_t bytes, void* stream) {
  if (from == nullptr) return kInvalidValue;
  cupti::Memcpy6 record{};
  record.kind = ActivityKind::kMemcpy;
  record.copy_kind = static_cast<uint8_t>(cupti::MemcpyKind::kHostToDevice);
  record.src_kind = static_cast<uint8_t>(cupti::MemoryKind::kPageable);
  record.dst_kind = static_cast<uint8_t>(cupti::MemoryKind::kDevice);
  record.flags = cupti::kMemcpyFlagAsync;
  record.bytes = bytes;
  record.copy_count = 1;
  TheDriver().Enqueue(Number(stream), kNsPerCopy, record);
  return kSuccess;
}

LOCKSTEP_SIM_EXPORT int cuMemsetD8Async(uint64_t, uint8_t value, size_t bytes, void* stream) {
  cupti::Memset4 record{};
  record.kind = ActivityKind::kMemset;
  record.value = value;
  record.bytes = bytes;
  record.flags = cupti::kMemsetFlagAsync;
  record.memory_kind = static_cast<uint16_t>(cupti::MemoryKind::kDevice);
  TheDriver().Enqueue(Number(stream), kNsPerCopy, record);
  return kSuccess;
}

LOCKSTEP_SIM_EXPORT int cuLaunchKernel(void*, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                                       void* stream, void** parameters, void**) {
  const int64_t start_real = lockstep::ReadClockNs(CLOCK_REALTIME);
  cupti::Kernel10 record{};
  record.kind = ActivityKind::kConcurrentKernel;
  record.grid_x = static_cast<int32_t>(grid_x);
  record.grid_y = static_cast<int32_t>(grid_y);
  record.grid_z = static_cast<int32_t>(grid_z);
  record.block_x = static_cast<int32_t>(block_x);
  record.block_y = static_cast<int32_t>(block_y);
  record.block_z = static_cast<int32_t>(block_z);
  record.name = "lockstep_probe";
  const auto cycles = static_cast<int64_t>(*static_cast<const uint64_t*>(parameters[1]));
  const int64_t ns = std::max<int64_t>(cycles / kCyclesPerNs, 1'000);
  TheDriver().NoteCall(cupti::driver_cbid::kLaunchKernel, TheDriver().Launch(Number(stream), ns, record),
                       start_real);
  return kSuccess;
}

LOCKSTEP_SIM_EXPORT int cuStreamBeginCapture_v2(void* stream, int) {
  return TheDriver().BeginCapture(Number(stream)) ? kSuccess : kInvalidValue;
}
LOCKSTEP_SIM_EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  const uint64_t made = TheDriver().EndCapture(Number(stream));
  return made == 0 ? kInvalidValue : StoreHandle(graph, made);
}
LOCKSTEP_SIM_EXPORT int cuGraphInstantiateWithFlags(void** executable, void* graph, uint64_t) {
  const uint64_t made = TheDriver().Instantiate(Number(graph));
  return made == 0 ? kInvalidValue : StoreHandle(executable, made);
}
LOCKSTEP_SIM_EXPORT int cuGraphDestroy(void* graph) {
  return TheDriver().Destroy(Number(graph)) ? kSuccess : kInvalidValue;
}
LOCKSTEP_SIM_EXPORT int cuGraphExecDestroy(void* executable) {
  return TheDriver().Destroy(Number(executable)) ? kSuccess : kInvalidValue;
}
LOCKSTEP_SIM_EXPORT int cuGraphLaunch(void* executable, void* stream) {
  const int64_t start_real = lockstep::ReadClockNs(CLOCK_REALTIME);
  const uint32_t correlation = TheDriver().LaunchGraph(Number(executable), Number(stream));
  if (correlation == 0) return kInvalidValue;
  TheDriver().NoteCall(cupti::driver_cbid::kGraphLaunch, correlation, start_real);
  return kSuccess;
}

LOCKSTEP_SIM_EXPORT int cuStreamSynchronize(void* stream) {
  TheDriver().Synchronize(Number(stream));
  return kSuccess;
}
LOCKSTEP_SIM_EXPORT int cuEventRecord(void* event, void* stream) {
  TheDriver().RecordEvent(Number(event), Number(stream));
  return kSuccess;
}
LOCKSTEP_SIM_EXPORT int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  *milliseconds = static_cast<float>(
      static_cast<double>(TheDriver().EventTime(Number(end)) - TheDriver().EventTime(Number(begin))) / 1e6);
  return kSuccess;
}
