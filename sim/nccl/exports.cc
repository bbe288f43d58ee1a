// Exports the functions of the simulated libnccl under NCCL's names.
//
//   SIMGPU_NCCL_VERSION=22809    the simulated release; it decides the versions of the profiler's plugin
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "base/fnv.h"
#include "base/mutex.h"
#include "sim/device/port.h"
#include "sim/nccl/group.h"
#include "sim/nccl/nvtx_domain.h"
#include "sim/nccl/reduction.h"

#define LOCKSTEP_SIM_EXPORT extern "C" __attribute__((visibility("default")))

using namespace lockstep::foreign::ncclapi;
using lockstep::foreign::cudart::cudaStream_t;
using lockstep::sim::Communicator;
using lockstep::sim::NcclApi;
using lockstep::sim::NcclGroup;
using lockstep::sim::NcclOp;
using lockstep::sim::NcclRange;
using lockstep::sim::NcclTask;
namespace sim = lockstep::sim;

namespace {

constexpr int kDefaultVersion = 22809;

// A process has one. It is never destroyed, because work may still run while the process ends.
struct Library {
  // set before Start() returns
  int version = kDefaultVersion;
  sim::Gpu* gpu = nullptr;  // null without a simulated libcudart in this process
  std::unique_ptr<sim::Profiler> profiler;

  lockstep::Mutex mutex;
  std::string last_error ABSL_GUARDED_BY(mutex);
};

int VersionOfEnvironment() {
  const char* text = getenv("SIMGPU_NCCL_VERSION");
  const int version = text == nullptr ? 0 : std::atoi(text);
  return version > 0 ? version : kDefaultVersion;
}

Library& Lib() {
  static Library* const library = [] {
    auto* made = new Library;
    made->version = VersionOfEnvironment();
    return made;
  }();
  return *library;
}

ncclResult_t Fail(ncclResult_t result, const std::string& why) {
  Library& lib = Lib();
  lockstep::MutexLock lock(&lib.mutex);
  lib.last_error = why;
  return result;
}

// Finds the devices of the simulated libcudart and loads the plugin, at the first communicator as in NCCL.
bool Start() {
  Library& lib = Lib();
  static std::once_flag once;
  std::call_once(once, [&lib] {
    void* runtime = dlopen("libcudart.so.13", RTLD_NOW);
    const auto find =
        runtime == nullptr ? nullptr : reinterpret_cast<sim::SimGpuFn>(dlsym(runtime, sim::kSimGpuSymbol));
    if (find != nullptr) lib.gpu = find(sim::kSimGpuVersion);
    if (lib.gpu != nullptr) lib.profiler = std::make_unique<sim::Profiler>(lib.version);
  });
  return lib.gpu != nullptr;
}

// NCCL identifies a host by NCCL_HOSTID or by its name.
uint64_t HostHash() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const char* given = getenv("NCCL_HOSTID");
  const char* text = given != nullptr && *given != '\0' ? given : name;
  return lockstep::Fnv1a(text);
}

Communicator* Of(ncclComm_t comm) { return reinterpret_cast<Communicator*>(comm); }

const char* NameIn(const ncclConfig_t* config) {
  if (config == nullptr || config->magic != kNcclConfigMagic ||
      config->size < offsetof(ncclConfig_t, collnetEnable))
    return "";
  return config->commName == nullptr ? "" : config->commName;
}

ncclResult_t Make(ncclComm_t* out, uint64_t id, int ranks, int rank, int device, const std::string& name) {
  std::string error;
  std::unique_ptr<sim::SharedWorld> world =
      sim::SharedWorld::Join(id, ranks, rank, {HostHash(), device, 0, 0}, &error);
  if (world == nullptr) return Fail(ncclSystemError, error);
  auto* made = new Communicator(*Lib().gpu, *Lib().profiler, std::move(world), id, name, device);
  *out = reinterpret_cast<ncclComm_t>(made);
  return ncclSuccess;
}

