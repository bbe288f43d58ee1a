#include "aggregator/captures/capture_feed.h"

#include <algorithm>

#include "aggregator/nodes/clock.h"

namespace lockstep::aggregator {

void CaptureFeed::Add(const v1::TraceEvent& event) {
  {
    MutexLock lock(&mutex_);
    if (event.has_accepted()) accepted_ = event;
    if (event.has_rank()) ranks_[{event.rank().host_name(), event.rank().state().process().pid()}] = event;
    if (event.has_finished()) finished_ = event;
    for (Queue* queue : followers_) {
      if (queue->size() < kMostWaiting) queue->push_back(event);
    }
  }
  changed_.SignalAll();
}

CaptureFeed::Queue CaptureFeed::Summary() const {
  Queue summary;
  if (accepted_) summary.push_back(*accepted_);
  for (const auto& [process, event] : ranks_) summary.push_back(event);
  if (finished_) summary.push_back(*finished_);
  return summary;
}

bool CaptureFeed::Follow(const std::function<bool(const v1::TraceEvent&)>& write) {
  MutexLock lock(&mutex_);
  Queue queue = Summary();
  followers_.insert(&queue);
  bool written = true;
  bool finished = false;
  while (written && !finished) {
    changed_.Wait(&mutex_, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue.empty(); });
    written = queue.size() < kMostWaiting;
    const v1::TraceEvent event = std::move(queue.front());
    queue.pop_front();
    finished = event.has_finished();
    MutexUnlock unlocked(&mutex_);
    written = written && write(event);
  }
  followers_.erase(&queue);
  left_ = MonoNow();
  return written;
}

Nanos CaptureFeed::WithoutFollower(MonoTime start, MonoTime now) const {
  MutexLock lock(&mutex_);
  return followers_.empty() ? now - std::max(start, left_) : Nanos();
}

}  // namespace lockstep::aggregator
