// Describes a capture: as the manifest of records/, and its end as a TraceFinished for the CLI. Pure
// functions.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_OUTCOME_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_OUTCOME_H_

#include <string>
#include <vector>

#include "aggregator/captures/capture_data.h"
#include "aggregator/captures/capture_ranks.h"
#include "aggregator/captures/selection.h"
#include "aggregator/captures/start_plan.h"
#include "aggregator/nodes/node_clocks.h"
#include "capture/store/records_manifest.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::aggregator {

// A capture without its data.
struct CaptureFacts {
  const std::string& id;
  const Selection& selection;
  const v1::TraceRequest& request;
  const CaptureRanks& ranks;
  const StartPlan& plan;
  const NodeClocks& clocks;
  JobTime made_at;
  std::string write_error;  // CaptureData::error()
  std::string restarted;    // not empty: what a restart of the aggregator did to the capture
};

// `stored` has the ranks' data in the order of the selection. It is empty for the open manifest, which is
// written when the capture begins.
capture::Manifest MakeManifest(const CaptureFacts& facts, const std::vector<StoredRank>& stored);

// `end` says whether the capture ended by itself.
enum class EndedBy { kItself, kStop };
v1::TraceFinished MakeOutcome(const CaptureFacts& facts, const std::vector<StoredRank>& stored, EndedBy end);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_OUTCOME_H_
