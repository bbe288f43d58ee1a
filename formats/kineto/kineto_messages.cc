#include "formats/kineto/kineto_messages.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/model/collective_op.h"

namespace lockstep::formats {
namespace {

// A communication kernel and the call that launched it.
struct Launch {
  HostTime at;
  size_t device;  // into KinetoFile::devices
  uint32_t activity;
};

using LaunchesOfThread = std::map<ThreadId, std::vector<Launch>>;

// The launches of communication kernels, sorted by time.
LaunchesOfThread FindLaunches(const KinetoFile& file) {
  absl::flat_hash_map<CorrelationId, std::pair<size_t, uint32_t>> kernels;
  absl::flat_hash_map<NameId, bool> communicates;
  for (size_t d = 0; d < file.devices.size(); ++d) {
    const std::vector<capture::DeviceActivity>& activities = file.devices[d].activities;
    for (uint32_t i = 0; i < activities.size(); ++i) {
      const capture::DeviceActivity& a = activities[i];
      if (a.kind != capture::ActivityKind::kKernel || a.correlation == CorrelationId()) continue;
      auto [it, fresh] = communicates.try_emplace(a.name, false);
      if (fresh) it->second = capture::ClassifyKernelName(file.strings.Text(a.name)).communication;
      if (a.communication || it->second) kernels.try_emplace(a.correlation, d, i);
    }
  }
  LaunchesOfThread launches;
  for (const capture::ApiCall& call : file.api_calls) {
    const auto it = kernels.find(call.correlation);
    if (it == kernels.end()) continue;
    launches[call.thread].push_back({call.start, it->second.first, it->second.second});
  }
  for (auto& [thread, of_thread] : launches) {
    std::sort(of_thread.begin(), of_thread.end(),
              [](const Launch& a, const Launch& b) { return a.at < b.at; });
  }
  return launches;
}

}  // namespace

void AttachAnnounced(KinetoFile& file) {
  if (file.announced.empty()) return;
  std::stable_sort(
      file.announced.begin(), file.announced.end(),
      [](const AnnouncedCollective& a, const AnnouncedCollective& b) { return a.start < b.start; });
  std::map<ThreadId, std::vector<const AnnouncedCollective*>> rows;
  for (const AnnouncedCollective& row : file.announced) rows[row.thread].push_back(&row);
  for (const auto& [thread, launches] : FindLaunches(file)) {
    const std::vector<const AnnouncedCollective*>& pending = rows[thread];
    size_t next = 0;
    for (const Launch& launch : launches) {
      KinetoDevice& device = file.devices[launch.device];
      capture::DeviceActivity& kernel = device.activities[launch.activity];
      const bool has_arguments = kernel.collective != capture::kNone;
      for (; next < pending.size() && pending[next]->start <= launch.at; ++next) {
        if (has_arguments) continue;
        capture::Collective c = pending[next]->collective;
        c.activity = launch.activity;
        if (kernel.collective == capture::kNone)
          kernel.collective = static_cast<uint32_t>(device.collectives.size());
        kernel.communication = true;
        device.collectives.push_back(c);
      }
    }
  }
}

}  // namespace lockstep::formats
