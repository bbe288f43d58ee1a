// Builds captures in a few readable lines, for tests. Stamps are microseconds from a fixed epoch.
//
//   TimelineBuilder t;
//   uint32_t tp = t.Group("tp", {0, 1});
//   t.Rank(0).Kernel("gemm", 0, 100).AllReduce(tp, 100, 50);
//   t.Rank(1).Kernel("gemm", 0, 140).AllReduce(tp, 140, 10);
//   store::Capture capture = t.Build();
//
// One thread. Build() sorts as Finish() does and gives groups their sizes, but infers nothing.
#ifndef LOCKSTEP_AGGREGATOR_STORE_TIMELINE_BUILDER_H_
#define LOCKSTEP_AGGREGATOR_STORE_TIMELINE_BUILDER_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::store {

class TimelineBuilder;

// What a collective of the timeline is; fields left alone are unknown.
struct CollectiveSpec {
  CollectiveOp op = CollectiveOp::kAllReduce;
  uint32_t group = kNone;
  MatchSource source = MatchSource::kOrder;
  int64_t sequence = -1;
  int64_t bytes = -1;
  int32_t root = -1;
  int32_t peer = -1;
};

class RankTimeline {
 public:
  // A kernel; a launch call on thread 1 is added when `launch_us` is not negative.
  RankTimeline& Kernel(std::string_view name, double start_us, double duration_us, uint32_t stream = 7,
                       double launch_us = -1);
  RankTimeline& Copy(uint64_t bytes, double start_us, double duration_us, uint32_t stream = 9,
                     double launch_us = -1, uint8_t copy_kind = 1);
  RankTimeline& Communication(const CollectiveSpec& spec, double start_us, double duration_us,
                              uint32_t stream = 15, double launch_us = -1);
  RankTimeline& AllReduce(uint32_t group, double start_us, double duration_us, int64_t bytes = -1);
  RankTimeline& Api(std::string_view name, double start_us, double duration_us);
  // A call that waits for what `stream` holds.
  RankTimeline& StreamSynchronize(uint32_t stream, double start_us, double duration_us);
  RankTimeline& Step(int number, double start_us, double duration_us);
  RankTimeline& Range(std::string_view name, double start_us, double duration_us);

  RankData& data() { return data_; }

 private:
  friend class TimelineBuilder;
  RankTimeline(TimelineBuilder& owner, RankId rank) : owner_(owner) { data_.rank = rank; }
  CorrelationId Launch(std::string_view name, double launch_us);
  DeviceActivity& Add(ActivityKind kind, std::string_view name, double start_us, double duration_us,
                      uint32_t stream, CorrelationId correlation);

  TimelineBuilder& owner_;
  RankData data_;
  uint32_t next_correlation_ = 1;
};

class TimelineBuilder {
 public:
  static constexpr int64_t kEpochNs = 1'700'000'000'000'000'000;
  static HostTime At(double us) { return HostTime(kEpochNs + static_cast<int64_t>(us * 1000.0)); }

  TimelineBuilder() = default;
  TimelineBuilder(const TimelineBuilder&) = delete;
  TimelineBuilder& operator=(const TimelineBuilder&) = delete;

  // The rank's timeline, made at first use; on a host of that name ("host0" where none is given).
  RankTimeline& Rank(int32_t rank, std::string_view host = "host0");
  uint32_t Group(std::string_view key, const std::vector<int32_t>& members);

  // Moves what was built out; the builder is then empty.
  Capture Build();

 private:
  friend class RankTimeline;
  Capture capture_;
  std::deque<RankTimeline> ranks_;
};

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_TIMELINE_BUILDER_H_
