// Builds captures for tests in a few readable lines. Time stamps are microseconds from a fixed epoch.
//
//   TimelineBuilder t;
//   uint32_t tp = t.Group("tp", {0, 1});
//   t.Rank(0).Kernel("gemm", 0, 100).AllReduce(tp, 100, 50);
//   t.Rank(1).Kernel("gemm", 0, 140).AllReduce(tp, 140, 10);
//   capture::Capture capture = t.Build();
//
// For one thread. Build() sorts like Finish() and gives groups their sizes, but infers nothing.
#ifndef LOCKSTEP_CAPTURE_MODEL_TIMELINE_BUILDER_FIXTURE_H_
#define LOCKSTEP_CAPTURE_MODEL_TIMELINE_BUILDER_FIXTURE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::capture {

// Converts microseconds of a timeline to a duration.
inline Nanos Us(double us) { return Nanos(static_cast<int64_t>(us * 1000)); }

class TimelineBuilder;

// Description of a collective on the timeline; unset fields are unknown.
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
  // Adds a kernel. If `launch_us` is not negative, also adds its launch call on thread 1.
  RankTimeline& Kernel(std::string_view name, double start_us, double duration_us, uint32_t stream = 7,
                       double launch_us = -1);
  RankTimeline& Copy(uint64_t bytes, double start_us, double duration_us, uint32_t stream = 9,
                     double launch_us = -1, uint8_t copy_kind = 1);
  RankTimeline& Communication(const CollectiveSpec& spec, double start_us, double duration_us,
                              uint32_t stream = 15, double launch_us = -1);
  // Adds a further collective to the kernel that was added last.
  RankTimeline& AndCollective(const CollectiveSpec& spec);
  RankTimeline& AllReduce(uint32_t group, double start_us, double duration_us, int64_t bytes = -1);
  RankTimeline& Api(std::string_view name, double start_us, double duration_us);
  // Adds a call that waits for the work on `stream`.
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

  // Returns the rank's timeline, created on first use, on the host of that name ("host0" without one).
  RankTimeline& Rank(int32_t rank, std::string_view host = "host0");
  uint32_t Group(std::string_view key, const std::vector<int32_t>& members);

  // Moves the capture out and leaves the builder empty.
  Capture Build();

 private:
  friend class RankTimeline;
  Capture capture_;
  std::deque<RankTimeline> ranks_;
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_TIMELINE_BUILDER_FIXTURE_H_
