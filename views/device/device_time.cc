#include "views/device/device_time.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace lockstep::views {
namespace {

uint8_t KindOf(const capture::DeviceActivity& a) {
  return a.type() == capture::WorkType::kMemory          ? kCopying
         : a.type() == capture::WorkType::kCommunication ? kCommunicating
                                                         : kComputing;
}

DeviceTime TimeOf(const capture::RankData& rank, const std::vector<DeviceWork>& work) {
  struct Edge {
    HostTime at;
    int change;
    uint8_t kind;
  };
  std::vector<Edge> edges;
  edges.reserve(2 * work.size());
  for (const DeviceWork& w : work) {
    edges.push_back({w.activity->start, 1, KindOf(*w.activity)});
    edges.push_back({w.activity->end, -1, KindOf(*w.activity)});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  DeviceTime time{
      .rank = rank.rank, .device = rank.device, .span = edges.back().at - edges.front().at, .together = {}};
  std::array<int, kDeviceKinds> running = {};
  HostTime since = edges.front().at;
  for (const Edge& e : edges) {
    uint8_t kinds = 0;
    for (const uint8_t kind : {kComputing, kCommunicating, kCopying}) kinds |= running[kind] > 0 ? kind : 0;
    time.together[kinds] += e.at - since;
    since = e.at;
    running[e.kind] += e.change;
  }
  return time;
}

void AddGap(StreamIdle& idle, Nanos gap, bool launched_late, Nanos consecutive) {
  ++idle.gaps;
  (launched_late ? idle.host_wait : gap < consecutive ? idle.kernel_wait : idle.other) += gap;
}

void AddStreams(const capture::RankData& rank, DeviceRule rule, Nanos consecutive,
                std::vector<StreamIdle>& out) {
  struct Stream {
    StreamIdle idle;
    std::optional<HostTime> end;
  };
  std::map<StreamId, Stream> streams;
  for (const DeviceWork& w : DeviceWorkOf(rank, rule)) {
    const capture::DeviceActivity& a = *w.activity;
    Stream& s =
        streams
            .try_emplace(a.stream, Stream{{.rank = rank.rank, .device = rank.device, .stream = a.stream}, {}})
            .first->second;
    const bool neighbours = rule == DeviceRule::kHta;
    if (s.end && (neighbours || a.start > *s.end)) {
      // HTA charges a gap to the host if the launch is unknown.
      const bool late = w.launch == nullptr ? neighbours : w.launch->start > *s.end;
      AddGap(s.idle, a.start - *s.end, late, consecutive);
    }
    s.end = neighbours || !s.end ? a.end : std::max(*s.end, a.end);
  }
  for (const auto& [stream, s] : streams) out.push_back(s.idle);
}

}  // namespace

Nanos DeviceTime::TimeWithAll(uint8_t kinds) const {
  Nanos sum;
  for (size_t mask = 0; mask < together.size(); ++mask) {
    if ((mask & kinds) == kinds) sum += together[mask];
  }
  return sum;
}

std::vector<DeviceTime> DeviceTimesOf(const capture::Capture& capture, DeviceRule rule) {
  std::vector<DeviceTime> times;
  for (const capture::RankData& rank : capture.ranks) {
    const std::vector<DeviceWork> work = DeviceWorkOf(rank, rule);
    if (!work.empty()) times.push_back(TimeOf(rank, work));
  }
  return times;
}

std::vector<StreamIdle> StreamIdleOf(const capture::Capture& capture, DeviceRule rule, Nanos consecutive) {
  std::vector<StreamIdle> idle;
  for (const capture::RankData& rank : capture.ranks) AddStreams(rank, rule, consecutive, idle);
  return idle;
}

}  // namespace lockstep::views
