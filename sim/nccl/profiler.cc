#include "sim/nccl/profiler.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "wire/foreign/nccl_profiler_old.h"

namespace lockstep::sim {
namespace {

namespace nccl = foreign::nccl;

void* OpenPlugin() {
  const char* name = getenv("NCCL_PROFILER_PLUGIN");
  if (name == nullptr || *name == '\0') return dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
  if (std::strcmp(name, "none") == 0) return nullptr;
  if (std::strcmp(name, "STATIC_PLUGIN") == 0) return dlopen(nullptr, RTLD_NOW | RTLD_LOCAL);
  if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return dlopen((std::string("libnccl-profiler-") + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
}

// Fills fields that a plugin must not read with a pattern that no reader mistakes for a value.
template <typename Descriptor>
void Scramble(Descriptor* d) {
  std::memset(static_cast<void*>(d), 0xCC, sizeof *d);
}

uint8_t FunctionNumber(const char* function) {
  uint8_t number = 0;
  while (number + 1u < std::size(nccl::kFunctions) && std::strcmp(nccl::kFunctions[number], function) != 0)
    ++number;
  return number;
}

template <typename Descriptor>
void FillHead(Descriptor* to, const nccl::EventDescriptor& from) {
  to->type = static_cast<uint8_t>(from.type);
  to->parent = from.parent;
  to->rank = from.rank;
  if (from.type == nccl::kEventProxyOp) {
    const auto& op = from.detail.proxy_op;
    to->proxy_op = {op.pid, op.channel, op.peer, op.steps, op.chunk_bytes, op.is_send};
  }
  if (from.type == nccl::kEventProxyStep) to->proxy_step = from.detail.proxy_step.step;
}

nccl::EventDescriptorV1 ToV1(const ProfiledComm& comm, const ProfilerEvent& event) {
  nccl::EventDescriptorV1 to;
  Scramble(&to);
  FillHead(&to, event.descriptor);
  const auto& coll = event.descriptor.detail.coll;
  const auto& p2p = event.descriptor.detail.p2p;
  const auto type = static_cast<uint8_t>(event.datatype);
  if (event.descriptor.type == nccl::kEventColl) {
    to.coll = {comm.name.c_str(),
               comm.id,
               coll.sequence,
               FunctionNumber(coll.function),
               coll.send_buffer,
               coll.recv_buffer,
               coll.count,
               coll.root,
               type,
               static_cast<uint32_t>(event.reduction),
               event.traffic_bytes,
               coll.channels,
               coll.warps,
               1,
               static_cast<uint8_t>(std::strcmp(coll.protocol, "SIMPLE") == 0 ? 2 : 0),
               0,
               0};
  } else if (event.descriptor.type == nccl::kEventP2p) {
    to.p2p = {comm.name.c_str(), comm.id, FunctionNumber(p2p.function), p2p.buffer, type,
              p2p.count,         p2p.peer};
  }
  return to;
}

nccl::EventDescriptorV2 ToV2(const ProfiledComm& comm, const ProfilerEvent& event) {
  nccl::EventDescriptorV2 to;
  Scramble(&to);
  FillHead(&to, event.descriptor);
  const auto& coll = event.descriptor.detail.coll;
  const auto& p2p = event.descriptor.detail.p2p;
  if (event.descriptor.type == nccl::kEventColl) {
    to.coll = {comm.name.c_str(), comm.id,    coll.sequence,  coll.function, coll.send_buffer,
               coll.recv_buffer,  coll.count, coll.root,      coll.datatype, event.traffic_bytes,
               coll.channels,     coll.warps, coll.algorithm, coll.protocol};
  } else if (event.descriptor.type == nccl::kEventP2p) {
    to.p2p = {comm.name.c_str(), comm.id, p2p.function, p2p.buffer, p2p.datatype, p2p.count, p2p.peer};
  }
  return to;
}

nccl::EventDescriptorV3 ToV3(const ProfiledComm& comm, const ProfilerEvent& event) {
  nccl::EventDescriptorV3 to;
  Scramble(&to);
  FillHead(&to, event.descriptor);
  const auto& coll = event.descriptor.detail.coll;
  const auto& p2p = event.descriptor.detail.p2p;
  if (event.descriptor.type == nccl::kEventColl) {
    to.coll = {comm.name.c_str(), comm.id,        coll.sequence, coll.function, coll.send_buffer,
               coll.recv_buffer,  coll.count,     coll.root,     coll.datatype, coll.channels,
               coll.warps,        coll.algorithm, coll.protocol};
  } else if (event.descriptor.type == nccl::kEventP2p) {
    to.p2p = {comm.name.c_str(), comm.id, p2p.function, p2p.buffer, p2p.datatype, p2p.count, p2p.peer};
  } else if (event.descriptor.type == nccl::kEventKernelChannel) {
    to.kernel_channel = event.descriptor.detail.kernel_channel.channel;
  }
  return to;
}

uint32_t TypesOf(int version) {
  constexpr uint32_t kFirst = nccl::kEventGroup | nccl::kEventColl | nccl::kEventP2p | nccl::kEventProxyOp |
                              nccl::kEventProxyStep | nccl::kEventProxyCtrl;
  if (version < 3) return kFirst;
  constexpr uint32_t kThird = kFirst | nccl::kEventKernelChannel | nccl::kEventNetPlugin;
  return version < 5 ? kThird : ~0u;
}

}  // namespace

int Profiler::NewestVersion(int nccl_version) {
  const int minor = nccl_version / 100 % 100;
  if (minor < 23) return 0;
  if (minor == 23) return 1;
  if (minor <= 25) return 2;
  if (minor == 26) return 3;
  if (minor == 27) return 4;
  return minor == 28 ? 5 : 6;
}

Profiler::Profiler(int nccl_version) {
  const int newest = NewestVersion(nccl_version);
  if (newest == 0) return;
  library_ = OpenPlugin();
  for (int v = newest; library_ != nullptr && v >= 1 && table_ == nullptr; --v) {
    table_ = dlsym(library_, ("ncclProfiler_v" + std::to_string(v)).c_str());
    if (table_ != nullptr) version_ = v;
  }
}

void Profiler::Init(ProfiledComm* comm) {
  const char* name = comm->name.empty() ? nullptr : comm->name.c_str();
  if (version_ >= 5) {
    static_cast<const nccl::Profiler*>(table_)->init(&comm->context, comm->id, &mask_, name, comm->nodes,
                                                     comm->ranks, comm->rank, nullptr);
  } else if (version_ == 4) {
    static_cast<const nccl::ProfilerV4*>(table_)->init(&comm->context, &mask_, name, comm->id, comm->nodes,
                                                       comm->ranks, comm->rank, nullptr);
  } else if (version_ > 0) {
    // The three oldest tables differ only in the descriptor.
    static_cast<const nccl::ProfilerV1*>(table_)->init(&comm->context, &mask_);
  }
}

void Profiler::Finalize(ProfiledComm* comm) {
  if (version_ != 0) static_cast<const nccl::Profiler*>(table_)->finalize(comm->context);
  comm->context = nullptr;
}

void* Profiler::Start(const ProfiledComm& comm, const ProfilerEvent& event) {
  if (version_ == 0 || (TypesOf(version_) & event.descriptor.type) == 0) return nullptr;
  void* handle = nullptr;
  if (version_ >= 5) {
    nccl::EventDescriptor d = event.descriptor;
    static_cast<const nccl::Profiler*>(table_)->start_event(comm.context, &handle, &d);
  } else if (version_ == 4) {
    nccl::EventDescriptorV4 d;
    Scramble(&d);
    d.type = static_cast<uint8_t>(event.descriptor.type);
    d.parent = event.descriptor.parent;
    d.rank = event.descriptor.rank;
    d.detail = event.descriptor.detail;
    static_cast<const nccl::ProfilerV4*>(table_)->start_event(comm.context, &handle, &d);
  } else if (version_ == 3) {
    nccl::EventDescriptorV3 d = ToV3(comm, event);
    static_cast<const nccl::ProfilerV3*>(table_)->start_event(comm.context, &handle, &d);
  } else if (version_ == 2) {
    nccl::EventDescriptorV2 d = ToV2(comm, event);
    static_cast<const nccl::ProfilerV2*>(table_)->start_event(comm.context, &handle, &d);
  } else {
    nccl::EventDescriptorV1 d = ToV1(comm, event);
    static_cast<const nccl::ProfilerV1*>(table_)->start_event(comm.context, &handle, &d);
  }
  return handle;
}

void Profiler::Stop(void* handle) {
  if (handle != nullptr) static_cast<const nccl::Profiler*>(table_)->stop_event(handle);
}

void Profiler::State(void* handle, nccl::EventState state, nccl::EventStateArgs args) {
  // Older versions take other arguments, which are not simulated.
  if (handle != nullptr && version_ >= 4)
    static_cast<const nccl::Profiler*>(table_)->record_event_state(handle, state, &args);
}

}  // namespace lockstep::sim
