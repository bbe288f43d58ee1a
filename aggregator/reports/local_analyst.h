// LocalAnalyst analyses captures in this process, without limits.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_LOCAL_ANALYST_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_LOCAL_ANALYST_H_

#include "aggregator/reports/analyst.h"

namespace lockstep::aggregator {

// Shutdown() does not wait for analyses, and does not end them.
class LocalAnalyst final : public Analyst {
 public:
  absl::StatusOr<ReportFacts> Report(const StoredCapture& capture, WritesPage page) override;
  absl::StatusOr<Summary> Sample(const StoredCapture& capture) override;
  void Shutdown() override {}
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_LOCAL_ANALYST_H_
