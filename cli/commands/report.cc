// Implements `lockstep report`: prints the report of a capture again, or in another format.
#include <csignal>
#include <cstdio>
#include <memory>

#include "analysis/gains/fit_memory.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_span.h"
#include "cli/common/command.h"
#include "cli/common/page_server.h"
#include "formats/common/read_options.h"
#include "web/page/page.h"

namespace lockstep::cli {
namespace {

constexpr char kReportAbout[] =
    "Print the report of a capture: a folder that lockstep trace wrote, or the id of one that an aggregator "
    "keeps.\n"
    "\n"
    "Examples:\n"
    "  lockstep report ./lockstep-4711-20260301-120000\n"
    "  lockstep report 20260301-120000-0a1b2c --format json\n"
    "  lockstep report 20260301-120000-0a1b2c --open\n"
    "  lockstep report 20260301-120000-0a1b2c --aggregator head:7077 --token-file ~/.lockstep-token\n";

struct ReportCommandFlags {
  std::string capture, span;
  bool open = false;
  uint64_t memory_bytes = 0;
  AggregatorFlags aggregator;
  ReportFlags report;
};

// Serves the page until SIGINT or SIGTERM.
ExitCode OpenPage(const capture::Capture& capture, const report::Analysis& analysis,
                  const std::string& source) {
  StringSink page;
  if (absl::Status s = web::WritePage({.capture = capture, .analysis = analysis, .source = source}, page);
      !s.ok())
    return Fail(s);
  // Blocked before the server's thread starts, so that the thread does not receive them.
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&ends, signal);
  ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  auto server = PageServer::Start(page.text());
  if (!server.ok()) return Fail(server.status());
  const absl::StatusOr<std::string> address = (*server)->NewAddress();
  if (!address.ok()) return Fail(address.status());
  const absl::StatusOr<std::string> opener = (*server)->NewOpener();
  if (!opener.ok()) return Fail(opener.status());
  std::printf("%s\n", address->c_str());
  std::fflush(stdout);
  PrintMessage(
      OpenInBrowser(*opener)
          ? "the report is served until Ctrl-C; the address opens it once more, in one browser"
          : "no browser was started ($BROWSER, xdg-open): open the address, which one browser can do once; "
            "the report is served until Ctrl-C");
  int signal = 0;
  ::sigwait(&ends, &signal);
  return ExitCode::kDone;
}

ExitCode Report(const ReportCommandFlags& flags) {
  if (absl::Status s = CheckReportFlags(flags.report); !s.ok()) return Fail(s);
  std::unique_ptr<TemporaryFolder> fetched;
  auto folder = FindOrFetchCapture(flags.capture, flags.aggregator, fetched);
  if (!folder.ok()) return Fail(folder.status());
  const uint64_t memory = MemoryLimitOf(flags.memory_bytes);
  if (!flags.open) LimitMemory(memory);  // a browser would inherit the limit
  const analysis::MemoryLimit limit{.bytes = memory,
                                    .with_page = flags.open || flags.report.format == "html"};
  capture::RowOverflow overflow = OverflowOf(limit);
  Progress progress;
  auto capture =
      ReadPaths({*folder}, progress, flags.open ? formats::HostDetail::kFrames : DetailFor(flags.report),
                flags.span, overflow);
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  const auto fit = FitAnalysis(limit, overflow, *capture, progress);
  if (!fit.ok()) return Fail(fit.status());
  ReportFlags print = flags.report;
  print.source = flags.capture;
  print.has_traces = HasTraces(print.source);
  const report::Analysis analysis =
      report::Analyze(*capture, {.threads = fit->threads, .disk = fit->disk.get()});
  progress.Clear();
  if (flags.open) return OpenPage(*capture, analysis, print.source);
  return PrintReport(*capture, analysis, print);
}

}  // namespace

void AddReport(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "report", kReportAbout);
  auto flags = std::make_shared<ReportCommandFlags>();
  sub->add_option("CAPTURE", flags->capture, "A capture's folder or id")->required();
  AddAggregatorFlags(*sub, flags->aggregator);
  AddSpanFlag(*sub, flags->span);
  AddMemoryFlag(*sub, flags->memory_bytes);
  AddReportFlags(*sub, flags->report);
  sub->add_flag("--open", flags->open,
                "Show it in a browser ($BROWSER or xdg-open), from a port of this machine, until Ctrl-C")
      ->excludes(sub->get_option("--format"))
      ->excludes(sub->get_option("--output"));
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Report(*flags); }; });
}

}  // namespace lockstep::cli
