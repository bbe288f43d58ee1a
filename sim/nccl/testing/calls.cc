// Makes NCCL calls and checks each result, to test plugins and tools. The first argument is the number of
// devices in this process, the second the set of calls: all | graph | split.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "wire/foreign/cuda_runtime.h"
#include "wire/foreign/nccl.h"

using namespace lockstep::foreign::cudart;
using namespace lockstep::foreign::ncclapi;

namespace {

void Check(bool fine, const char* what) {
  if (fine) return;
  std::fprintf(stderr, "calls: %s (%s)\n", what, ncclGetLastError(nullptr));
  std::exit(1);
}
#define CHECK(call) Check((call) == 0, #call)
#define EXPECT(condition) Check((condition), #condition)

struct Device {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float *in = nullptr, *out = nullptr, *host = nullptr;
};

constexpr size_t kCount = 1000;

class Calls {
 public:
  explicit Calls(int devices) : devices_(static_cast<size_t>(devices)) {
    std::vector<ncclComm_t> comms(devices_.size());
    CHECK(ncclCommInitAll(comms.data(), devices, nullptr));
    for (size_t d = 0; d < devices_.size(); ++d) {
      Device& device = devices_[d];
      device.comm = comms[d];
      CHECK(cudaSetDevice(static_cast<int>(d)));
      CHECK(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking));
      const size_t bytes = sizeof(float) * kCount * devices_.size();
      CHECK(cudaMalloc(reinterpret_cast<void**>(&device.in), bytes));
      CHECK(cudaMalloc(reinterpret_cast<void**>(&device.out), bytes));
      CHECK(cudaMallocHost(reinterpret_cast<void**>(&device.host), bytes));
    }
  }
  ~Calls() {
    for (Device& device : devices_) CHECK(ncclCommDestroy(device.comm));
  }

  // in[i] = d * 10000 + i on device d.
  void Fill() {
    for (size_t d = 0; d < devices_.size(); ++d) {
      for (size_t i = 0; i < kCount * devices_.size(); ++i) devices_[d].host[i] = In(d, i);
      CHECK(cudaMemcpy(devices_[d].in, devices_[d].host, sizeof(float) * kCount * devices_.size(),
                       cudaMemcpyHostToDevice));
      CHECK(cudaMemset(devices_[d].out, 0, sizeof(float) * kCount * devices_.size()));
    }
  }
  static float In(size_t d, size_t i) { return static_cast<float>(d * 10000 + i); }
  float Sum(size_t i) const {
    float sum = 0;
    for (size_t d = 0; d < devices_.size(); ++d) sum += In(d, i);
    return sum;
  }

  using Call = std::function<ncclResult_t(size_t d, Device&)>;
  // Makes one call per device in one group, as a process with several devices must.
  void Group(const Call& call) {
    CHECK(ncclGroupStart());
    for (size_t d = 0; d < devices_.size(); ++d) {
      CHECK(cudaSetDevice(static_cast<int>(d)));
      CHECK(call(d, devices_[d]));
    }
    CHECK(ncclGroupEnd());
    Synchronize();
  }
  void Synchronize() {
    for (Device& device : devices_) {
      CHECK(cudaStreamSynchronize(device.stream));
      CHECK(cudaMemcpy(device.host, device.out, sizeof(float) * kCount * devices_.size(),
                       cudaMemcpyDeviceToHost));
    }
  }
  float Out(size_t d, size_t i) const { return devices_[d].host[i]; }

  void All();
  void Graph();
  void Split();

 private:
  std::vector<Device> devices_;
};

