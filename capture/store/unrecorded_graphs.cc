#include "capture/store/unrecorded_graphs.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace lockstep::capture {
namespace {

// A launch this shortly before the window's end may run after it.
constexpr Nanos kMayRunLater = Nanos::Millis(50);

// CUPTI's callback ids of cudaGraphLaunch and cuGraphLaunch, each with its per-thread-stream form.
bool LaunchesGraph(const ApiCall& call) {
  return call.driver ? call.cbid == 514 || call.cbid == 515 : call.cbid == 311 || call.cbid == 312;
}

struct Launch {
  HostTime at;
  CorrelationId correlation;
};

}  // namespace

uint64_t UnrecordedGraphLaunches(const RankData& rank) {
  std::vector<Launch> launches;
  absl::flat_hash_set<uint32_t>
      seen_calls;  // the runtime's call and the driver's call inside it share their correlation
  for (const ApiCall& call : rank.api_calls) {
    if (LaunchesGraph(call) && seen_calls.insert(call.correlation.value()).second)
      launches.push_back({call.end, call.correlation});
  }
  if (launches.empty()) return 0;
  absl::flat_hash_set<uint32_t> recorded;
  uint32_t last_run = 0;  // highest correlation whose work ran in the window
  bool graph_without_launch = false;
  for (const DeviceActivity& a : rank.activities) {
    last_run = std::max(last_run, a.correlation.value());
    const bool kernel = a.kind == ActivityKind::kKernel;
    const uint32_t graph = a.detail == kNone ? 0
                           : kernel          ? rank.kernel_details[a.detail].graph
                                             : rank.copy_details[a.detail].graph;
    if (graph == 0)
      continue;  // not of a graph, even under a graph launch's number: CUPTI 13.0 gives graph launches
                 // numbers of other calls
    recorded.insert(a.correlation.value());
    graph_without_launch |= a.correlation == CorrelationId(0);
  }
  // A graph's record without a correlation shows that this CUPTI's correlations of graphs cannot be trusted.
  // Then nothing can be counted.
  if (graph_without_launch) return 0;
  return static_cast<uint64_t>(std::count_if(launches.begin(), launches.end(), [&](const Launch& launch) {
    if (recorded.contains(launch.correlation.value())) return false;
    return launch.correlation.value() < last_run || launch.at + kMayRunLater < rank.window.end;
  }));
}

}  // namespace lockstep::capture
