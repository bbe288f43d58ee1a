// How much the aggregator keeps, and for how long.
#ifndef LOCKSTEP_AGGREGATOR_RETENTION_H_
#define LOCKSTEP_AGGREGATOR_RETENTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "aggregator/ingest/capture_use.h"
#include "base/time.h"

namespace lockstep {

struct Retention {
  size_t captures = 100;
  uint64_t bytes = 20ull << 30;
  std::optional<Nanos> age;  // nothing: however old they become
};

// What a folder of captures holds.
struct StoreUse {
  size_t captures = 0;
  uint64_t bytes = 0;
};
// Looks at every file.
StoreUse MeasureStore(const std::string& folder);

struct RetiredCapture {
  std::string name;
  uint64_t bytes = 0;
  const char* reason = "";  // "age", "captures" or "bytes": the limit that it was removed for
};
struct Retired {
  std::vector<RetiredCapture> captures;  // oldest first
  // Captures that were to go and could not be removed, with the reason.
  std::vector<std::string> failed;
  StoreUse left;
};

// When the capture of this name began, by the clock of the aggregator that named it; nothing where the name
// is none of ours.
std::optional<JobTime> CaptureTime(const std::string& name);

// Removes the captures of `folder` that are older than the limit, the newest too, and then the oldest (their
// names sort by time) until both other limits hold, the newest never. Those that `in_use` names, or that
// somebody reads, stay. Without `now` no age is known, and nothing is removed for it; what is from the future
// is not old. A capture is moved aside before it is removed, so that none is seen in part; what an earlier
// process had moved aside goes too.
Retired Retire(const std::string& folder, const Retention& limits, std::optional<JobTime> now,
               ingest::CaptureUse& use, const std::function<bool(const std::string&)>& in_use);

// Whether the time of day can be trusted to tell ages: it went as the monotonic clock did since it was asked
// last. After a step, in either direction, it is trusted again when it was steady from one asking to the
// next. One thread.
class SteadyTime {
 public:
  bool Trusts(JobTime now, MonoTime mono);

 private:
  static constexpr Nanos kLargestStep = Nanos::Seconds(600);
  std::optional<Nanos> difference_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_AGGREGATOR_RETENTION_H_
