#include "capture/model/timeline_builder_fixture.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep::capture {
namespace {

constexpr ThreadId kMainThread(1);

Nanos Micros(double us) { return Nanos(static_cast<int64_t>(us * 1000.0)); }

template <typename Row>
void SortByStart(std::vector<Row>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.start, a.end) < std::pair(b.start, b.end);
  });
}

void SortActivities(RankData& data) {
  std::vector<uint32_t> order(data.activities.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(data.activities[a].start, data.activities[a].end) <
           std::pair(data.activities[b].start, data.activities[b].end);
  });
  std::vector<DeviceActivity> sorted;
  std::vector<uint32_t> place(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    sorted.push_back(data.activities[order[i]]);
  }
  data.activities = std::move(sorted);
  for (Collective& c : data.collectives) c.activity = place[c.activity];
  std::stable_sort(data.collectives.begin(), data.collectives.end(),
                   [](const Collective& a, const Collective& b) { return a.activity < b.activity; });
  for (size_t i = data.collectives.size(); i > 0; --i)
    data.activities[data.collectives[i - 1].activity].collective = static_cast<uint32_t>(i - 1);
}

}  // namespace

CorrelationId RankTimeline::Launch(std::string_view name, double launch_us) {
  const CorrelationId correlation(next_correlation_++);
  if (launch_us >= 0) {
    data_.api_calls.push_back({.start = TimelineBuilder::At(launch_us),
                               .end = TimelineBuilder::At(launch_us) + Nanos::Micros(2),
                               .name = owner_.capture_.strings.Intern(name),
                               .correlation = correlation,
                               .thread = kMainThread});
  }
  return correlation;
}

DeviceActivity& RankTimeline::Add(ActivityKind kind, std::string_view name, double start_us,
                                  double duration_us, uint32_t stream, CorrelationId correlation) {
  DeviceActivity a;
  a.start = TimelineBuilder::At(start_us);
  a.end = a.start + Micros(duration_us);
  a.name = owner_.capture_.strings.Intern(name);
  a.stream = StreamId(stream);
  a.correlation = correlation;
  a.kind = kind;
  data_.activities.push_back(a);
  return data_.activities.back();
}

RankTimeline& RankTimeline::Kernel(std::string_view name, double start_us, double duration_us,
                                   uint32_t stream, double launch_us) {
  Add(ActivityKind::kKernel, name, start_us, duration_us, stream, Launch("cudaLaunchKernel", launch_us));
  return *this;
}

RankTimeline& RankTimeline::Copy(uint64_t bytes, double start_us, double duration_us, uint32_t stream,
                                 double launch_us, uint8_t copy_kind) {
  DeviceActivity& a = Add(ActivityKind::kMemcpy, "Memcpy", start_us, duration_us, stream,
                          Launch("cudaMemcpyAsync", launch_us));
  a.detail = static_cast<uint32_t>(data_.copy_details.size());
  data_.copy_details.push_back({.bytes = bytes, .copy_kind = copy_kind});
  return *this;
}

RankTimeline& RankTimeline::Communication(const CollectiveSpec& spec, double start_us, double duration_us,
                                          uint32_t stream, double launch_us) {
  DeviceActivity& a = Add(ActivityKind::kKernel, "ncclDevKernel", start_us, duration_us, stream,
                          Launch("cudaLaunchKernel", launch_us));
  a.communication = true;
  a.collective = static_cast<uint32_t>(data_.collectives.size());
  return AndCollective(spec);
}

RankTimeline& RankTimeline::AndCollective(const CollectiveSpec& spec) {
  data_.collectives.push_back({.activity = static_cast<uint32_t>(data_.activities.size() - 1),
                               .group = spec.group,
                               .op = spec.op,
                               .source = spec.source,
                               .sequence = spec.sequence,
                               .bytes = spec.bytes,
                               .root = spec.root,
                               .peer = spec.peer});
  return *this;
}

