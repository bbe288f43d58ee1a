// Which rows of one rank belong to each other: launches to what they launched, annotations to their
// collectives.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_KINETO_LINKS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_KINETO_LINKS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/json/json_text.h"
#include "capture/model/capture.h"

namespace lockstep::trace {

// Built once over a Finish()ed rank; refers to it. Read-only afterwards.
class KinetoLinks {
 public:
  KinetoLinks(const store::Capture& capture, const store::RankData& rank);

  // Does this call have device activity of its own?
  bool Launches(CorrelationId correlation) const {
    return launched_.contains(correlation) && called_.contains(correlation);
  }
  bool IsLaunched(CorrelationId correlation) const { return Launches(correlation); }

  // Rows with one id are one collective to TensorBoard's plugin; 0: none.
  uint64_t ExternalId(const store::HostRange& range) const;
  uint64_t ExternalId(const store::DeviceActivity& activity) const;

  // What this wait for an event waits for; null: nobody said what was recorded.
  const store::EventRecord* RecordFor(const store::Sync& sync) const;

  // Collectives launched by this call with no range around that names them already. Usually empty.
  const std::vector<uint32_t>& CollectivesWithoutRange(CorrelationId correlation) const;

 private:
  void LinkCollectives();
  void LinkEvents();

  struct RecordedAt {
    HostTime call;
    const store::EventRecord* record;
  };

  const store::Capture& capture_;
  const store::RankData& rank_;
  absl::flat_hash_set<CorrelationId> launched_;
  absl::flat_hash_set<CorrelationId> called_;
  absl::flat_hash_map<uint32_t, uint64_t> id_of_collective_;
  absl::flat_hash_map<uint32_t, std::vector<RecordedAt>> records_of_event_;  // in order of time
  absl::flat_hash_map<CorrelationId, HostTime> wait_calls_;
  absl::flat_hash_map<const store::HostRange*, uint64_t> id_of_range_;
  absl::flat_hash_map<CorrelationId, std::vector<uint32_t>> without_range_;
};

// The collective arguments of a kernel row, each with a comma in front; nothing where nothing is known beyond
// the name.
void WriteCollectiveArgs(const store::Capture& capture, const store::Collective& collective, JsonText& out);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_KINETO_LINKS_H_
