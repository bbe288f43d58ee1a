#include "analysis/replay/device_streams.h"

#include <algorithm>

namespace lockstep::analysis {
namespace {

using capture::kNone;

// The shortest gaps between operations of a stream are those that only the device causes.
constexpr double kShortest = 0.1;

}  // namespace

uint32_t DeviceStreams::Append(StreamId stream, uint32_t unit, double launched) {
  if (streams_.empty() || stream != last_stream_) {
    const auto [it, fresh] = index_.try_emplace(stream, static_cast<uint32_t>(streams_.size()));
    if (fresh) streams_.emplace_back();
    last_stream_ = stream;
    last_ = it->second;
  }
  StreamOps& ops = streams_[last_];
  const double before = ops.launched.empty() ? kNever : ops.launched.back();
  ops.units.push_back(unit);
  ops.launched.push_back(std::max(before, launched));
  return last_;
}

uint32_t DeviceStreams::Find(StreamId stream) const {
  const auto known = index_.find(stream);
  return known == index_.end() ? kNone : known->second;
}

uint32_t DeviceStreams::LastLaunchedBy(uint32_t stream, double moment) const {
  if (stream == kNone) return kNone;
  const StreamOps& ops = streams_[stream];
  const auto after = std::upper_bound(ops.launched.begin(), ops.launched.end(), moment);
  return after == ops.launched.begin() ? kNone
                                       : ops.units[static_cast<size_t>(after - ops.launched.begin()) - 1];
}

uint32_t DeviceStreams::FirstLaunchedAfter(uint32_t stream, double moment) const {
  if (stream == kNone) return kNone;
  const StreamOps& ops = streams_[stream];
  const auto next = std::upper_bound(ops.launched.begin(), ops.launched.end(), moment);
  return next == ops.launched.end() ? kNone : ops.units[static_cast<size_t>(next - ops.launched.begin())];
}

uint32_t DeviceStreams::LastEndedBy(uint32_t stream, uint32_t unit, double moment, const Graph& graph) const {
  const std::vector<uint32_t>& units = streams_[stream].units;
  const auto before = std::lower_bound(units.begin(), units.end(), unit);
  const auto later =
      std::partition_point(units.begin(), before, [&](uint32_t u) { return graph.end[u] <= moment; });
  return later == units.begin() ? kNone : *(later - 1);
}

std::optional<double> DeviceStreams::ShortGap(const Graph& graph) const {
  std::vector<double> gaps;
  for (const StreamOps& s : streams_) {
    for (size_t i = 1; i < s.units.size(); ++i) {
      const double gap = graph.start[s.units[i]] - graph.end[s.units[i - 1]];
      if (gap > 0) gaps.push_back(gap);
    }
  }
  if (gaps.empty()) return std::nullopt;
  const auto place =
      gaps.begin() + static_cast<std::ptrdiff_t>(kShortest * static_cast<double>(gaps.size() - 1));
  std::nth_element(gaps.begin(), place, gaps.end());
  return *place;
}

void EventRecords::Sort() {
  for (auto& [event, list] : records_) {
    std::stable_sort(list.begin(), list.end(),
                     [](const Recorded& a, const Recorded& b) { return a.at < b.at; });
  }
}

uint32_t EventRecords::RecordedBefore(uint32_t event, double moment, const DeviceStreams& streams) const {
  const auto list = records_.find(event);
  if (list == records_.end()) return kNone;
  const auto after = std::upper_bound(list->second.begin(), list->second.end(), moment,
                                      [](double t, const Recorded& r) { return t < r.at; });
  if (after == list->second.begin()) return kNone;
  return streams.LastLaunchedBy(streams.Find((after - 1)->stream), (after - 1)->at);
}

}  // namespace lockstep::analysis
