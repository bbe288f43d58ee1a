// A small training job. Each step copies input, multiplies matrices, all-reduces on a second stream at the
// same time, runs the optimiser and copies the loss out. It checks the all-reduce's sum in every step.
//
// It runs on a GPU or on the simulated stack, under mpiexec, srun or torchrun. It reads its rank from the
// environment and shares NCCL's unique id through a file.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "client/lockstep.h"
#include "tests/cuda/cuda_api.h"
#include "tests/cuda/kernels.h"
#include "tests/cuda/nccl_job.h"

using namespace lockstep::cuda_tests;  // NOLINT: the helpers of these programs

namespace {

constexpr char kUsage[] =
    "usage: train_loop --id-file PATH [--steps N (0: until killed)] [--matmuls N] [--side N] [--elements N]\n"
    "                  [--slow-rank R --slow-factor F] [--graph] [--allocate]\n";

struct Options {
  std::string id_file;
  long steps = 20;
  int matmuls = 8;
  int side = 256;
  int elements = 1 << 18;  // size of the gradient
  int slow_rank = -1;
  double slow_factor = 2;
  bool graph = false;
  bool allocate = false;  // allocates scratch memory per step, from the stream's pool and from the device
};

Options Parse(int count, char** arguments) {
  Options o;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--graph") {
      o.graph = true;
      continue;
    }
    if (name == "--allocate") {
      o.allocate = true;
      continue;
    }
    if (++i == count) Die(name.c_str(), kUsage);
    const char* value = arguments[i];
    if (name == "--id-file")
      o.id_file = value;
    else if (name == "--steps")
      o.steps = std::atol(value);
    else if (name == "--matmuls")
      o.matmuls = std::atoi(value);
    else if (name == "--side")
      o.side = std::atoi(value);
    else if (name == "--elements")
      o.elements = std::atoi(value);
    else if (name == "--slow-rank")
      o.slow_rank = std::atoi(value);
    else if (name == "--slow-factor")
      o.slow_factor = std::atof(value);
    else
      Die(name.c_str(), kUsage);
  }
  if (o.id_file.empty() || o.side % 16 != 0 || o.side <= 0 || o.elements <= 0) Die("options", kUsage);
  return o;
}

