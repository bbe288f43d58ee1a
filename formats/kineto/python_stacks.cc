#include "formats/kineto/python_stacks.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace lockstep::formats {
namespace {

using capture::FrameKind;
using capture::HostFrame;
using capture::HostFrames;
using capture::kNone;

bool IsPython(const HostFrame& frame) {
  return frame.kind == FrameKind::kPython || frame.kind == FrameKind::kModule;
}

int64_t IdOf(const HostFrames& frames, const HostFrame& frame) {
  return frame.detail == kNone ? -1 : frames.details[frame.detail].python_id;
}

// The links between functions that the profiler states.
struct Callers {
  std::vector<uint32_t> caller;  // by frame; kNone: unknown
  std::vector<uint32_t> depth;   // by frame: the number of its known callers
};

// A caller begins no later than what it calls, so the links have no circle.
Callers FindCallers(const HostFrames& frames) {
  Callers links{std::vector<uint32_t>(frames.frames.size(), kNone),
                std::vector<uint32_t>(frames.frames.size())};
  absl::flat_hash_map<int64_t, uint32_t> by_id;
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < frames.frames.size(); ++i) {
    if (IdOf(frames, frames.frames[i]) >= 0) order.push_back(i);
  }
  // The profiler numbers calls in their order.
  std::sort(order.begin(), order.end(), [&frames](uint32_t a, uint32_t b) {
    const HostFrame& x = frames.frames[a];
    const HostFrame& y = frames.frames[b];
    return std::tuple(x.start, IdOf(frames, x), a) < std::tuple(y.start, IdOf(frames, y), b);
  });
  for (const uint32_t i : order) {
    const HostFrame& frame = frames.frames[i];
    const auto found = by_id.find(frames.details[frame.detail].python_parent);
    if (found != by_id.end() && frames.frames[found->second].thread == frame.thread) {
      links.caller[i] = found->second;
      links.depth[i] = links.depth[found->second] + 1;
    }
    by_id.try_emplace(IdOf(frames, frame), i);
  }
  return links;
}

// Callers come before what they call, so one pass is enough.
void EndWithCallers(const Callers& links, HostFrames& frames) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < frames.frames.size(); ++i) {
    if (links.caller[i] != kNone) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&links](uint32_t a, uint32_t b) { return links.depth[a] < links.depth[b]; });
  for (const uint32_t i : order) {
    HostFrame& frame = frames.frames[i];
    const HostFrame& caller = frames.frames[links.caller[i]];
    if (caller.end >= frame.start) frame.end = std::min(frame.end, caller.end);
  }
}

// Sorts the frames, and the links with them.
void SortFrames(HostFrames& frames, Callers& links) {
  std::vector<uint32_t> order(frames.frames.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const HostFrame& x = frames.frames[a];
    const HostFrame& y = frames.frames[b];
    return std::tie(x.thread, x.start, y.end) < std::tie(y.thread, y.start, x.end);
  });
  // Among frames with the same times, only functions with callers have a known order.
  const auto same_times = [&](uint32_t a, uint32_t b) {
    const HostFrame& x = frames.frames[a];
    const HostFrame& y = frames.frames[b];
    return x.thread == y.thread && x.start == y.start && x.end == y.end;
  };
  for (size_t first = 0; first < order.size();) {
    size_t last = first + 1;
    while (last < order.size() && same_times(order[first], order[last])) ++last;
    std::vector<size_t> places;
    std::vector<uint32_t> functions;
    for (size_t i = first; last - first > 1 && i < last; ++i) {
      if (IdOf(frames, frames.frames[order[i]]) < 0) continue;
      places.push_back(i);
      functions.push_back(order[i]);
    }
    std::stable_sort(functions.begin(), functions.end(),
                     [&links](uint32_t a, uint32_t b) { return links.depth[a] < links.depth[b]; });
    for (size_t i = 0; i < places.size(); ++i) order[places[i]] = functions[i];
    first = last;
  }
  std::vector<uint32_t> place_of(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) place_of[order[i]] = i;
  std::vector<HostFrame> sorted;
  std::vector<uint32_t> callers;
  sorted.reserve(order.size());
  for (const uint32_t from : order) {
    sorted.push_back(frames.frames[from]);
    callers.push_back(links.caller[from] == kNone ? kNone : place_of[links.caller[from]]);
  }
  frames.frames = std::move(sorted);
  links.caller = std::move(callers);
  links.depth.clear();
}

