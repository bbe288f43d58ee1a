// CaptureFeed passes the events of one capture to callers that come and go. A caller whose connection broke
// follows the same capture again.
//
// Thread-safe.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_FEED_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_FEED_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/time.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

class CaptureFeed {
 public:
  // The last event has `finished`.
  void Add(const v1::TraceEvent& event);
  // Writes what a new caller must know of the events so far, and then every later one, until the last.
  // Returns false if `write` did.
  bool Follow(const std::function<bool(const v1::TraceEvent&)>& write);
  // Returns the time since the last follower left, or since `start` if that is later; 0 if there is one.
  Nanos WithoutFollower(MonoTime start, MonoTime now) const;

 private:
  using Queue = std::deque<v1::TraceEvent>;
  static constexpr size_t kMostWaiting = 100'000;  // events; a follower that is behind by more is left

  Queue Summary() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<v1::TraceEvent> accepted_ ABSL_GUARDED_BY(mutex_);
  // The last event of each rank, by host and pid.
  std::map<std::pair<std::string, int32_t>, v1::TraceEvent> ranks_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::TraceEvent> finished_ ABSL_GUARDED_BY(mutex_);
  std::set<Queue*> followers_ ABSL_GUARDED_BY(mutex_);
  MonoTime left_ ABSL_GUARDED_BY(mutex_);  // time when the last follower left
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_FEED_H_
