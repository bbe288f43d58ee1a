#include "capture/store/records_timings.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace lockstep::capture {
namespace {

int64_t Median(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

GpuTimer TimerOf(std::vector<int64_t> differences) {
  GpuTimer timer;
  timer.kernels = static_cast<uint32_t>(differences.size());
  const int64_t offset = Median(differences);
  for (int64_t& d : differences) d = std::abs(d - offset);
  timer.offset = Nanos(offset);
  timer.spread = Nanos(Median(differences));
  return timer;
}

}  // namespace

GpuTimers JoinTimings(const GroupIndex& groups, ProcessTables& tables) {
  RankData& data = tables.data;
  absl::flat_hash_map<uint64_t, uint32_t> activity_of;  // by operation
  for (const Collective& c : data.collectives) {
    if (c.operation != 0) activity_of[c.operation] = c.activity;
  }
  // Several operations may share a kernel, so its first channel is the first one of them all.
  absl::flat_hash_map<uint32_t, uint64_t> first_channel;
  for (const ChannelRow& row : tables.channels) {
    const auto activity = activity_of.find(row.operation);
    if (row.gpu_start == 0 || activity == activity_of.end()) continue;
    const auto [it, fresh] = first_channel.try_emplace(activity->second, row.gpu_start);
    it->second = std::min(it->second, row.gpu_start);
  }
  absl::flat_hash_map<uint32_t, std::vector<int64_t>> differences;
  for (const auto& [activity, gpu_start] : first_channel) {
    differences[tables.device[activity]].push_back(data.activities[activity].start.ns() -
                                                   static_cast<int64_t>(gpu_start));
  }
  GpuTimers timers;
  for (auto& [device, values] : differences) timers[device] = TimerOf(std::move(values));

  for (const ChannelRow& row : tables.channels) {
    ChannelTiming timing{row.start, row.end, row.operation, row.channel, false};
    const auto activity = activity_of.find(row.operation);
    if (row.gpu_start != 0 && activity != activity_of.end()) {
      const Nanos offset = timers.at(tables.device[activity->second]).offset;
      timing.start = HostTime(static_cast<int64_t>(row.gpu_start)) + offset;
      timing.end = timing.start + Nanos(static_cast<int64_t>(row.gpu_length));
      timing.on_gpu_clock = true;
    }
    data.channel_timings.push_back(timing);
  }
  for (const ProxyRow& row : tables.proxy_ops) {
    ProxyOp op = row.op;
    const auto group = groups.find(row.comm);
    if (row.comm != 0 && group != groups.end()) op.group = group->second;
    data.proxy_ops.push_back(op);
  }
  return timers;
}

}  // namespace lockstep::capture