// A communicator's `id` is the hash of its unique id, as in NCCL.
ncclResult_t Init(NcclApi api, const char* function, ncclComm_t* out, int ranks, const ncclUniqueId& unique,
                  int rank, const ncclConfig_t* config) {
  NcclRange range(api, function);
  if (out == nullptr) return Fail(ncclInvalidArgument, "the pointer for the communicator is null");
  *out = nullptr;
  if (!Start())
    return Fail(ncclUnhandledCudaError, "the simulated libnccl needs the simulated libcudart.so.13");
  const uint64_t id = lockstep::Fnv1a({unique.internal, sizeof unique.internal});
  const int device = Lib().gpu->device();
  const std::string name = NameIn(config);
  if (NcclGroup::OfThread().open()) {
    NcclGroup::OfThread().Defer([=] { return Make(out, id, ranks, rank, device, name); });
    return ncclSuccess;
  }
  const ncclResult_t result = Make(out, id, ranks, rank, device, name);
  if (result == ncclSuccess) range.SetResult({id, ranks, rank, device});
  return result;
}

std::string WhyNot(ncclComm_t comm, const NcclTask& task, size_t element) {
  if (comm == nullptr) return "the communicator is null";
  if (element == 0) return "unknown data type";
  const bool reduces =
      task.op == NcclOp::kAllReduce || task.op == NcclOp::kReduce || task.op == NcclOp::kReduceScatter;
  if (reduces && !sim::CanReduce(task.type)) return "the simulated NCCL cannot reduce floats of 16 or 8 bits";
  if (reduces && (task.reduction < ncclSum || task.reduction > ncclAvg)) return "unknown reduction";
  if (task.peer < 0 || task.peer >= Of(comm)->ranks()) return "no such rank: " + std::to_string(task.peer);
  return "";
}

ncclResult_t Enqueue(NcclApi api, const char* function, const NcclTask& task, ncclComm_t comm,
                     cudaStream_t handle) {
  const size_t element = sim::ElementBytes(task.type);
  const bool rooted = task.op == NcclOp::kBroadcast || task.op == NcclOp::kReduce || sim::IsTransfer(task.op);
  const auto reduction = static_cast<int32_t>(task.reduction);
  NcclRange range(api, function,
                  {comm == nullptr ? 0 : Of(comm)->id(), task.count * element, rooted ? task.peer : reduction,
                   task.op == NcclOp::kReduce ? reduction : 0});
  const std::string why = WhyNot(comm, task, element);
  if (!why.empty()) return Fail(ncclInvalidArgument, std::string(function) + ": " + why);
  sim::Stream* stream = Lib().gpu->Find(handle);
  if (stream == nullptr) return Fail(ncclInvalidArgument, std::string(function) + ": no such stream");
  if (task.count == 0) return ncclSuccess;
  NcclGroup& group = NcclGroup::OfThread();
  group.Start();
  group.Add(*Of(comm), *stream, task, *Lib().profiler, *Lib().gpu);
  return group.End();
}

}  // namespace

LOCKSTEP_SIM_EXPORT ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = Lib().version;
  return ncclSuccess;
}

LOCKSTEP_SIM_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return ncclInvalidArgument;
  std::memset(id, 0, sizeof *id);
  std::random_device random;
  std::snprintf(id->internal, sizeof id->internal, "lockstep-simnccl-%d-%08x%08x", static_cast<int>(getpid()),
                random(), random());
  return ncclSuccess;
}

LOCKSTEP_SIM_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

// The text is valid until the next failure.
LOCKSTEP_SIM_EXPORT const char* ncclGetLastError(ncclComm_t) {
  Library& lib = Lib();
  lockstep::MutexLock lock(&lib.mutex);
  return lib.last_error.c_str();
}

LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return Init(NcclApi::kCommInitRank, "ncclCommInitRank", comm, ranks, id, rank, nullptr);
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id,
                                                        int rank, ncclConfig_t* config) {
  return Init(NcclApi::kCommInitRankConfig, "ncclCommInitRankConfig", comm, ranks, id, rank, config);
}

LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  NcclRange range(NcclApi::kCommInitAll, "ncclCommInitAll");
  if (comms == nullptr || devices < 1) return Fail(ncclInvalidArgument, "ncclCommInitAll: no devices");
  if (!Start())
    return Fail(ncclUnhandledCudaError, "the simulated libnccl needs the simulated libcudart.so.13");
  ncclUniqueId unique;
  ncclGetUniqueId(&unique);
  const uint64_t id = lockstep::Fnv1a({unique.internal, sizeof unique.internal});
  NcclGroup all;
  all.Start();
  for (int i = 0; i < devices; ++i) {
    const int device = list == nullptr ? i : list[i];
    all.Defer([=] { return Make(&comms[i], id, devices, i, device, ""); });
  }
  return all.End();
}