class Training {
 public:
  Training(const Options& o, const Place& p)
      : o_(o), p_(p), bytes_(sizeof(float) * static_cast<size_t>(o.elements)) {
    CHECK(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&network_, cudaStreamNonBlocking));
    for (cudaEvent_t* event : {&copied_, &computed_, &reduced_}) CHECK(cudaEventCreate(event));
    const size_t matrix = sizeof(float) * static_cast<size_t>(o.side) * static_cast<size_t>(o.side);
    for (float** m : {&a_, &b_, &c_}) CHECK(cudaMalloc(reinterpret_cast<void**>(m), matrix));
    for (float** g : {&gradient_, &sum_}) CHECK(cudaMalloc(reinterpret_cast<void**>(g), bytes_));
    CHECK(cudaMallocHost(reinterpret_cast<void**>(&host_), bytes_));
    CHECK(cudaMallocHost(reinterpret_cast<void**>(&result_), bytes_));
    CHECK(cudaMemset(a_, 0, matrix));
    CHECK(cudaMemset(b_, 0, matrix));
  }

  void Connect(const ncclUniqueId& id) { CHECK(ncclCommInitRank(&comm_, p_.ranks, id, p_.rank)); }
  void Disconnect() { CHECK(ncclCommDestroy(comm_)); }

  void Step(long step) {
    LOCKSTEP_STEP_BEGIN(static_cast<uint64_t>(step));
    for (int i = 0; i < o_.elements; ++i) host_[i] = static_cast<float>(p_.rank + 1 + i % 7 + step % 5);
    CHECK(cudaMemcpyAsync(gradient_, host_, bytes_, cudaMemcpyHostToDevice, copies_));
    CHECK(cudaEventRecord(copied_, copies_));
    CHECK(cudaStreamWaitEvent(network_, copied_, 0));
    if (o_.allocate) Allocate();
    Forward();
    CHECK(cudaEventRecord(computed_, compute_));
    CHECK(cudaStreamWaitEvent(network_, computed_, 0));
    CHECK(ncclAllReduce(gradient_, sum_, static_cast<size_t>(o_.elements), ncclFloat, ncclSum, comm_,
                        network_));
    CHECK(cudaEventRecord(reduced_, network_));
    CHECK(cudaStreamWaitEvent(compute_, reduced_, 0));
    CHECK(cudaMemcpyAsync(result_, sum_, bytes_, cudaMemcpyDeviceToHost, compute_));
    LaunchScale(c_, 0.5f, o_.side * o_.side, compute_);
    CHECK(cudaMemsetAsync(c_, 0, 256, compute_));
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(compute_));
    LOCKSTEP_STEP_END();
    CheckSum(step);
  }

 private:
  void Allocate() {
    void *pooled = nullptr, *plain = nullptr;
    CHECK(cudaMallocAsync(&pooled, bytes_, compute_));
    CHECK(cudaMemsetAsync(pooled, 0, bytes_, compute_));
    CHECK(cudaFreeAsync(pooled, compute_));
    CHECK(cudaMalloc(&plain, bytes_));
    CHECK(cudaFree(plain));
  }

  void Forward() {
    int matmuls = o_.matmuls;
    if (p_.rank == o_.slow_rank) matmuls = static_cast<int>(std::lround(matmuls * o_.slow_factor));
    if (o_.graph && graph_ == nullptr) {
      cudaGraph_t captured = nullptr;
      CHECK(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal));
      for (int i = 0; i < matmuls; ++i) LaunchMatmul(a_, b_, c_, o_.side, compute_);
      CHECK(cudaStreamEndCapture(compute_, &captured));
      CHECK(cudaGraphInstantiate(&graph_, captured, 0));
      CHECK(cudaGraphDestroy(captured));
    }
    if (o_.graph) {
      CHECK(cudaGraphLaunch(graph_, compute_));
      return;
    }
    for (int i = 0; i < matmuls; ++i) LaunchMatmul(a_, b_, c_, o_.side, compute_);
  }

  void CheckSum(long step) const {
    const int n = p_.ranks;
    for (int i = 0; i < o_.elements; i += 997) {
      const int sum = n * (n + 1) / 2 + n * (i % 7) + n * static_cast<int>(step % 5);
      const auto want = static_cast<float>(sum);
      if (result_[i] != want) {
        std::fprintf(stderr, "train_loop: rank %d step %ld element %d: %f instead of %f\n", p_.rank, step, i,
                     static_cast<double>(result_[i]), static_cast<double>(want));
        std::exit(1);
      }
    }
  }

  const Options o_;
  const Place p_;
  const size_t bytes_;
  cudaStream_t compute_ = nullptr, copies_ = nullptr, network_ = nullptr;
  cudaEvent_t copied_ = nullptr, computed_ = nullptr, reduced_ = nullptr;
  float *a_ = nullptr, *b_ = nullptr, *c_ = nullptr, *gradient_ = nullptr, *sum_ = nullptr;
  float *host_ = nullptr, *result_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  ncclComm_t comm_ = nullptr;
};

}  // namespace

int main(int count, char** arguments) {
  const Options options = Parse(count, arguments);
  const Place place = FindPlace();
  ChooseDevice(place);
  Training training(options, place);
  training.Connect(ShareId(options.id_file, place));
  const auto begin = std::chrono::steady_clock::now();
  for (long step = 0; options.steps == 0 || step < options.steps; ++step) training.Step(step);
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  training.Disconnect();
  if (place.rank == 0)
    std::printf("train_loop: %d ranks, %ld steps of %.1f us, every sum is right\n", place.ranks,
                options.steps, time.count() / static_cast<double>(options.steps));
  return 0;
}