void Calls::All() {
  const size_t n = devices_.size();
  Fill();
  for (int again = 0; again < 2; ++again) {
    Group([](size_t, Device& d) {
      return ncclAllReduce(d.in, d.out, kCount, ncclFloat, ncclSum, d.comm, d.stream);
    });
    for (size_t d = 0; d < n; ++d) EXPECT(Out(d, 0) == Sum(0) && Out(d, kCount - 1) == Sum(kCount - 1));
  }
  Group([](size_t, Device& d) {
    return ncclAllReduce(d.in, d.out, kCount, ncclFloat, ncclMax, d.comm, d.stream);
  });
  EXPECT(Out(0, 5) == In(n - 1, 5));
  Group([](size_t, Device& d) {
    return ncclAllReduce(d.in, d.out, kCount, ncclFloat, ncclAvg, d.comm, d.stream);
  });
  EXPECT(Out(0, 5) == Sum(5) / static_cast<float>(n));
  Group([](size_t, Device& d) { return ncclAllGather(d.in, d.out, kCount, ncclFloat, d.comm, d.stream); });
  for (size_t from = 0; from < n; ++from) EXPECT(Out(0, from * kCount + 3) == In(from, 3));
  Group([](size_t, Device& d) {
    return ncclReduceScatter(d.in, d.out, kCount, ncclFloat, ncclSum, d.comm, d.stream);
  });
  for (size_t d = 0; d < n; ++d) EXPECT(Out(d, 3) == Sum(d * kCount + 3));
  Group([](size_t, Device& d) { return ncclBroadcast(d.in, d.out, kCount, ncclFloat, 1, d.comm, d.stream); });
  for (size_t d = 0; d < n; ++d) EXPECT(Out(d, 7) == In(1, 7));
  Fill();
  Group([](size_t, Device& d) {
    return ncclReduce(d.in, d.out, kCount, ncclFloat, ncclSum, 1, d.comm, d.stream);
  });
  EXPECT(Out(1, 7) == Sum(7) && Out(0, 7) == 0);
  // Each device sends to its successor in a ring and receives at the same time.
  Group([n](size_t d, Device& device) {
    const int next = static_cast<int>((d + 1) % n), before = static_cast<int>((d + n - 1) % n);
    const ncclResult_t sent = ncclSend(device.in, kCount, ncclFloat, next, device.comm, device.stream);
    return sent != ncclSuccess ? sent
                               : ncclRecv(device.out, kCount, ncclFloat, before, device.comm, device.stream);
  });
  for (size_t d = 0; d < n; ++d) EXPECT(Out(d, 9) == In((d + n - 1) % n, 9));
}

void Calls::Graph() {
  Fill();
  std::vector<cudaGraphExec_t> graphs;
  for (size_t d = 0; d < devices_.size(); ++d) {
    Device& device = devices_[d];
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CHECK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal));
    CHECK(ncclAllReduce(device.in, device.out, kCount, ncclFloat, ncclSum, device.comm, device.stream));
    CHECK(cudaStreamEndCapture(device.stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    graphs.push_back(executable);
  }
  for (int launch = 0; launch < 3; ++launch) {
    Fill();
    for (size_t d = 0; d < devices_.size(); ++d) CHECK(cudaGraphLaunch(graphs[d], devices_[d].stream));
    Synchronize();
    for (size_t d = 0; d < devices_.size(); ++d) EXPECT(Out(d, 11) == Sum(11));
  }
  for (cudaGraphExec_t graph : graphs) CHECK(cudaGraphExecDestroy(graph));
}

// Splits devices into even and odd ones, in reversed order.
void Calls::Split() {
  std::vector<std::thread> threads;
  for (size_t d = 0; d < devices_.size(); ++d) {
    threads.emplace_back([this, d] {
      ncclComm_t child = nullptr;
      CHECK(cudaSetDevice(static_cast<int>(d)));
      CHECK(ncclCommSplit(devices_[d].comm, d == 0 ? NCCL_SPLIT_NOCOLOR : static_cast<int>(d % 2),
                          -static_cast<int>(d), &child, nullptr));
      if (d == 0) return EXPECT(child == nullptr);
      int ranks = 0, rank = -1;
      CHECK(ncclCommCount(child, &ranks));
      CHECK(ncclCommUserRank(child, &rank));
      const size_t same = (devices_.size() - 1 + d % 2) / 2;  // number of devices in 1..n-1 with d's parity
      EXPECT(static_cast<size_t>(ranks) == same);
      EXPECT(static_cast<size_t>(rank) == (devices_.size() - 1 - d) / 2);
      CHECK(ncclCommDestroy(child));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int count, char** arguments) {
  EXPECT(count == 3);
  Calls calls(std::atoi(arguments[1]));
  const std::string what = arguments[2];
  if (what == "all") calls.All();
  if (what == "graph") calls.Graph();
  if (what == "split") calls.Split();
  ncclComm_t none = nullptr;
  EXPECT(ncclAllReduce(nullptr, nullptr, 1, ncclFloat, ncclSum, none, nullptr) == ncclInvalidArgument);
  std::printf("fine\n");
  return 0;
}