// Gives stacks as names in the table of strings, each built once.
class Stacks {
 public:
  Stacks(const HostFrames& frames, const std::vector<uint32_t>& callers, capture::StringTable& strings)
      : frames_(frames), callers_(callers), strings_(strings), of_frame_(callers.size(), kNoName) {}

  NameId Of(uint32_t frame) {
    std::vector<uint32_t> chain;
    for (uint32_t at = frame; at != kNone && of_frame_[at] == kNoName; at = callers_[at]) chain.push_back(at);
    for (size_t i = chain.size(); i-- > 0;) {
      const uint32_t caller = callers_[chain[i]];
      of_frame_[chain[i]] = Add(frames_.frames[chain[i]].name, caller == kNone ? kNoName : of_frame_[caller]);
    }
    return of_frame_[frame];
  }

 private:
  NameId Add(NameId name, NameId outer) {
    const auto [it, fresh] = added_.try_emplace({name, outer}, kNoName);
    if (!fresh) return it->second;
    std::string text(strings_.Text(name));
    if (outer != kNoName) text.append(";").append(Innermost(strings_.Text(outer), kMostCalls - 1));
    return it->second = strings_.Intern(text);
  }
  static std::string_view Innermost(std::string_view stack, size_t calls) {
    size_t end = 0;
    for (size_t i = 0; i < calls && end != std::string_view::npos; ++i)
      end = stack.find(';', i == 0 ? 0 : end + 1);
    return stack.substr(0, end);
  }

  const HostFrames& frames_;
  const std::vector<uint32_t>& callers_;
  capture::StringTable& strings_;
  std::vector<NameId> of_frame_;
  absl::flat_hash_map<std::pair<NameId, NameId>, NameId> added_;
};

// Calls `see` with each frame and the innermost function around it (kNone: there is none).
template <typename See>
void ForEachInside(const HostFrames& frames, const See& see) {
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < frames.frames.size(); ++i) {
    const HostFrame& frame = frames.frames[i];
    while (!open.empty()) {
      const HostFrame& around = frames.frames[open.back()];
      if (around.thread == frame.thread && around.end > frame.start) break;
      open.pop_back();
    }
    see(i, open.empty() ? kNone : open.back());
    if (IsPython(frame)) open.push_back(i);
  }
}

}  // namespace

void LinkPythonFrames(HostFrames& frames, capture::StringTable& strings) {
  Callers links = FindCallers(frames);
  EndWithCallers(links, frames);
  SortFrames(frames, links);
  if (std::none_of(frames.frames.begin(), frames.frames.end(), IsPython)) return;
  std::vector<uint32_t> function_around(frames.frames.size(), kNone);
  ForEachInside(frames, [&](uint32_t frame, uint32_t function) {
    function_around[frame] = function;
    if (links.caller[frame] == kNone && IsPython(frames.frames[frame])) links.caller[frame] = function;
  });
  Stacks stacks(frames, links.caller, strings);
  for (uint32_t i = 0; i < frames.frames.size(); ++i) {
    HostFrame& frame = frames.frames[i];
    if (IsPython(frame) || function_around[i] == kNone) continue;
    if (frame.detail == kNone) {
      frame.detail = static_cast<uint32_t>(frames.details.size());
      frames.details.emplace_back();
    }
    capture::FrameDetail& detail = frames.details[frame.detail];
    if (detail.stack == kNoName) detail.stack = stacks.Of(function_around[i]);
  }
}

}  // namespace lockstep::formats
