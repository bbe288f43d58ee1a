// KinetoLinks joins related rows of one rank: launches with their activities, and annotations with their
// collectives.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_LINKS_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_LINKS_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/json/json_text.h"
#include "capture/model/capture.h"

namespace lockstep::formats {

// It is built once from a Finish()ed rank, which outlives it. Read-only afterwards.
class KinetoLinks {
 public:
  KinetoLinks(const capture::Capture& capture, const capture::RankData& rank);

  // True if the call exists and launched a device activity.
  bool Launches(CorrelationId correlation) const {
    return launched_.contains(correlation) && called_.contains(correlation);
  }
  bool IsLaunched(CorrelationId correlation) const { return Launches(correlation); }

  // Rows with the same id are one collective for TensorBoard's plugin. 0: the row has no id.
  uint64_t ExternalId(const capture::HostRange& range) const;
  uint64_t ExternalId(const capture::DeviceActivity& activity) const;

  // Returns the event record that this wait waits for. Null: the capture holds no earlier record of the
  // event.
  const capture::EventRecord* RecordFor(const capture::Sync& sync) const;

  // Returns the collectives launched by this call, if no range around the call names them. The list is
  // usually empty.
  const std::vector<uint32_t>& CollectivesWithoutRange(CorrelationId correlation) const;

 private:
  void LinkCollectives();
  void LinkEvents();

  struct RecordedAt {
    HostTime call;
    const capture::EventRecord* record;
  };

  const capture::Capture& capture_;
  const capture::RankData& rank_;
  absl::flat_hash_set<CorrelationId> launched_;
  absl::flat_hash_set<CorrelationId> called_;
  absl::flat_hash_map<uint32_t, uint64_t> id_of_collective_;
  absl::flat_hash_map<uint32_t, std::vector<RecordedAt>> records_of_event_;  // in order of time
  absl::flat_hash_map<CorrelationId, HostTime> wait_calls_;
  absl::flat_hash_map<const capture::HostRange*, uint64_t> id_of_range_;
  absl::flat_hash_map<CorrelationId, std::vector<uint32_t>> without_range_;
};

// Writes the arguments of a kernel row that describe its collective, each with a comma in front. Writes
// nothing if only the name is known.
void WriteCollectiveArgs(const capture::Capture& capture, const capture::Collective& collective,
                         JsonText& out);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_LINKS_H_
