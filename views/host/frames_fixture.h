// Test helper: builds host frames in a few lines. Times are microseconds from TimelineBuilder's epoch.
#ifndef LOCKSTEP_VIEWS_HOST_FRAMES_FIXTURE_H_
#define LOCKSTEP_VIEWS_HOST_FRAMES_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>

#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::views {

class FramesBuilder {
 public:
  // `capture` outlives it.
  explicit FramesBuilder(capture::Capture& capture) : capture_(capture) {}

  FramesBuilder& Frame(std::string_view name, double start_us, double end_us,
                       capture::FrameKind kind = capture::FrameKind::kOperator, int64_t thread = 1) {
    frames_.frames.push_back({.start = capture::TimelineBuilder::At(start_us),
                              .end = capture::TimelineBuilder::At(end_us),
                              .name = capture_.strings.Intern(name),
                              .thread = ThreadId(thread),
                              .kind = kind});
    return *this;
  }
  // Sets shapes and stack of the last frame.
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
  // Sets the detail of the last frame.
  FramesBuilder& Detail(capture::FrameDetail detail) {
    frames_.frames.back().detail = static_cast<uint32_t>(frames_.details.size());
    frames_.details.push_back(detail);
    return *this;
  }
  // Sets the totals that the allocator reported at the last Allocation().
  FramesBuilder& AllocatorTotals(int64_t allocated, int64_t reserved) {
    frames_.allocations.back().allocated = allocated;
    frames_.allocations.back().reserved = reserved;
    return *this;
  }
  FramesBuilder& Allocation(double at_us, int64_t bytes, int32_t device = 0, uint64_t address = 0,
                            int64_t thread = 1) {
    frames_.allocations.push_back({.time = capture::TimelineBuilder::At(at_us),
                                   .thread = ThreadId(thread),
                                   .bytes = bytes,
                                   .address = address,
                                   .device = device});
    return *this;
  }
  // Gives the frames to an entry of the capture.
  void To(uint32_t entry) {
    std::stable_sort(frames_.frames.begin(), frames_.frames.end(),
                     [](const capture::HostFrame& a, const capture::HostFrame& b) {
                       return std::tie(a.thread, a.start, b.end) < std::tie(b.thread, b.start, a.end);
                     });
    capture_.ranks[entry].frames = std::make_shared<const capture::HostFrames>(std::move(frames_));
  }

 private:
  capture::FrameDetail& Detail() {
    capture::HostFrame& frame = frames_.frames.back();
    if (frame.detail == capture::kNone) {
      frame.detail = static_cast<uint32_t>(frames_.details.size());
      frames_.details.emplace_back();
    }
    return frames_.details[frame.detail];
  }

  capture::Capture& capture_;
  capture::HostFrames frames_;
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_HOST_FRAMES_FIXTURE_H_
