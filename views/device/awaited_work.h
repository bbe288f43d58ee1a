// What a synchronising call of the host had to wait for on its process's devices.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_AWAITED_WORK_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_AWAITED_WORK_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "analysis/prepare/launches.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// Of one entry of a capture. Read-only after construction; the rank outlives it.
class AwaitedWork {
 public:
  explicit AwaitedWork(const store::RankData& rank);

  // Whatever was waited for, or all of the device where nothing tells.
  struct Target {
    std::optional<StreamId> stream;
    HostTime launched_before;  // later work is not waited for
    bool told = false;         // the source says what it was
  };
  Target TargetOf(const store::ApiCall& call) const;

  // The copy that the call launched and stayed for; store::kNone: it launched none, or went on before that
  // ended.
  uint32_t BlockingCopy(const store::ApiCall& call) const;

  // Activities that the target holds and that run in the wait, in the order of their starts.
  std::vector<uint32_t> Unfinished(const Target& target, const HostInterval& wait) const;

 private:
  const store::RankData& rank_;
  const analysis::CallIndex calls_;
  std::vector<HostTime>
      launched_;  // by activity: start of its launching call, or of itself where none is known
  std::vector<HostTime> latest_;  // by activity: latest end of any up to it
  absl::flat_hash_map<CorrelationId, uint32_t> copies_;
  absl::flat_hash_map<CorrelationId, uint32_t> syncs_;
  absl::flat_hash_map<uint32_t, std::vector<std::pair<HostTime, StreamId>>> records_;  // by event, sorted
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_AWAITED_WORK_H_
