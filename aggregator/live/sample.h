// What is told of one sample.
#ifndef LOCKSTEP_AGGREGATOR_LIVE_SAMPLE_H_
#define LOCKSTEP_AGGREGATOR_LIVE_SAMPLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "aggregator/live/pace.h"
#include "capture/model/capture.h"
#include "lockstep/v1/live.pb.h"
#include "report/report.h"

namespace lockstep::live {

struct Summary {
  v1::Sample sample;  // without its place among the job's samples: number, begin, window and how long it took
  StepsSeen steps;
};

// Pure.
Summary Summarize(const store::Capture& capture, const report::Analysis& analysis);

// Reads and analyses a capture's folder. kDataLoss, kInvalidArgument as of trace::LoadCapture.
absl::StatusOr<Summary> ReadSample(const std::string& folder);

}  // namespace lockstep::live

#endif  // LOCKSTEP_AGGREGATOR_LIVE_SAMPLE_H_
