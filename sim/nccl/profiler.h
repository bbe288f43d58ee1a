// NCCL's side of the profiler plugin: finds and loads it as NCCL does, and speaks the newest version of its
// ABI that both the plugin and the simulated NCCL know (v1 to v6). Any thread; one per process.
#ifndef LOCKSTEP_SIM_NCCL_PROFILER_H_
#define LOCKSTEP_SIM_NCCL_PROFILER_H_

#include <cstdint>
#include <string>

#include "wire/foreign/nccl_profiler.h"

namespace lockstep::sim {

// What the plugin is told of a communicator, and what it gave back.
struct ProfiledComm {
  uint64_t id = 0;
  std::string name;
  int32_t nodes = 1;
  int32_t ranks = 1;
  int32_t rank = 0;
  void* context = nullptr;
};

// An event as v5 has it, and what only older versions carry.
struct ProfilerEvent {
  foreign::nccl::EventDescriptor descriptor{};
  int32_t datatype = 0;  // numbers of ncclDataType_t and ncclRedOp_t
  int32_t reduction = 0;
  size_t traffic_bytes = 0;
};

// The bits of the mask that make an event be emitted: its own, and those of what is below it, for asking for
// an event asks for those above it too.
inline constexpr uint32_t kBelowColl = foreign::nccl::kEventProxyOp | foreign::nccl::kEventProxyStep |
                                       foreign::nccl::kEventKernelChannel | foreign::nccl::kEventNetPlugin;
inline constexpr uint32_t kMaskOfColl = foreign::nccl::kEventColl | kBelowColl;
inline constexpr uint32_t kMaskOfP2p = foreign::nccl::kEventP2p | kBelowColl;
inline constexpr uint32_t kMaskOfGroup = foreign::nccl::kEventGroup | kMaskOfColl | kMaskOfP2p;
inline constexpr uint32_t kMaskOfCollApi = foreign::nccl::kEventCollApi | kMaskOfColl;
inline constexpr uint32_t kMaskOfP2pApi = foreign::nccl::kEventP2pApi | kMaskOfP2p;
inline constexpr uint32_t kMaskOfGroupApi =
    foreign::nccl::kEventGroupApi | foreign::nccl::kEventKernelLaunch | kMaskOfCollApi | kMaskOfP2pApi;

class Profiler {
 public:
  // `nccl_version` as ncclGetVersion counts. Looks at NCCL_PROFILER_PLUGIN: a path, a library's name, the X
  // of libnccl-profiler-X.so, STATIC_PLUGIN for the program itself, none; unset means libnccl-profiler.so.
  explicit Profiler(int nccl_version);

  int version() const { return version_; }  // 0: no plugin
  // What the plugin asks for now; it may write there at any time.
  uint32_t mask() const {
    return version_ == 0 ? 0 : static_cast<uint32_t>(__atomic_load_n(&mask_, __ATOMIC_RELAXED));
  }

  void Init(ProfiledComm* comm);
  void Finalize(ProfiledComm* comm);
  // The event's handle; null when this version has no such events.
  void* Start(const ProfiledComm& comm, const ProfilerEvent& event);
  void Stop(void* handle);
  void State(void* handle, foreign::nccl::EventState state, foreign::nccl::EventStateArgs args = {});

  // The newest plugin version that a release asks for.
  static int NewestVersion(int nccl_version);

 private:
  void* library_ = nullptr;
  const void* table_ = nullptr;
  int version_ = 0;
  int32_t mask_ = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_PROFILER_H_
