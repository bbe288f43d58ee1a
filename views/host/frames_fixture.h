// Host frames in a few readable lines, for tests. Microseconds from TimelineBuilder's epoch.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_FRAMES_FIXTURE_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_FRAMES_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>

#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::views {

class FramesBuilder {
 public:
  // `capture` outlives it.
  explicit FramesBuilder(store::Capture& capture) : capture_(capture) {}

  FramesBuilder& Frame(std::string_view name, double start_us, double end_us,
                       store::FrameKind kind = store::FrameKind::kOperator, int64_t thread = 1) {
    frames_.frames.push_back({.start = store::TimelineBuilder::At(start_us),
                              .end = store::TimelineBuilder::At(end_us),
                              .name = capture_.strings.Intern(name),
                              .thread = ThreadId(thread),
                              .kind = kind});
    return *this;
  }
  // Of the last frame.
  FramesBuilder& With(std::string_view shapes, std::string_view stack = "") {
    Detail().shapes = capture_.strings.Intern(shapes);
    Detail().stack = capture_.strings.Intern(stack);
    return *this;
  }
  FramesBuilder& Types(std::string_view types) {
    Detail().types = capture_.strings.Intern(types);
    return *this;
  }
  FramesBuilder& Sequence(int64_t sequence, int64_t forward_thread = 0) {
    Detail().sequence = sequence;
    Detail().forward_thread = ThreadId(forward_thread);
    return *this;
  }
  // Of the last frame.
  FramesBuilder& Detail(store::FrameDetail detail) {
    frames_.frames.back().detail = static_cast<uint32_t>(frames_.details.size());
    frames_.details.push_back(detail);
    return *this;
  }
  // What the allocator told at the last Allocation().
  FramesBuilder& Told(int64_t allocated, int64_t reserved) {
    frames_.allocations.back().allocated = allocated;
    frames_.allocations.back().reserved = reserved;
    return *this;
  }
  FramesBuilder& Allocation(double at_us, int64_t bytes, int32_t device = 0, uint64_t address = 0,
                            int64_t thread = 1) {
    frames_.allocations.push_back({.time = store::TimelineBuilder::At(at_us),
                                   .thread = ThreadId(thread),
                                   .bytes = bytes,
                                   .address = address,
                                   .device = device});
    return *this;
  }
  // Gives them to the capture's entry.
  void To(uint32_t entry) {
    std::stable_sort(frames_.frames.begin(), frames_.frames.end(),
                     [](const store::HostFrame& a, const store::HostFrame& b) {
                       return std::tie(a.thread, a.start, b.end) < std::tie(b.thread, b.start, a.end);
                     });
    capture_.ranks[entry].frames = std::make_shared<const store::HostFrames>(std::move(frames_));
  }

 private:
  store::FrameDetail& Detail() {
    store::HostFrame& frame = frames_.frames.back();
    if (frame.detail == store::kNone) {
      frame.detail = static_cast<uint32_t>(frames_.details.size());
      frames_.details.emplace_back();
    }
    return frames_.details[frame.detail];
  }

  store::Capture& capture_;
  store::HostFrames frames_;
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_FRAMES_FIXTURE_H_