RankTimeline& RankTimeline::AllReduce(uint32_t group, double start_us, double duration_us, int64_t bytes) {
  return Communication({.group = group, .bytes = bytes}, start_us, duration_us);
}

RankTimeline& RankTimeline::Api(std::string_view name, double start_us, double duration_us) {
  data_.api_calls.push_back({.start = TimelineBuilder::At(start_us),
                             .end = TimelineBuilder::At(start_us) + Micros(duration_us),
                             .name = owner_.capture_.strings.Intern(name),
                             .correlation = CorrelationId(next_correlation_++),
                             .thread = kMainThread});
  return *this;
}

RankTimeline& RankTimeline::StreamSynchronize(uint32_t stream, double start_us, double duration_us) {
  Api("cudaStreamSynchronize", start_us, duration_us);
  const ApiCall& call = data_.api_calls.back();
  data_.syncs.push_back({.start = call.start,
                         .end = call.end,
                         .correlation = call.correlation,
                         .stream = StreamId(stream),
                         .type = SyncType::kStream});
  return *this;
}

RankTimeline& RankTimeline::Step(int number, double start_us, double duration_us) {
  Range("ProfilerStep#" + std::to_string(number), start_us, duration_us);
  data_.ranges.back().kind = RangeKind::kStep;
  return *this;
}

RankTimeline& RankTimeline::Range(std::string_view name, double start_us, double duration_us) {
  data_.ranges.push_back({.start = TimelineBuilder::At(start_us),
                          .end = TimelineBuilder::At(start_us) + Micros(duration_us),
                          .name = owner_.capture_.strings.Intern(name),
                          .thread = kMainThread});
  return *this;
}

RankTimeline& TimelineBuilder::Rank(int32_t rank, std::string_view host) {
  for (RankTimeline& r : ranks_) {
    if (r.data_.rank == RankId(rank)) return r;
  }
  ranks_.push_back(RankTimeline(*this, RankId(rank)));
  RankTimeline& made = ranks_.back();
  for (uint32_t h = 0; h < capture_.hosts.size(); ++h) {
    if (capture_.hosts[h].name == host) made.data_.host = h;
  }
  if (made.data_.host == kNone) {
    made.data_.host = static_cast<uint32_t>(capture_.hosts.size());
    capture_.hosts.push_back({.id = std::string(host), .name = std::string(host)});
  }
  return made;
}

uint32_t TimelineBuilder::Group(std::string_view key, const std::vector<int32_t>& members) {
  capture::Group group;
  group.key = std::string(key);
  group.name = std::string(key);
  for (int32_t m : members) group.members.push_back(RankId(m));
  group.size = static_cast<int32_t>(members.size());
  capture_.groups.push_back(std::move(group));
  return static_cast<uint32_t>(capture_.groups.size() - 1);
}

Capture TimelineBuilder::Build() {
  for (RankTimeline& r : ranks_) {
    RankData& data = r.data_;
    SortByStart(data.api_calls);
    SortByStart(data.syncs);
    SortByStart(data.ranges);
    SortActivities(data);
    const bool no_window = data.window.end <= data.window.start;
    if (no_window && !data.activities.empty()) {
      data.window = {data.activities.front().start, data.activities.front().end};
      for (const DeviceActivity& a : data.activities) data.window.end = std::max(data.window.end, a.end);
      if (!data.api_calls.empty())
        data.window.start = std::min(data.window.start, data.api_calls.front().start);
      if (!data.ranges.empty()) data.window.start = std::min(data.window.start, data.ranges.front().start);
    }
    capture_.ranks.push_back(std::move(data));
  }
  ranks_.clear();
  std::stable_sort(capture_.ranks.begin(), capture_.ranks.end(),
                   [](const RankData& a, const RankData& b) { return a.rank < b.rank; });
  capture_.world_size = capture_.ranks.empty() ? 0 : capture_.ranks.back().rank.value() + 1;
  return std::move(capture_);
}

}  // namespace lockstep::capture
