// The simulated GPUs of one process: devices, streams, events, memory and graphs over one timeline. The
// simulated libcudart and libnccl share it, and it reports its work to CUPTI. Any thread may call it. Handles
// are checked. Times are CLOCK_MONOTONIC nanoseconds.
#ifndef LOCKSTEP_SIM_DEVICE_GPU_H_
#define LOCKSTEP_SIM_DEVICE_GPU_H_

#include <pthread.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "base/mutex.h"
#include "sim/device/activity.h"
#include "sim/device/device_settings.h"
#include "sim/device/host_callbacks.h"
#include "sim/device/kernel_model.h"
#include "sim/device/memory.h"
#include "sim/device/timeline.h"

namespace lockstep::sim {

// A collective is launched directly on a stream, or by each launch of a graph that contains it.
enum class Launch { kDirect, kFromGraph };

// One piece of device work. It can be submitted several times.
struct Work {
  using Record = std::array<uint8_t, kMaxRecordBytes>;
  alignas(
      8) Record record{};  // submission fills in the device and later ids; kind kInvalid means not recorded
  size_t record_bytes = 0;
  int64_t duration_ns = 0;
  std::function<void()> effect;
  std::function<std::shared_ptr<ExternalCompletion>(Launch)> make_external;

  template <typename R>
  R& Make(foreign::cupti::ActivityKind kind) {
    record_bytes = sizeof(R);
    R& r = *new (record.data()) R{};
    r.kind = kind;
    return r;
  }
};

struct Capture;  // graph.h
struct Graph;

struct Stream {
  uint32_t id = 0;
  int device = 0;
  bool blocking = true;  // waits for the default stream, and the default stream for it
  bool is_default = false;
  ItemRef last;
  std::shared_ptr<Capture> capture;   // set during a capture
  std::vector<size_t> capture_after;  // predecessors of the next captured node
};

struct Event {
  ItemRef recorded;  // null if it was never recorded, which counts as done
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captured_after;
  uint32_t id = 0;
};

struct GraphExecutable;

class Gpu {
 public:
  explicit Gpu(const DeviceSettings& knobs);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  Activity& activity() { return activity_; }
  Timeline& timeline() { return timeline_; }
  Memory& memory() { return memory_; }
  HostCallbacks& host_callbacks() { return host_callbacks_; }
  const KernelModel& model() const { return model_; }
  int64_t KernelNs(const char* name, const KernelShape& shape);
  const DeviceSettings& settings() const { return settings_; }

  // Returns the calling thread's device. SetDevice creates its context.
  int device() const;
  bool SetDevice(int device);

  // Streams and events. Find functions return null for an invalid handle. The handles 0, 1 and 2 refer to the
  // default stream.
  Stream* NewStream(bool blocking, int priority);
  Stream* Find(const void* handle);
  void Delete(Stream* stream);
  Event* NewEvent();
  Event* FindEvent(const void* handle);
  void Delete(Event* event);

  // Appends to a stream, or to the graph that the stream is being captured into.
  void Submit(Stream& stream, Work work, uint32_t correlation);
  void RecordEvent(Stream& stream, Event& event, uint32_t correlation);
  void WaitEvent(Stream& stream, const Event& event);
  void Synchronize(Stream& stream);
  bool Idle(Stream& stream);
  void Synchronize(const Event& event);
  bool Done(const Event& event);
  // Returns the time at which the device reached an event that is done. Returns false if it was never
  // recorded.
  bool TimeOf(const Event& event, int64_t* at_ns);
  void SynchronizeAll() { timeline_.WaitForAll(); }

  bool BeginCapture(Stream& stream);
  bool Capturing(const Stream& stream);
  // Returns null if the capture began on another stream, or if a forked stream was not joined.
  std::shared_ptr<Graph> EndCapture(Stream& stream);
  std::shared_ptr<GraphExecutable> Instantiate(const Graph& graph);
  void LaunchGraph(const GraphExecutable& graph, Stream& stream, uint32_t correlation);

  // Counts a kernel launch, and stalls the host if the settings demand it for this launch.
  void BeforeKernelLaunch();

 private:
  struct GraphPlace {
    uint32_t graph = 0;
    uint64_t node = 0;
    bool silent = false;  // CUPTI gets no record
  };
  ItemRef MakeItem(const Stream& stream, const Work& work, uint32_t correlation, const GraphPlace& place,
                   std::vector<ItemRef> after);
  std::vector<ItemRef> Before(const Stream& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the context at the first call.
  Stream& DefaultStream(int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordStream(const Stream& stream, int priority);
  ItemRef RecordedIn(const Event& event);

  const DeviceSettings settings_;
  // The device of each thread. It is not thread_local, because each of the libraries that share a Gpu would
  // have its own copy.
  pthread_key_t device_key_;  // set before the constructor returns

  // thread-safe
  Activity activity_;
  Memory memory_;
  HostCallbacks host_callbacks_;

  Mutex mutex_;  // also guards the streams, events and captures
  KernelModel model_ ABSL_GUARDED_BY(mutex_);
  std::map<int, std::unique_ptr<Stream>> default_streams_ ABSL_GUARDED_BY(mutex_);
  std::map<const void*, std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<const void*, std::unique_ptr<Event>> events_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_stream_ ABSL_GUARDED_BY(mutex_) = 13;
  uint32_t next_event_ ABSL_GUARDED_BY(mutex_) = 1;
  uint32_t next_graph_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t kernel_launches_ ABSL_GUARDED_BY(mutex_) = 0;

  Timeline timeline_;  // thread-safe; last, because its thread uses the other members
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_GPU_H_
