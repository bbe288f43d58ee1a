// lockstep report: the report of a capture, again or in another format.
#include <memory>

#include "cli/aggregator_client.h"
#include "cli/analysis_output.h"
#include "cli/command.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "Print the report of a capture: a folder that lockstep trace wrote, or the id of one that an aggregator "
    "keeps.\n"
    "\n"
    "Examples:\n"
    "  lockstep report ./lockstep-4711-20260301-120000\n"
    "  lockstep report 20260301-120000-0a1b2c --format json\n"
    "  lockstep report 20260301-120000-0a1b2c --aggregator head:7077 --token-file ~/.lockstep-token\n";

struct Flags {
  std::string capture;
  AggregatorFlags aggregator;
  ReportFlags report;
};

ExitCode Report(const Flags& flags) {
  if (absl::Status s = CheckReportFlags(flags.report); !s.ok()) return Fail(s);
  std::unique_ptr<TemporaryFolder> fetched;
  auto folder = FindOrFetchCapture(flags.capture, flags.aggregator, fetched);
  if (!folder.ok()) return Fail(folder.status());
  Progress progress;
  auto capture = ReadPaths({*folder}, progress, DetailFor(flags.report));
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  ReportFlags print = flags.report;
  print.source = flags.capture;
  print.has_traces = HasTraces(print.source);
  const report::Analysis analysis = report::Analyze(*capture);
  progress.Clear();
  return PrintReport(*capture, analysis, print);
}

}  // namespace

void AddReport(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "report", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("CAPTURE", flags->capture, "A capture's folder or id")->required();
  AddAggregatorFlags(*sub, flags->aggregator);
  AddReportFlags(*sub, flags->report);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Report(*flags); }; });
}

}  // namespace lockstep::cli
