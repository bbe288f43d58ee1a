// An alarm: what was noticed in a running job, without a request of a user.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_ALARM_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_ALARM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "aggregator/nodes/seen_rank.h"
#include "base/ids.h"
#include "base/time.h"

namespace lockstep::aggregator {

struct Alarm {
  enum class Kind : uint8_t {
    kSlower,  // a rank takes longer than it did
    kHang,    // an operation does not end
  };
  Kind kind = Kind::kSlower;
  uint64_t id = 0;  // unique among those of its kind
  JobKey job;
  std::string text;                // a sentence
  std::vector<RankId> ranks;       // those that hold the others up
  std::vector<std::string> hosts;  // theirs, each once
  JobTime noticed;
  // kSlower: the job's time per step since. kHang: how long the ranks have waited.
  Nanos length;
};

// The capture of an alarm, or the reason why there is none. Both are empty if captures are not allowed.
struct AlarmCapture {
  std::string capture, problem;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_ALARM_H_
