// Finds the ranks of a recorded capture that were not recorded in whole. See docs/formats/report.md.
#ifndef LOCKSTEP_CAPTURE_STORE_COMPLETENESS_H_
#define LOCKSTEP_CAPTURE_STORE_COMPLETENESS_H_

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "capture/model/capture.h"
#include "capture/store/records_blocks.h"
#include "capture/store/records_manifest.h"

namespace lockstep::capture {

// The manifest of a capture. kOpen: only the one of its start exists. kNone: there is none, or it is damaged.
enum class ManifestState : uint8_t { kFinal, kOpen, kNone };

// The part of one client process in records/.
struct ProcessRecords {
  const ManifestProcess& process;
  const RankData& data;
  RowCounts rows = {};   // as read
  bool damaged = false;  // blocks or files of it could not be read
};

// Returns the reasons why the process was not recorded in whole, or nullopt if it was. `requested` is
// Manifest::requested. A window may begin and end late or early by 1 % of its length, and by 20 ms: messages
// take time.
std::optional<IncompleteRank> CheckProcess(const ProcessRecords& records, Nanos requested,
                                           ManifestState manifest);

// Returns the step of the host's clock between two readings of it, the largest one if there are several.
// nullopt: it was not stepped. NTP moves a clock by at most 0.05 % without a step.
std::optional<Nanos> ClockStep(const std::vector<ClockReading>& readings);

// Adds the entry, and joins it with an earlier entry of the rank. Keeps the list sorted by rank.
void AddIncomplete(IncompleteRank entry, std::vector<IncompleteRank>& all);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_COMPLETENESS_H_
