// Limits for the number, size and age of stored captures, and their enforcement.
#ifndef LOCKSTEP_AGGREGATOR_RETENTION_H_
#define LOCKSTEP_AGGREGATOR_RETENTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "aggregator/ingest/capture_use.h"
#include "base/time.h"

namespace lockstep::aggregator {

struct Retention {
  size_t captures = 100;
  uint64_t bytes = 20ull << 30;
  uint64_t user_bytes = 10ull << 30;  // of the jobs of one user
  std::optional<Nanos> age;           // nothing: no limit
};

// The captures in a folder that have the mark of a stored capture.
struct StoreUse {
  size_t captures = 0;
  uint64_t bytes = 0;
};
// Reads the size of every file, so it may be slow.
StoreUse MeasureStore(const std::string& folder);

struct RetiredCapture {
  std::string name;
  uint64_t bytes = 0;
  // The exceeded limit: "age", "user_bytes", "captures" or "bytes"; "recording": it was surplus.
  const char* reason = "";
};
struct Retired {
  std::vector<RetiredCapture> captures;  // in the order of their removal
  // One sentence per capture that could not be removed.
  std::vector<std::string> failed;
  StoreUse left;
};

// Returns the time in the capture's name, by the clock of the aggregator that named it. Returns nothing if
// the name does not have our format.
std::optional<JobTime> CaptureTime(const std::string& name);

// First removes the captures of `folder` that are surplus or older than the age limit, including the newest.
// Then removes the oldest of each user until the user's limit holds, but never the user's newest. Then
// removes the oldest until both other limits hold, but never the newest. Names sort by time.
//
// Only folders with the mark of a stored capture count and are removed (base/files/own_folder.h). Keeps
// captures that `in_use` names or that are being read. Without `now` no capture is removed for its age. A
// capture whose time is in the future is not old. A capture is renamed before it is removed, so that no
// reader sees a part of it. Renamed captures that an earlier process left behind are removed too.
Retired Retire(const std::string& folder, const Retention& limits, std::optional<JobTime> now,
               const std::set<std::string>& surplus, aggregator::CaptureUse& use,
               const std::function<bool(const std::string&)>& in_use);

// Decides whether the time of day is reliable for ages: since the last call it must have advanced as much as
// the monotonic clock. After a step in either direction it is trusted again once two successive calls agree.
// One thread at a time.
class ClockStepDetector {
 public:
  bool IsReliable(JobTime now, MonoTime mono);

 private:
  static constexpr Nanos kLargestStep = Nanos::Seconds(600);
  std::optional<Nanos> difference_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_RETENTION_H_
