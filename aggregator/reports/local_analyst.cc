#include "aggregator/reports/local_analyst.h"

#include <memory>
#include <vector>

#include "aggregator/reports/analysis.h"
#include "aggregator/reports/report_files.h"
#include "base/files/file_sink.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {

absl::StatusOr<ReportFacts> LocalAnalyst::Report(const StoredCapture& capture, WritesPage page) {
  LOCKSTEP_ASSIGN_OR_RETURN(ReportFiles files, ReportFiles::Create(capture.folder, page));
  std::vector<std::unique_ptr<ByteSink>> sinks;
  for (const ReportFile& file : files.files()) sinks.push_back(FdSink(file.fd.get(), file.path));
  LOCKSTEP_ASSIGN_OR_RETURN(ReportFacts facts,
                            AnalyseCapture(capture.folder, {},
                                           {.json = *sinks[0],
                                            .text = *sinks[1],
                                            .page = page == WritesPage::kYes ? sinks[2].get() : nullptr}));
  LOCKSTEP_RETURN_IF_ERROR(files.Commit());
  return facts;
}

absl::StatusOr<Summary> LocalAnalyst::Sample(const StoredCapture& capture) {
  return ReadSample(capture.folder, 0);
}

}  // namespace lockstep::aggregator
