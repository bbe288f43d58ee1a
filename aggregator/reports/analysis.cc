#include "aggregator/reports/analysis.h"

#include "analysis/gains/fit_memory.h"
#include "base/rpc/status_macros.h"
#include "formats/common/read_options.h"
#include "formats/input/read_input.h"
#include "report/report.h"
#include "web/page/page.h"

namespace lockstep::aggregator {
namespace {

ReportFacts FactsOf(const report::Report& report) {
  ReportFacts facts;
  for (const report::IncompleteRow& row : report.capture.incomplete)
    facts.incomplete.push_back({row.rank, row.reason});
  facts.stragglers = report.stragglers.size();
  facts.step_ns = report.slowdown.step_ns;
  facts.ratio = report.slowdown.ratio;
  facts.lost_ns_per_step = report.slowdown.lost_ns_per_step;
  return facts;
}

}  // namespace

absl::StatusOr<ReportFacts> AnalyseCapture(const std::string& folder, const ReportResources& resources,
                                           const ReportSinks& sinks) {
  formats::ReadOptions options;
  // The page also shows operators.
  if (sinks.page != nullptr) options.host = formats::HostDetail::kFrames;
  LOCKSTEP_ASSIGN_OR_RETURN(capture::Capture capture, formats::LoadCapture(folder, options));
  LOCKSTEP_ASSIGN_OR_RETURN(const analysis::MemoryFit fit,
                            analysis::FitIntoMemory({.bytes = resources.memory_bytes,
                                                     .option = "--analysis-memory",
                                                     .threads = resources.threads,
                                                     .with_page = sinks.page != nullptr},
                                                    capture));
  const report::Analysis analysis = report::Analyze(capture, {.threads = fit.threads});
  const report::Report& report = analysis.report;
  LOCKSTEP_RETURN_IF_ERROR(report::WriteJson(report, sinks.json));
  LOCKSTEP_RETURN_IF_ERROR(sinks.json.Finish());
  LOCKSTEP_RETURN_IF_ERROR(
      sinks.text.Append(report::RenderText(report, {.lines = 0, .source = report.capture.id})));
  LOCKSTEP_RETURN_IF_ERROR(sinks.text.Finish());
  if (sinks.page != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(
        web::WritePage({.capture = capture, .analysis = analysis, .source = report.capture.id}, *sinks.page));
    LOCKSTEP_RETURN_IF_ERROR(sinks.page->Finish());
  }
  return FactsOf(report);
}

}  // namespace lockstep::aggregator
