// Turns what the analysis found into the rows of the report. Used by Analyze only.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_ROWS_H_
#define LOCKSTEP_AGGREGATOR_REPORT_ROWS_H_

#include <vector>

#include "analysis/explain/diagnosis.h"
#include "analysis/prepare/collectives.h"
#include "analysis/prepare/steps.h"
#include "analysis/time/efficiency.h"
#include "analysis/time/time_partition.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "report/model.h"

namespace lockstep::report {

struct RowInput {
  const store::Capture& capture;
  const align::Matches& matches;
  const align::ClockModel& clock;
  const analysis::CollectiveTimes& times;
  const analysis::Steps& steps;
  const std::vector<analysis::TimePartition>& partitions;
  const analysis::Diagnosis& diagnosis;
  unsigned threads;  // to use, at least 1
};

CaptureRow MakeCaptureRow(const RowInput& in);
// Needs no diagnosis: that part is added once it is there.
std::vector<RankRow> MakeRankRows(const RowInput& in);
void AddRankGains(const analysis::Diagnosis& diagnosis, std::vector<RankRow>& rows);
std::vector<StepRow> MakeStepRows(const RowInput& in);
std::vector<BreakdownRow> MakeBreakdownRows(const RowInput& in);
std::vector<CollectiveRow> MakeCollectiveRows(const RowInput& in);
SlowdownRow MakeSlowdownRow(const RowInput& in);
std::vector<StragglerRow> MakeStragglerRows(const RowInput& in);
std::vector<FixRow> MakeFixRows(const RowInput& in);
std::optional<WaitingRow> MakeWaitingRow(const RowInput& in);
EfficiencyRow MakeEfficiencyRow(const RowInput& in);
EfficiencyFactors ToRow(const analysis::Efficiency& efficiency);
void AddRankEfficiencies(const RowInput& in, std::vector<RankRow>& rows);
// Of the finished rest of the report.
std::vector<std::string> MakeRecommendations(const Report& report);

// Nodes may share a name (--node-id on one machine, containers): then the id tells them apart.
std::vector<std::string> HostNames(const store::Capture& capture);

// How much later than on the earliest rank each rank's steps begin, on the job's clock, by rank index (median
// over the steps); in imports without step ranges the same of their first stamps. Null where neither can be
// known.
std::vector<std::optional<Nanos>> LatenessFromBefore(const RowInput& in);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_ROWS_H_