// Every rank of the parent publishes its color and key. Ranks of one color join a new communicator, whose id
// each of them computes alone.
LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                                               ncclConfig_t* config) {
  NcclRange range(NcclApi::kCommSplit, "ncclCommSplit");
  if (comm == nullptr || made == nullptr) return Fail(ncclInvalidArgument, "ncclCommSplit: no communicator");
  *made = nullptr;
  Communicator& parent = *Of(comm);
  sim::SharedWorld& world = parent.world();
  parent.Finish();
  world.SetSplit(color, key);
  if (!world.Barrier(parent.stopping())) return ncclInternalError;
  int ranks = 0, rank = 0;
  for (int r = 0; r < world.ranks(); ++r) {
    const sim::SharedWorld::Member& other = world.member(r);
    if (other.color != color) continue;
    ++ranks;
    rank += other.key < key || (other.key == key && r < world.rank());
  }
  if (!world.Barrier(parent.stopping())) return ncclInternalError;
  const uint64_t words[3] = {parent.id(), parent.NextSplit(), static_cast<uint64_t>(color)};
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  return Make(made, lockstep::Fnv1a({reinterpret_cast<const char*>(words), sizeof words}), ranks, rank,
              parent.device(), NameIn(config));
}

LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  NcclRange range(NcclApi::kCommFinalize, "ncclCommFinalize");
  if (comm == nullptr) return ncclInvalidArgument;
  Of(comm)->Finish();
  return ncclSuccess;
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  NcclRange range(NcclApi::kCommDestroy, "ncclCommDestroy");
  if (comm == nullptr) return ncclSuccess;
  Of(comm)->Finish();
  delete Of(comm);
  return ncclSuccess;
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  NcclRange range(NcclApi::kCommAbort, "ncclCommAbort");
  if (comm != nullptr) Of(comm)->Abort();
  return ncclSuccess;
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  *error = ncclSuccess;
  return ncclSuccess;
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return ncclInvalidArgument;
  *count = Of(comm)->ranks();
  return ncclSuccess;
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return ncclInvalidArgument;
  *rank = Of(comm)->rank();
  return ncclSuccess;
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  if (comm == nullptr || device == nullptr) return ncclInvalidArgument;
  *device = Of(comm)->device();
  return ncclSuccess;
}

LOCKSTEP_SIM_EXPORT ncclResult_t ncclGroupStart() {
  NcclRange range(NcclApi::kGroupStart, "ncclGroupStart");
  NcclGroup::OfThread().Start();
  return ncclSuccess;
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclGroupEnd() {
  NcclRange range(NcclApi::kGroupEnd, "ncclGroupEnd");
  return NcclGroup::OfThread().End();
}

LOCKSTEP_SIM_EXPORT ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count,
                                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                               cudaStream_t stream) {
  return Enqueue(NcclApi::kAllReduce, "ncclAllReduce", {NcclOp::kAllReduce, send, receive, count, type, op},
                 comm, stream);
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count,
                                               ncclDataType_t type, int root, ncclComm_t comm,
                                               cudaStream_t stream) {
  return Enqueue(NcclApi::kBroadcast, "ncclBroadcast",
                 {NcclOp::kBroadcast, send, receive, count, type, ncclSum, root}, comm, stream);
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclReduce(const void* send, void* receive, size_t count,
                                            ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                                            cudaStream_t stream) {
  return Enqueue(NcclApi::kReduce, "ncclReduce", {NcclOp::kReduce, send, receive, count, type, op, root},
                 comm, stream);
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclAllGather(const void* send, void* receive, size_t count,
                                               ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(NcclApi::kAllGather, "ncclAllGather", {NcclOp::kAllGather, send, receive, count, type}, comm,
                 stream);
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count,
                                                   ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                                   cudaStream_t stream) {
  return Enqueue(NcclApi::kReduceScatter, "ncclReduceScatter",
                 {NcclOp::kReduceScatter, send, receive, count, type, op}, comm, stream);
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                                          ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(NcclApi::kSend, "ncclSend", {NcclOp::kSend, send, nullptr, count, type, ncclSum, peer}, comm,
                 stream);
}
LOCKSTEP_SIM_EXPORT ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer,
                                          ncclComm_t comm, cudaStream_t stream) {
  return Enqueue(NcclApi::kRecv, "ncclRecv", {NcclOp::kRecv, nullptr, receive, count, type, ncclSum, peer},
                 comm, stream);
}
