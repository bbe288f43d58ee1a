// Tests the simulated libcudart as a program calls it, and the simulated libcupti as a tool observes that
// program. The tests run in real time and wait for milliseconds.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "wire/foreign/cuda_runtime.h"
#include "wire/foreign/cupti.h"

namespace lockstep::sim {
namespace {

using namespace foreign::cudart;
namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;

constexpr char kName[] = "_Z4testv";
char g_kernel;  // its address serves as the host function

const bool g_registered = [] {
  void** handle = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterFunction(handle, &g_kernel, nullptr, kName, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterFatBinaryEnd(handle);
  return true;
}();

cudaError_t LaunchTest(cudaStream_t stream) {
  return cudaLaunchKernel(&g_kernel, dim3(4), dim3(256), nullptr, 0, stream);
}

lockstep::Mutex g_mutex;
std::vector<std::vector<uint8_t>> g_buffers ABSL_GUARDED_BY(g_mutex);

void Requested(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *max_records = 0;
  *bytes = 1 << 16;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *bytes));
}
void Completed(cupti::Context, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  lockstep::MutexLock lock(&g_mutex);
  g_buffers.emplace_back(buffer, buffer + valid);
  free(buffer);
}

class SimCudart : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(g_registered);
    // Each kernel takes 25 ms, so that work stays in flight long enough to observe it.
    setenv("SIMGPU_KERNELS", "test*=25ms", 1);
    library_ = dlopen(LOCKSTEP_SIM_STACK_CUPTI, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  void SetUp() override {
    {
      lockstep::MutexLock lock(&g_mutex);
      g_buffers.clear();
    }
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&device_, 4096), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&pinned_, 4096), cudaSuccess);
  }
  void TearDown() override {
    for (ActivityKind kind : enabled_) Find<cupti::ActivityDisableFn>("cuptiActivityDisable")(kind);
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  template <typename Fn>
  static Fn Find(const char* name) {
    void* symbol = dlsym(library_, name);
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<Fn>(symbol);
  }
  void Enable(std::initializer_list<ActivityKind> kinds) {
    EXPECT_EQ(
        Find<cupti::ActivityRegisterCallbacksFn>("cuptiActivityRegisterCallbacks")(Requested, Completed),
        Result::kSuccess);
    for (ActivityKind kind : kinds) {
      EXPECT_EQ(Find<cupti::ActivityEnableFn>("cuptiActivityEnable")(kind), Result::kSuccess);
      enabled_.push_back(kind);
    }
  }
  template <typename Record>
  std::vector<Record> All(ActivityKind kind) {
    Find<cupti::ActivityFlushAllFn>("cuptiActivityFlushAll")(0);
    const auto next = Find<cupti::ActivityGetNextRecordFn>("cuptiActivityGetNextRecord");
    std::vector<Record> found;
    lockstep::MutexLock lock(&g_mutex);
    for (auto& buffer : g_buffers) {
      cupti::Activity* record = nullptr;
      while (next(buffer.data(), buffer.size(), &record) == Result::kSuccess) {
        if (record->kind == kind) found.push_back(*reinterpret_cast<Record*>(record));
      }
    }
    return found;
  }
  std::vector<cupti::Kernel10> Kernels() { return All<cupti::Kernel10>(ActivityKind::kConcurrentKernel); }

  static void* library_;
  std::vector<ActivityKind> enabled_;
  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
};
void* SimCudart::library_ = nullptr;

