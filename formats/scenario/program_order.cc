#include "formats/scenario/program_order.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"

namespace lockstep::formats {
namespace {

// The place of an activity in the program. Members are in the order of their weight.
struct ProgramPlace {
  HostTime at;  // the start of the launching call, or of work without a launch
  bool launched = false;
  uint32_t call = 0;
  HostTime start;
  uint32_t activity = 0;
  auto operator<=>(const ProgramPlace&) const = default;
};

}  // namespace

std::vector<uint32_t> ProgramOrder(const capture::RankData& rank) {
  absl::flat_hash_map<CorrelationId, uint32_t> calls;
  for (uint32_t i = 0; i < rank.api_calls.size(); ++i) {
    if (rank.api_calls[i].correlation != CorrelationId()) calls.try_emplace(rank.api_calls[i].correlation, i);
  }
  std::vector<ProgramPlace> places;
  for (uint32_t i = 0; i < rank.activities.size(); ++i) {
    const capture::DeviceActivity& a = rank.activities[i];
    const auto call = calls.find(a.correlation);
    if (call == calls.end())
      places.push_back({a.start, false, 0, a.start, i});
    else
      places.push_back({rank.api_calls[call->second].start, true, call->second, a.start, i});
  }
  std::sort(places.begin(), places.end());
  std::vector<uint32_t> order(places.size());
  for (uint32_t k = 0; k < places.size(); ++k) order[places[k].activity] = k;
  return order;
}

}  // namespace lockstep::formats
