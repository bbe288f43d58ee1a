// A job that hangs or slows down in one of several ways, for tests of `lockstep hang` and `lockstep record`.
// Each step all-reduces in two communicators, "world" and "other", one after the other. At --step, rank
// --rank does --kind:
//
//   exit   it ends with code 0
//   sleep  it sleeps for ever before its first operation
//   spin   it computes for ever before its first operation
//   swap   it takes the communicators in the opposite order
//   busy   its GPU runs a kernel that takes as long as SIMGPU_KERNELS says before its first operation
//   size   it reduces half as many elements as the others in "world"
//   late   from this step on, its host comes 10 ms late
//   slow   from this step on, its GPU first runs a kernel that takes as long as SIMGPU_KERNELS says
//
// With --kind healthy, the job pauses each 20 steps, as healthy jobs do. --seed draws other pauses. They are:
//
//   evaluation  one rank computes on its host for --pause-ms
//   checkpoint  one rank writes a file slowly for --pause-ms
//   long step   the GPUs of all ranks run a kernel that takes as long as SIMGPU_KERNELS says
//
// It runs on the simulated stack.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda/cuda_api.h"
#include "tests/cuda/kernels.h"
#include "tests/cuda/nccl_job.h"

using namespace lockstep::cuda_tests;  // NOLINT: the helpers of these programs

namespace {

constexpr char kUsage[] =
    "usage: hang_loop --id-file PATH [--kind none|exit|sleep|spin|swap|busy|size|late|slow|healthy] [--rank "
    "R] "
    "[--step N] [--elements N] [--pause-ms N] [--seed N]";
// Larger than what the simulation exchanges at once, so that half as many end earlier.
constexpr size_t kElements = 1 << 21;
constexpr useconds_t kStepMicros = 20'000;
constexpr long kStepsBetweenPauses = 20;
constexpr useconds_t kLateMicros = 10'000;

struct Options {
  std::string id_file, kind = "none";
  int rank = 0;
  long step = 0;
  size_t elements = kElements;
  std::chrono::milliseconds pause{5000};
  unsigned seed = 0;
};

Options Parse(int count, char** arguments) {
  Options o;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i];
    const char* value = arguments[i + 1];
    if (name == "--id-file")
      o.id_file = value;
    else if (name == "--kind")
      o.kind = value;
    else if (name == "--rank")
      o.rank = std::atoi(value);
    else if (name == "--step")
      o.step = std::atol(value);
    else if (name == "--elements")
      o.elements = std::strtoul(value, nullptr, 10);
    else if (name == "--pause-ms")
      o.pause = std::chrono::milliseconds(std::atol(value));
    else if (name == "--seed")
      o.seed = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
    else
      Die(name.c_str(), kUsage);
  }
  if (o.id_file.empty()) Die("options", kUsage);
  return o;
}

ncclConfig_t Named(const char* name) {
  constexpr int kUnset = INT_MIN;
  ncclConfig_t config{};
  config.size = sizeof config;
  config.magic = kNcclConfigMagic;
  config.version = 22809;
  for (int* setting :
       {&config.blocking, &config.cgaClusterSize, &config.minCTAs, &config.maxCTAs, &config.splitShare,
        &config.trafficClass, &config.collnetEnable, &config.CTAPolicy, &config.shrinkShare, &config.nvlsCTAs,
        &config.nChannelsPerNetPeer, &config.nvlinkCentricSched})
    *setting = kUnset;
  config.commName = name;
  return config;
}

class Loop {
 public:
  Loop(const ncclUniqueId& id, const Place& place, size_t elements) : elements_(elements) {
    CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (float** data : {&in_, &out_})
      CHECK(cudaMalloc(reinterpret_cast<void**>(data), elements_ * sizeof(float)));
    ncclConfig_t config = Named("world");
    CHECK(ncclCommInitRankConfig(&world_, place.ranks, id, place.rank, &config));
    config = Named("other");
    CHECK(ncclCommSplit(world_, 0, place.rank, &other_, &config));
  }

  // The host waits for each operation, so it enters the second one only after the first has ended.
  void Step() {
    Reduce(world_, elements_);
    Reduce(other_, elements_);
  }
  void SwappedStep() {
    Reduce(other_, elements_);
    Reduce(world_, elements_);
  }
  void OccupyGpu() { LaunchScale(in_, 1.0f, static_cast<int>(elements_), stream_); }
  void UnevenStep() {
    Reduce(world_, elements_ / 2);
    Reduce(other_, elements_);
  }

 private:
  void Reduce(ncclComm_t comm, size_t elements) {
    CHECK(ncclAllReduce(in_, out_, elements, ncclFloat, ncclSum, comm, stream_));
    CHECK(cudaStreamSynchronize(stream_));
  }

  const size_t elements_;
  cudaStream_t stream_ = nullptr;
  float *in_ = nullptr, *out_ = nullptr;
  ncclComm_t world_ = nullptr, other_ = nullptr;
};

// The pauses of --kind healthy. All ranks draw the same ones.
class Pauses {
 public:
  Pauses(const Options& options, const Place& place, Loop& loop)
      : options_(options), place_(place), loop_(loop), draw_(options.seed) {}

  void Take() {
    const unsigned kind = draw_() % 3;
    const bool mine = static_cast<int>(draw_() % static_cast<unsigned>(place_.ranks)) == place_.rank;
    if (kind == 0 && mine) Evaluate();
    if (kind == 1 && mine) WriteCheckpoint();
    if (kind == 2) loop_.OccupyGpu();
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Uses half of a processor.
  void Evaluate() const {
    const Clock::time_point ends = Clock::now() + options_.pause;
    while (Clock::now() < ends) {
      const Clock::time_point rest = Clock::now() + std::chrono::milliseconds(5);
      while (Clock::now() < rest) {
      }
      usleep(5000);
    }
  }
  // Writes 4 MB/s, as to a slow file system, and hardly computes.
  void WriteCheckpoint() const {
    const std::string path = options_.id_file + ".checkpoint";
    const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    unlink(path.c_str());
    const std::vector<char> part(64 << 10);
    const Clock::time_point ends = Clock::now() + options_.pause;
    while (Clock::now() < ends) {
      if (pwrite(file, part.data(), part.size(), 0) < 0) Die("pwrite", path.c_str());
      usleep(16'000);
    }
    close(file);
  }

  const Options& options_;
  const Place& place_;
  Loop& loop_;
  std::minstd_rand draw_;
};

void Misbehave(const std::string& kind, Loop& loop) {
  volatile unsigned long work = 0;
  if (kind == "exit") _exit(0);
  while (kind == "sleep") pause();
  while (kind == "spin") work = work + 1;
  if (kind == "busy") loop.OccupyGpu();
  if (kind == "swap") loop.SwappedStep();
  if (kind == "size") loop.UnevenStep();
}

// Called in each step from --step on.
void SlowDown(const std::string& kind, Loop& loop) {
  if (kind == "late") usleep(kLateMicros);
  if (kind == "slow") loop.OccupyGpu();
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = Parse(count, arguments);
  const Place place = FindPlace();
  ChooseDevice(place);
  Loop loop(ShareId(options.id_file, place), place, options.elements);
  Pauses pauses(options, place, loop);
  for (long step = 0;; ++step) {
    if (options.kind == "healthy" && step % kStepsBetweenPauses == kStepsBetweenPauses - 1) pauses.Take();
    if (step == options.step && place.rank == options.rank) Misbehave(options.kind, loop);
    if (step >= options.step && place.rank == options.rank) SlowDown(options.kind, loop);
    loop.Step();
    usleep(kStepMicros);
  }
}
