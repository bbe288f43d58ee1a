#include "views/device/awaited_work.h"

#include <algorithm>

namespace lockstep::views {

using capture::kNone;

AwaitedWork::AwaitedWork(const capture::RankData& rank) : rank_(rank), calls_(rank) {
  launched_.reserve(rank.activities.size());
  latest_.reserve(rank.activities.size());
  for (const capture::DeviceActivity& a : rank.activities) {
    const uint32_t call = calls_.Of(a.correlation);
    launched_.push_back(call == kNone ? a.start : rank.api_calls[call].start);
    latest_.push_back(latest_.empty() ? a.end : std::max(latest_.back(), a.end));
  }
  for (uint32_t i = 0; i < rank.activities.size(); ++i) {
    const capture::DeviceActivity& a = rank.activities[i];
    if (a.kind == capture::ActivityKind::kMemcpy && a.correlation.value() != 0)
      copies_.try_emplace(a.correlation, i);
  }
  for (uint32_t i = 0; i < rank.syncs.size(); ++i) {
    if (rank.syncs[i].correlation.value() != 0) syncs_.try_emplace(rank.syncs[i].correlation, i);
  }
  for (const capture::EventRecord& record : rank.event_records) {
    const uint32_t call = calls_.Of(record.correlation);
    if (call != kNone) records_[record.event].emplace_back(rank.api_calls[call].start, record.stream);
  }
  for (auto& [event, recorded] : records_) std::sort(recorded.begin(), recorded.end());
}

AwaitedWork::Target AwaitedWork::TargetOf(const capture::ApiCall& call) const {
  Target target{.launched_before = call.start};
  const auto it = syncs_.find(call.correlation);
  if (it == syncs_.end()) return target;
  const capture::Sync& sync = rank_.syncs[it->second];
  switch (sync.type) {
    case capture::SyncType::kStream:
      if (sync.stream.value() == kNone) return target;
      target.stream = sync.stream;
      break;
    case capture::SyncType::kEvent: {
      const auto records = records_.find(sync.event);
      if (records == records_.end()) return target;
      const auto after =
          std::upper_bound(records->second.begin(), records->second.end(), call.start,
                           [](HostTime t, const auto& recorded) { return t < recorded.first; });
      if (after == records->second.begin()) return target;
      target.launched_before = std::prev(after)->first;
      target.stream = std::prev(after)->second;
      break;
    }
    case capture::SyncType::kContext:
      break;
    default:
      return target;
  }
  target.is_named = true;
  return target;
}

uint32_t AwaitedWork::BlockingCopy(const capture::ApiCall& call) const {
  const auto it = copies_.find(call.correlation);
  if (it == copies_.end()) return kNone;
  const capture::DeviceActivity& copy = rank_.activities[it->second];
  return copy.end > call.start && copy.end <= call.end ? it->second : kNone;
}

std::vector<uint32_t> AwaitedWork::Unfinished(const Target& target, const HostInterval& wait) const {
  // All activities before `begin` had ended when the wait started.
  const auto begin = std::upper_bound(latest_.begin(), latest_.end(), wait.start) - latest_.begin();
  std::vector<uint32_t> found;
  for (auto i = static_cast<uint32_t>(begin);
       i < rank_.activities.size() && rank_.activities[i].start < wait.end; ++i) {
    const capture::DeviceActivity& a = rank_.activities[i];
    if (a.end <= wait.start || launched_[i] > target.launched_before) continue;
    if (target.stream && a.stream != *target.stream) continue;
    found.push_back(i);
  }
  return found;
}

}  // namespace lockstep::views
