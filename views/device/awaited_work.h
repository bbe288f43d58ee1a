// AwaitedWork finds the device work that a synchronising call of the host waited for.
#ifndef LOCKSTEP_VIEWS_DEVICE_AWAITED_WORK_H_
#define LOCKSTEP_VIEWS_DEVICE_AWAITED_WORK_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/launches.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// It covers one entry of a capture. Read-only after construction. The rank outlives it.
class AwaitedWork {
 public:
  explicit AwaitedWork(const capture::RankData& rank);

  // The work that a call waits for: that of a stream, or of the whole device if the stream is unknown.
  struct Target {
    std::optional<StreamId> stream;
    HostTime launched_before;  // later work is not waited for
    bool is_named = false;     // the source names the target
  };
  Target TargetOf(const capture::ApiCall& call) const;

  // Returns the copy that the call launched and waited for. capture::kNone: the call launched no copy, or
  // returned before the copy ended.
  uint32_t BlockingCopy(const capture::ApiCall& call) const;

  // Returns the activities of the target that run during the wait, in the order of their starts.
  std::vector<uint32_t> Unfinished(const Target& target, const HostInterval& wait) const;

 private:
  const capture::RankData& rank_;
  const analysis::CallIndex calls_;
  std::vector<HostTime>
      launched_;  // by activity: start of its launching call, or its own start if that is unknown
  std::vector<HostTime> latest_;  // by activity: latest end of all activities up to it
  absl::flat_hash_map<CorrelationId, uint32_t> copies_;
  absl::flat_hash_map<CorrelationId, uint32_t> syncs_;
  absl::flat_hash_map<uint32_t, std::vector<std::pair<HostTime, StreamId>>>
      records_;  // by event, sorted by time
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_AWAITED_WORK_H_