TEST_F(SimCudart, AKernelsRecordsShareCorrelationAndPushedId) {
  Enable({ActivityKind::kExternalCorrelation, ActivityKind::kRuntime, ActivityKind::kDriver,
          ActivityKind::kConcurrentKernel});
  Find<cupti::ActivityPushExternalCorrelationIdFn>("cuptiActivityPushExternalCorrelationId")(
      cupti::ExternalCorrelationKind::kCustom2, 77);
  ASSERT_EQ(LaunchTest(stream_), cudaSuccess);
  Find<cupti::ActivityPopExternalCorrelationIdFn>("cuptiActivityPopExternalCorrelationId")(
      cupti::ExternalCorrelationKind::kCustom2, nullptr);
  EXPECT_TRUE(Kernels().empty()) << "it is still running";
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  const auto kernels = Kernels();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_STREQ(kernels[0].name, kName);
  EXPECT_EQ(kernels[0].end - kernels[0].start, 25'000'000u);
  EXPECT_EQ(kernels[0].grid_x, 4);
  const auto ids = All<cupti::ExternalCorrelation>(ActivityKind::kExternalCorrelation);
  ASSERT_EQ(ids.size(), 1u) << "once, though two calls carry the correlation";
  EXPECT_EQ(ids[0].external_id, 77u);
  EXPECT_EQ(ids[0].correlation_id, kernels[0].correlation_id);
  const auto launches = [&](ActivityKind kind, uint32_t cbid) {
    const auto calls = All<cupti::Api>(kind);
    return std::count_if(calls.begin(), calls.end(), [&](const cupti::Api& a) {
      return a.cbid == cbid && a.correlation_id == kernels[0].correlation_id && a.start < kernels[0].start;
    });
  };
  EXPECT_EQ(launches(ActivityKind::kRuntime, cupti::runtime_cbid::kLaunchKernel), 1);
  EXPECT_EQ(launches(ActivityKind::kDriver, cupti::driver_cbid::kLaunchKernel), 1);
}

