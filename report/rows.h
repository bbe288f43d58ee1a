// Converts the results of the analysis into the rows of the report. Only Analyze() uses it.
#ifndef LOCKSTEP_REPORT_ROWS_H_
#define LOCKSTEP_REPORT_ROWS_H_

#include <vector>

#include "analysis/explain/diagnosis.h"
#include "analysis/explain/shared_losses.h"
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
  const capture::Capture& capture;
  const capture::Matches& matches;
  const capture::ClockModel& clock;
  const analysis::CollectiveTimes& times;
  const analysis::Steps& steps;
  const std::vector<analysis::TimePartition>& partitions;
  const analysis::Diagnosis& diagnosis;
  unsigned threads;  // number of threads to use, at least 1
};

CaptureRow MakeCaptureRow(const RowInput& in);
// Needs no diagnosis. AddRankGains() adds the part that does.
std::vector<RankRow> MakeRankRows(const RowInput& in);
void AddRankGains(const analysis::Diagnosis& diagnosis, std::vector<RankRow>& rows);
std::vector<StepRow> MakeStepRows(const RowInput& in);
std::vector<BreakdownRow> MakeBreakdownRows(const RowInput& in);
std::vector<CollectiveRow> MakeCollectiveRows(const RowInput& in);
SlowdownRow MakeSlowdownRow(const RowInput& in);
std::vector<StragglerRow> MakeStragglerRows(const RowInput& in);
std::vector<FixRow> MakeFixRows(const RowInput& in);
std::vector<SharedLossRow> MakeSharedLossRows(const std::vector<analysis::SharedLoss>& losses, size_t ranks);
std::vector<NotJudgedRow> MakeNotJudgedRows(const RowInput& in,
                                            const std::vector<analysis::SharedLoss>& losses);
std::optional<WaitingRow> MakeWaitingRow(const RowInput& in);
EfficiencyRow MakeEfficiencyRow(const RowInput& in);
EfficiencyFactors ToRow(const analysis::Efficiency& efficiency);
void AddRankEfficiencies(const RowInput& in, std::vector<RankRow>& rows);

// Returns the names of the hosts. Hosts may share a name (--node-id on one machine, containers); the id is
// then added.
std::vector<std::string> HostNames(const capture::Capture& capture);

// Returns, by rank index, the median delay of a rank's steps after the earliest rank's, on the job's clock.
// For an import without step ranges, it is the delay of the first stamp. nullopt: neither is known.
std::vector<std::optional<Nanos>> LatenessFromBefore(const RowInput& in);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_ROWS_H_
