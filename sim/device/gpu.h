// The simulated GPUs of one process: devices, streams, events, memory, graphs over one timeline, told to
// CUPTI. What libcudart's and libnccl's stand-ins share. Any thread; handles are checked. Times are
// CLOCK_MONOTONIC nanoseconds.
#ifndef LOCKSTEP_SIM_DEVICE_GPU_H_
#define LOCKSTEP_SIM_DEVICE_GPU_H_

#include <pthread.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "sim/device/activity.h"
#include "sim/device/device_settings.h"
#include "sim/device/host_callbacks.h"
#include "sim/device/kernel_model.h"
#include "sim/device/memory.h"
#include "sim/device/timeline.h"

namespace lockstep::sim {

// Whether a collective is made for a stream, or each time a graph with it is launched.
enum class Launch { kDirect, kFromGraph };

// One piece of device work, as often as it is submitted.
struct Work {
  using Record = std::array<uint8_t, kMaxRecordBytes>;
  alignas(
      8) Record record{};  // device and later ids are filled in; its kind is kInvalid when CUPTI is not told
  size_t record_bytes = 0;
  int64_t duration_ns = 0;
  std::function<void()> effect;
  std::function<std::shared_ptr<Remote>(Launch)> make_remote;

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
  bool blocking = true;  // waits for the default stream, and it for this one
  bool is_default = false;
  ItemRef last;
  std::shared_ptr<Capture> capture;   // while it is being captured
  std::vector<size_t> capture_after;  // the nodes that the next one follows
};

struct Event {
  ItemRef recorded;  // null: never, which counts as over
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captured_after;
  uint32_t id = 0;
};

struct GraphExecutable;

class Gpu {
 public:
  explicit Gpu(const DeviceKnobs& knobs);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  Activity& activity() { return activity_; }
  Timeline& timeline() { return timeline_; }
  Memory& memory() { return memory_; }
  HostCallbacks& host_callbacks() { return host_callbacks_; }
  const KernelModel& model() const { return model_; }
  int64_t KernelNs(const char* name, const KernelShape& shape);
  const DeviceKnobs& knobs() const { return knobs_; }

  // The calling thread's device. SetDevice makes its context.
  int device() const;
  bool SetDevice(int device);

  // Streams and events; null where a handle is none. Handle 0, 1 and 2 are the default stream.
  Stream* NewStream(bool blocking, int priority);
  Stream* Find(const void* handle);
  void Delete(Stream* stream);
  Event* NewEvent();
  Event* FindEvent(const void* handle);
  void Delete(Event* event);

  // At the end of a stream, or of the graph that it is being captured into.
  void Submit(Stream& stream, Work work, uint32_t correlation);
  void RecordEvent(Stream& stream, Event& event, uint32_t correlation);
  void WaitEvent(Stream& stream, const Event& event);
  void Synchronize(Stream& stream);
  bool Idle(Stream& stream);
  void Synchronize(const Event& event);
  bool Done(const Event& event);
  // When the device came to it; only of one that is done. False: it was never recorded.
  bool TimeOf(const Event& event, int64_t* at_ns);
  void SynchronizeAll() { timeline_.WaitForAll(); }

  bool BeginCapture(Stream& stream);
  bool Capturing(const Stream& stream);
  // Null when the stream is not the one that the capture began on, or others were not joined.
  std::shared_ptr<Graph> EndCapture(Stream& stream);
  std::shared_ptr<GraphExecutable> Instantiate(const Graph& graph);
  void LaunchGraph(const GraphExecutable& graph, Stream& stream, uint32_t correlation);

  // The kernel launch that is being counted; stalls the host where the knobs say so.
  void BeforeKernelLaunch();

 private:
  struct GraphPlace {
    uint32_t graph = 0;
    uint64_t node = 0;
    bool silent = false;  // CUPTI is not told
  };
  ItemRef MakeItem(const Stream& stream, const Work& work, uint32_t correlation, const GraphPlace& place,
                   std::vector<ItemRef> after);
  std::vector<ItemRef> Before(const Stream& stream);
  Stream& DefaultStream(int device);  // makes the context at the first call
  void TellOfStream(const Stream& stream, int priority);
  ItemRef MakeGraphEnd(const GraphExecutable& graph, const Stream& stream, uint32_t correlation,
                       const std::vector<ItemRef>& items, std::vector<ItemRef> after);

  ItemRef RecordedIn(const Event& event);

  const DeviceKnobs knobs_;
  // The device of each thread. No thread_local: several libraries use one Gpu, and each would have its own.
  pthread_key_t device_key_;
  Activity activity_;
  KernelModel model_;
  Memory memory_;
  HostCallbacks host_callbacks_;
  std::mutex mutex_;  // everything below
  std::map<int, std::unique_ptr<Stream>> default_streams_;
  std::map<const void*, std::unique_ptr<Stream>> streams_;
  std::map<const void*, std::unique_ptr<Event>> events_;
  uint32_t next_stream_ = 13;
  uint32_t next_event_ = 1;
  uint32_t next_graph_ = 1;
  uint64_t kernel_launches_ = 0;
  Timeline timeline_;  // last: its thread uses the others
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_GPU_H_
