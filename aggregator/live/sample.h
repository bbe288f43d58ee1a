// Summarizes one sample for `lockstep top`.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_SAMPLE_H_
#define LOCKSTEP_AGGREGATOR_LIVE_SAMPLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "aggregator/live/sampling_schedule.h"
#include "capture/model/capture.h"
#include "lockstep/v1/live.pb.h"
#include "report/report.h"

namespace lockstep::aggregator {

struct Summary {
  v1::Sample sample;  // without its number, begin, window and durations, which JobSampler sets
  StepsSeen steps;
};

// Pure function.
Summary Summarize(const capture::Capture& capture, const report::Analysis& analysis);

// Reads a capture's folder, and analyses it on at most `threads` threads (0: one per core). Returns the
// errors of formats::LoadCapture (kDataLoss, kInvalidArgument).
absl::StatusOr<Summary> ReadSample(const std::string& folder, unsigned threads);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_LIVE_SAMPLE_H_
