#include "formats/nsys/nsys_nccl.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "absl/container/flat_hash_map.h"

namespace lockstep::formats {
namespace {

using capture::CollectiveOp;

struct Kernel {
  size_t device;
  uint32_t activity;
  CollectiveOp family;
};

// An interval of a thread in which the kernels of these calls are launched.
struct Launch {
  HostTime start;
  HostTime end;
  std::vector<const NcclCall*> calls;
  std::vector<Kernel> kernels;
};

class Joiner {
 public:
  Joiner(const capture::StringTable& strings, NsysProcess& process) : strings_(strings), process_(process) {}

  NcclJoin Run() {
    for (NcclCall& call : process_.nccl_calls) by_thread_[call.thread].calls.push_back(&call);
    for (auto& [thread, own] : by_thread_) FindLaunches(own);
    GiveKernels();
    NcclJoin out;
    for (const auto& [thread, own] : by_thread_) {
      for (const Launch& launch : own.launches) Resolve(launch, out);
    }
    return out;
  }

 private:
  struct Thread {
    std::vector<const NcclCall*> calls;
    std::vector<Launch> launches;  // by start
  };

  CollectiveOp OpOf(const NcclCall& call) const {
    return capture::CollectiveOpFromText(strings_.Text(call.name));
  }

  void FindLaunches(Thread& own) {
    std::stable_sort(own.calls.begin(), own.calls.end(),
                     [](const NcclCall* a, const NcclCall* b) { return a->start < b->start; });
    std::vector<const NcclCall*> grouped;
    int depth = 0;
    for (const NcclCall* call : own.calls) {
      const std::string_view name = strings_.Text(call->name);
      const bool operation = call->payload && call->payload->bytes;
      if (name == "ncclGroupStart") {
        if (depth++ == 0) grouped.clear();
      } else if (name == "ncclGroupEnd") {
        if (depth > 0 && --depth == 0 && !grouped.empty())
          own.launches.push_back({call->start, call->end, std::move(grouped), {}});
        if (depth == 0) grouped.clear();
      } else if (operation && depth > 0) {
        grouped.push_back(call);
      } else if (operation) {
        own.launches.push_back({call->start, call->end, {call}, {}});
      }
    }
  }

  void GiveKernels() {
    absl::flat_hash_map<CorrelationId, std::vector<Kernel>> launched;
    for (size_t d = 0; d < process_.devices.size(); ++d) {
      const NsysDevice& device = process_.devices[d];
      for (uint32_t i = 0; i < device.activities.size(); ++i) {
        const capture::DeviceActivity& a = device.activities[i];
        if (a.kind != capture::ActivityKind::kKernel || a.correlation.value() == 0) continue;
        const capture::NameClass kind = ClassOf(a.name);
        if (kind.communication) launched[a.correlation].push_back({d, i, capture::KernelFamily(kind.op)});
      }
    }
    for (const capture::ApiCall& call : process_.api_calls) {
      const auto kernels = launched.find(call.correlation);
      if (kernels == launched.end()) continue;
      Launch* launch = Around(call);
      if (launch == nullptr) continue;
      launch->kernels.insert(launch->kernels.end(), kernels->second.begin(), kernels->second.end());
      launched.erase(kernels);  // the driver's call inside the runtime's call has the same correlation
    }
  }

  capture::NameClass ClassOf(NameId name) {
    const auto [it, fresh] = classes_.try_emplace(name);
    if (fresh) it->second = capture::ClassifyKernelName(strings_.Text(name));
    return it->second;
  }

  Launch* Around(const capture::ApiCall& call) {
    const auto thread = by_thread_.find(call.thread);
    if (thread == by_thread_.end()) return nullptr;
    std::vector<Launch>& launches = thread->second.launches;
    const auto after = std::upper_bound(launches.begin(), launches.end(), call.start,
                                        [](HostTime t, const Launch& l) { return t < l.start; });
    if (after == launches.begin()) return nullptr;
    Launch& launch = *std::prev(after);
    return launch.end >= call.start ? &launch : nullptr;
  }

  void Resolve(const Launch& launch, NcclJoin& out) const {
    if (launch.kernels.empty()) return;
    std::map<CollectiveOp, std::vector<const NcclCall*>> calls_of;
    for (const NcclCall* call : launch.calls) calls_of[capture::KernelFamily(OpOf(*call))].push_back(call);
    for (const auto& [family, calls] : calls_of) {
      std::vector<Kernel> kernels;
      for (const Kernel& k : launch.kernels) {
        if (k.family == family) kernels.push_back(k);
      }
      // The kernel's name may hide the operation.
      if (kernels.empty() && calls_of.size() == 1 && launch.kernels.size() == 1) kernels = launch.kernels;
      if (kernels.empty()) continue;
      const NcclPayload& first = *calls.front()->payload;
      const bool alike =
          calls.size() == kernels.size() &&
          std::all_of(calls.begin(), calls.end(), [&first](const NcclCall* c) {
            return c->payload->bytes == first.bytes && c->payload->communicator == first.communicator;
          });
      if (kernels.size() > 1 && !alike) {
        out.ambiguous += calls.size();
        continue;
      }
      for (size_t i = 0; i < calls.size(); ++i) {
        const Kernel& k = kernels.size() == 1 ? kernels[0] : kernels[i];
        out.kernels.push_back({k.device, k.activity, *calls[i]->payload, calls[i]->name});
      }
    }
  }

  const capture::StringTable& strings_;
  NsysProcess& process_;
  std::map<ThreadId, Thread> by_thread_;
  absl::flat_hash_map<NameId, capture::NameClass> classes_;
};

}  // namespace

NcclJoin JoinNcclCalls(const capture::StringTable& strings, NsysProcess& process) {
  const bool tells = std::any_of(process.nccl_calls.begin(), process.nccl_calls.end(),
                                 [](const NcclCall& c) { return c.payload && c.payload->bytes; });
  if (!tells) return {};
  return Joiner(strings, process).Run();
}

}  // namespace lockstep::formats
