#include "formats/common/assign_api_calls.h"

#include <utility>

#include "absl/container/flat_hash_map.h"

namespace lockstep::formats {

void AssignApiCallsToDevices(std::vector<capture::ApiCall> calls, std::span<capture::RankData> entries) {
  if (entries.size() == 1) {
    entries[0].api_calls = std::move(calls);
    return;
  }
  absl::flat_hash_map<CorrelationId, size_t> device_of;
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const capture::DeviceActivity& a : entries[i].activities) {
      if (a.correlation.value() != 0) device_of.try_emplace(a.correlation, i);
    }
  }
  for (const capture::ApiCall& call : calls) {
    const auto it = device_of.find(call.correlation);
    entries[it == device_of.end() ? 0 : it->second].api_calls.push_back(call);
  }
}

}  // namespace lockstep::formats
