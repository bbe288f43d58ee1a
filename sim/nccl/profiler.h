// NCCL's side of the profiler plugin. It finds and loads the plugin as NCCL does, and uses the newest ABI
// version that plugin and simulated NCCL support (v1 to v6). A process has one, and any thread may call it.
#ifndef LOCKSTEP_SIM_NCCL_PROFILER_H_
#define LOCKSTEP_SIM_NCCL_PROFILER_H_

#include <cstdint>
#include <string>

#include "wire/foreign/nccl_profiler.h"

namespace lockstep::sim {

// The data of a communicator that the plugin receives, and the context that it returns.
struct ProfiledComm {
  uint64_t id = 0;
  std::string name;
  int32_t nodes = 1;
  int32_t ranks = 1;
  int32_t rank = 0;
  void* context = nullptr;
};

// An event as in v5, with additional fields for older versions.
struct ProfilerEvent {
  foreign::nccl::EventDescriptor descriptor{};
  int32_t datatype = 0;  // numbers of ncclDataType_t and ncclRedOp_t
  int32_t reduction = 0;
  size_t traffic_bytes = 0;
};

// The mask bits that switch an event on: its own bit and the bits of its descendants, because a request for
// an event also requests the events above it.
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
  // `nccl_version` has the form of ncclGetVersion. The constructor reads NCCL_PROFILER_PLUGIN: a path, a
  // library's name, the X of libnccl-profiler-X.so, STATIC_PLUGIN for the program itself, or none. Without
  // it, the name is libnccl-profiler.so.
  explicit Profiler(int nccl_version);

  int version() const { return version_; }  // 0 means no plugin
  // Returns the events that the plugin requests now. The plugin may change them at any time.
  uint32_t mask() const {
    return version_ == 0 ? 0 : static_cast<uint32_t>(__atomic_load_n(&mask_, __ATOMIC_RELAXED));
  }

  void Init(ProfiledComm* comm);
  void Finalize(ProfiledComm* comm);
  // Returns the event's handle, or null if this version has no such events.
  void* Start(const ProfiledComm& comm, const ProfilerEvent& event);
  void Stop(void* handle);
  void State(void* handle, foreign::nccl::EventState state, foreign::nccl::EventStateArgs args = {});

  // Returns the newest plugin version that a release supports.
  static int NewestVersion(int nccl_version);

 private:
  void* library_ = nullptr;
  const void* table_ = nullptr;
  int version_ = 0;
  int32_t mask_ = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_PROFILER_H_