TEST_F(SimCudart, StreamsRunConcurrentlyAndEventsOrderThem) {
  Enable({ActivityKind::kConcurrentKernel, ActivityKind::kCudaEvent});
  cudaStream_t other = nullptr;
  cudaEvent_t before = nullptr, after = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&before), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&after), cudaSuccess);
  ASSERT_EQ(LaunchTest(stream_), cudaSuccess);
  ASSERT_EQ(LaunchTest(other), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(before, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(before), cudaErrorNotReady);
  ASSERT_EQ(cudaStreamWaitEvent(other, before, 0), cudaSuccess);
  ASSERT_EQ(LaunchTest(other), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(after, other), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(after), cudaSuccess);
  const auto kernels = Kernels();
  ASSERT_EQ(kernels.size(), 3u);
  uint64_t first_end = 0, last_start = 0, latest_first_start = 0;
  for (const auto& k : kernels) last_start = std::max(last_start, k.start);
  for (const auto& k : kernels) {
    if (k.start == last_start) continue;
    first_end = std::max(first_end, k.end);
    latest_first_start = std::max(latest_first_start, k.start);
  }
  EXPECT_LT(latest_first_start + 1'000'000, first_end) << "the first two overlap";
  EXPECT_GE(last_start + 1'000, first_end) << "CUPTI's two clocks may differ by less than that";
  float ms = 0;
  ASSERT_EQ(cudaEventElapsedTime(&ms, before, after), cudaSuccess);
  EXPECT_GE(ms, 24.9f);
  EXPECT_EQ(All<cupti::CudaEvent2>(ActivityKind::kCudaEvent).size(), 2u);
  EXPECT_EQ(cudaEventDestroy(before), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(after), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

TEST_F(SimCudart, TheDefaultStreamWaitsForBlockingStreamsOnly) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  ASSERT_EQ(LaunchTest(stream_), cudaSuccess);
  ASSERT_EQ(LaunchTest(stream_), cudaSuccess);
  ASSERT_EQ(LaunchTest(stream_), cudaSuccess);
  ASSERT_EQ(LaunchTest(blocking), cudaSuccess);
  ASSERT_EQ(LaunchTest(nullptr), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(blocking), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_F(SimCudart, CopiesAndSetsRunInOrderAndAreRecordedWithTheirKind) {
  Enable({ActivityKind::kMemcpy, ActivityKind::kMemset, ActivityKind::kSynchronization});
  std::vector<uint8_t> pageable(4096, 5), back(4096, 0);
  ASSERT_EQ(LaunchTest(stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(device_, pageable.data(), 4096, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  std::fill(pageable.begin(), pageable.end(), 9);  // too late: the copy has already staged the source
  ASSERT_EQ(cudaMemcpyAsync(pinned_, device_, 4096, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(static_cast<uint8_t*>(pinned_)[0], 0) << "the kernel before it still runs";
  ASSERT_EQ(cudaMemsetAsync(device_, 6, 100, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(back.data(), device_, 4096, cudaMemcpyDefault, stream_), cudaSuccess);
  EXPECT_EQ(back[99], 6) << "a copy to pageable memory is over when the call returns";
  EXPECT_EQ(back[100], 5);
  EXPECT_EQ(static_cast<uint8_t*>(pinned_)[0], 5);
  std::map<int, int> kinds;
  for (const auto& c : All<cupti::Memcpy6>(ActivityKind::kMemcpy)) ++kinds[c.copy_kind];
  EXPECT_EQ(kinds, (std::map<int, int>{{1, 1}, {2, 2}}));
  const auto sets = All<cupti::Memset4>(ActivityKind::kMemset);
  ASSERT_EQ(sets.size(), 1u);
  EXPECT_EQ(sets[0].bytes, 100u);
  EXPECT_EQ(sets[0].value, 6u);
  EXPECT_FALSE(All<cupti::Synchronization2>(ActivityKind::kSynchronization).empty());
}

class Graphs : public SimCudart {
 protected:
  cudaGraphExec_t Capture() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(LaunchTest(stream_), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(device_, 3, 4096, stream_), cudaSuccess);
    EXPECT_EQ(LaunchTest(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    return executable;
  }
};

TEST_F(Graphs, EachLaunchRecordsItsNodes) {
  Enable({ActivityKind::kConcurrentKernel, ActivityKind::kMemset, ActivityKind::kRuntime});
  cudaGraphExec_t executable = Capture();
  EXPECT_TRUE(Kernels().empty()) << "a capture runs nothing";
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  const auto kernels = Kernels();
  ASSERT_EQ(kernels.size(), 4u);
  EXPECT_NE(kernels[0].graph_id, 0u);
  EXPECT_EQ(kernels[0].graph_id, kernels[3].graph_id);
  EXPECT_NE(kernels[0].graph_node_id, kernels[1].graph_node_id);
  EXPECT_EQ(kernels[0].graph_node_id, kernels[2].graph_node_id) << "the same node of the next launch";
  EXPECT_EQ(kernels[0].correlation_id, kernels[1].correlation_id);
  EXPECT_NE(kernels[0].correlation_id, kernels[2].correlation_id);
  EXPECT_EQ(All<cupti::Memset4>(ActivityKind::kMemset).size(), 2u);
  const auto calls = All<cupti::Api>(ActivityKind::kRuntime);
  EXPECT_EQ(std::count_if(calls.begin(), calls.end(),
                          [&](const cupti::Api& a) {
                            return a.cbid == cupti::runtime_cbid::kGraphLaunch &&
                                   a.correlation_id == kernels[0].correlation_id;
                          }),
            1);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

TEST_F(Graphs, AGraphsRecordReplacesThoseOfItsNodes) {
  Enable({ActivityKind::kConcurrentKernel, ActivityKind::kGraphTrace});
  cudaGraphExec_t executable = Capture();
  ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(Kernels().empty());
  const auto graphs = All<cupti::GraphTrace2>(ActivityKind::kGraphTrace);
  ASSERT_EQ(graphs.size(), 1u);
  EXPECT_GE(graphs[0].end - graphs[0].start, 50'000'000u);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
}

TEST_F(Graphs, AnUnjoinedForkIsAnError) {
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  for (bool join : {true, false}) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaSuccess);
    ASSERT_EQ(LaunchTest(stream_), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
    ASSERT_EQ(LaunchTest(other), cudaSuccess);
    if (join) {
      ASSERT_EQ(cudaEventRecord(event, other), cudaSuccess);
      ASSERT_EQ(cudaStreamWaitEvent(stream_, event, 0), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), join ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
}

// NVIDIA's own parser, if it is installed, walks the records of a whole program.
TEST_F(Graphs, TheRealLibraryParsesAProgramsRecords) {
  std::string path = "/usr/local/cuda/lib64/libcupti.so.13";
  if (access(path.c_str(), R_OK) != 0) path = "/usr/local/cuda/lib/libcupti.so.13";
  void* real = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (real == nullptr) printf("no real libcupti here: only our own parser walks the records\n");
  Enable({ActivityKind::kExternalCorrelation, ActivityKind::kRuntime, ActivityKind::kDriver,
          ActivityKind::kMemcpy, ActivityKind::kMemset, ActivityKind::kConcurrentKernel,
          ActivityKind::kSynchronization, ActivityKind::kCudaEvent, ActivityKind::kStream});
  cudaGraphExec_t executable = Capture();
  cudaEvent_t event = nullptr;
  cudaStream_t other = nullptr;
  void* peer = nullptr;
  ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&other), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&peer, 4096), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned_, device_, 4096, cudaMemcpyDefault, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeerAsync(peer, 1, device_, 0, 4096, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(All<cupti::MemcpyPeer4>(ActivityKind::kMemcpyPeer).size(), 0u) << "nobody asked";
  const auto ours = Find<cupti::ActivityGetNextRecordFn>("cuptiActivityGetNextRecord");
  const auto theirs =
      real == nullptr
          ? ours
          : reinterpret_cast<cupti::ActivityGetNextRecordFn>(dlsym(real, "cuptiActivityGetNextRecord"));
  std::map<ActivityKind, int> kinds;
  lockstep::MutexLock lock(&g_mutex);
  for (auto& buffer : g_buffers) {
    cupti::Activity *a = nullptr, *b = nullptr;
    while (ours(buffer.data(), buffer.size(), &a) == Result::kSuccess) {
      ASSERT_EQ(theirs(buffer.data(), buffer.size(), &b), Result::kSuccess);
      ASSERT_EQ(a, b);
      ++kinds[a->kind];
    }
    EXPECT_EQ(theirs(buffer.data(), buffer.size(), &b), Result::kMaxLimitReached);
  }
  EXPECT_EQ(kinds.size(), 8u) << "all kinds but external correlations, of which none was pushed";
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_EQ(cudaFree(peer), cudaSuccess);
}

// CUPTI reads the fault when it is loaded, and its first use cannot be undone. The test therefore needs a
// process of its own.
TEST_F(Graphs, AGraphOlderThanCuptiRecordsNothingOnRequest) {
  if (getenv("SIMGPU_CUPTI_FAULTS") == nullptr) {
    char self[4096] = {};
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    const std::string command =
        "SIMGPU_CUPTI_FAULTS=graph_before_cupti '" + std::string(self) +
        "' --gtest_filter=Graphs.AGraphOlderThanCuptiRecordsNothingOnRequest > /dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return;
  }
  cudaGraphExec_t before = Capture();
  Enable({ActivityKind::kConcurrentKernel});
  cudaGraphExec_t after = Capture();
  ASSERT_EQ(cudaGraphLaunch(before, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(Kernels().empty());
  ASSERT_EQ(cudaGraphLaunch(after, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(Kernels().size(), 2u);
  EXPECT_EQ(cudaGraphExecDestroy(before), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(after), cudaSuccess);
}

TEST_F(SimCudart, WrongArgumentsReturnCudasErrorsAndTheLastIsKept) {
  cudaGetLastError();
  EXPECT_EQ(cudaLaunchKernel("no kernel", dim3(1), dim3(1), nullptr, 0, stream_),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaLaunchKernel(&g_kernel, dim3(1), dim3(2048), nullptr, 0, stream_),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(0x1234)), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaFree(&g_kernel), cudaErrorInvalidValue);
  EXPECT_EQ(cudaSetDevice(1000), cudaErrorInvalidDevice);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
  cudaGetLastError();
}

TEST_F(SimCudart, HostFunctionsRunInOrderOnASeparateThread) {
  struct Seen {
    std::thread::id thread;
    bool ran = false;
  } seen;
  ASSERT_EQ(LaunchTest(stream_), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(
                stream_,
                [](void* data) {
                  usleep(1000);
                  *static_cast<Seen*>(data) = {std::this_thread::get_id(), true};
                },
                &seen),
            cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_TRUE(seen.ran);
  EXPECT_NE(seen.thread, std::this_thread::get_id());
}

TEST_F(SimCudart, ALateSubscriberReceivesDevicesStreamsAndContexts) {
  Enable({});
  const auto dump = Find<cupti::ActivityEnableAndDumpFn>("cuptiActivityEnableAndDump");
  for (ActivityKind kind : {ActivityKind::kDevice, ActivityKind::kContext, ActivityKind::kStream}) {
    EXPECT_EQ(dump(kind), Result::kSuccess);
    enabled_.push_back(kind);
  }
  EXPECT_EQ(All<cupti::Device5>(ActivityKind::kDevice).size(), 8u);
  EXPECT_GE(All<cupti::Context3>(ActivityKind::kContext).size(), 1u);
  uint32_t id = 0;
  EXPECT_EQ(Find<cupti::GetStreamIdExFn>("cuptiGetStreamIdEx")(nullptr, stream_, 0, &id), Result::kSuccess);
  const auto streams = All<cupti::Stream>(ActivityKind::kStream);
  EXPECT_EQ(std::count_if(streams.begin(), streams.end(),
                          [&](const cupti::Stream& s) { return s.stream_id == id; }),
            1);
}

TEST_F(SimCudart, RecordsAllocationAndReleaseOfMemory) {
  Enable({ActivityKind::kMemory, ActivityKind::kRuntime});
  void *plain = nullptr, *pooled = nullptr;
  ASSERT_EQ(cudaMalloc(&plain, 4096), cudaSuccess);
  ASSERT_EQ(cudaMallocAsync(&pooled, 8192, stream_), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(pooled, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  ASSERT_EQ(cudaFree(plain), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&plain, 0), cudaSuccess);
  const auto ops = All<cupti::Memory4>(ActivityKind::kMemory);
  ASSERT_EQ(ops.size(), 4u) << "nothing of a call that neither takes nor gives memory";
  using cupti::MemoryOperation;
  EXPECT_EQ(ops[0].operation, MemoryOperation::kAllocation);
  EXPECT_EQ(ops[0].bytes, 4096u);
  EXPECT_EQ(ops[0].memory_kind, static_cast<uint32_t>(cupti::MemoryKind::kDevice));
  EXPECT_EQ(ops[0].is_async, 0u);
  EXPECT_EQ(ops[0].stream_id, cupti::kDoesNotApply);
  EXPECT_EQ(ops[0].pool.type, cupti::MemoryPool::kNone);
  EXPECT_EQ(ops[1].bytes, 8192u);
  EXPECT_EQ(ops[1].is_async, 1u);
  EXPECT_NE(ops[1].stream_id, cupti::kDoesNotApply);
  EXPECT_EQ(ops[1].pool.type, cupti::MemoryPool::kLocal);
  EXPECT_EQ(ops[1].pool.utilized_bytes, 8192u);
  EXPECT_EQ(ops[2].operation, MemoryOperation::kRelease);
  EXPECT_EQ(ops[2].address, ops[1].address);
  EXPECT_EQ(ops[3].operation, MemoryOperation::kRelease);
  EXPECT_EQ(ops[3].address, ops[0].address);
  EXPECT_EQ(ops[3].bytes, 4096u);
  const auto calls = All<cupti::Api>(ActivityKind::kRuntime);
  for (const cupti::Memory4& op : ops) {
    EXPECT_EQ(std::count_if(calls.begin(), calls.end(),
                            [&](const cupti::Api& a) {
                              return a.correlation_id == op.correlation_id && a.start <= op.timestamp &&
                                     op.timestamp <= a.end;
                            }),
              1);
  }
}

// The fork happens while other threads record and flush, with the mutexes of CUDA and CUPTI held.
TEST_F(SimCudart, CallsOfAForkedChildFailAndReturn) {
  Enable({ActivityKind::kRuntime, ActivityKind::kMemset});
  std::atomic<bool> stop{false};
  // Each call waits for the device, so that no queue grows.
  std::thread calls([&] {
    for (; !stop; usleep(20)) cudaMemset(device_, 0, 64);
  });
  // The pauses let the fork have the mutexes.
  std::thread flushes([&] {
    for (; !stop; usleep(50)) Find<cupti::ActivityFlushAllFn>("cuptiActivityFlushAll")(0);
  });
  constexpr int kChildren = 40;
  for (int child = 0; child < kChildren; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(20);  // a hanging child ends with SIGALRM
      for (int call = 0; call < 20; ++call) {
        if (cudaMemset(device_, 0, 64) != cudaErrorInitializationError) _exit(1);
      }
      _exit(0);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0) << "child " << child;
    if (status != 0) break;
  }
  stop = true;
  calls.join();
  flushes.join();
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess) << "the parent is not affected";
}

TEST_F(SimCudart, StreamRecordsHoldTheirCreationFlags) {
  Enable({ActivityKind::kStream});
  cudaStream_t urgent = nullptr, blocking = nullptr;
  ASSERT_EQ(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, -5), cudaSuccess);
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  const auto streams = All<cupti::Stream>(ActivityKind::kStream);
  ASSERT_EQ(streams.size(), 2u);
  EXPECT_EQ(static_cast<int32_t>(streams[0].priority), -5);
  EXPECT_EQ(streams[0].flag, cupti::StreamFlag::kNonBlocking);
  EXPECT_EQ(streams[1].flag, cupti::StreamFlag::kDefault);
  EXPECT_EQ(cudaStreamDestroy(urgent), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

}  // namespace
}  // namespace lockstep::sim
