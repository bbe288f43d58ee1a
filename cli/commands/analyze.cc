// Implements `lockstep analyze`: the report of recorded traces, without a running job.
#include <memory>

#include "absl/strings/str_cat.h"
#include "analysis/gains/fit_memory.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_span.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

constexpr char kAnalyzeAbout[] =
    "Analyse recorded traces: which rank holds the others back, why, and what fixing it would gain.\n"
    "\n"
    "Reads folders that lockstep trace wrote; Kineto/PyTorch traces (.json, .json.gz), one per rank and\n"
    "recording, as files, in a folder or in folders inside it; SQLite exports of Nsight Systems\n"
    "(nsys export --type sqlite --include-blobs=true); a trace of nvprof (--print-gpu-trace --csv); and a\n"
    "job's own timeline, one file for all ranks (docs/formats/timeline.md).\n"
    "\n"
    "Examples:\n"
    "  lockstep analyze ./traces\n"
    "  lockstep analyze rank0.json.gz rank1.json.gz --format json -o report.json\n"
    "  lockstep analyze ./tensorboard-logs --span 2\n"
    "  lockstep analyze job.sqlite\n"
    "  lockstep analyze ./traces --exit-code || echo 'a straggler, or no usable input'\n";

struct AnalyzeFlags {
  std::vector<std::string> paths;
  std::string communication, span;
  uint64_t memory_bytes = 0;
  ReportFlags report;
};

ExitCode Analyze(const AnalyzeFlags& flags) {
  if (absl::Status s = CheckReportFlags(flags.report); !s.ok()) return Fail(s);
  const uint64_t memory = MemoryLimitOf(flags.memory_bytes);
  LimitMemory(memory);
  const analysis::MemoryLimit limit{
      .bytes = memory, .with_page = flags.report.format == "html", .with_copy = !flags.communication.empty()};
  capture::RowOverflow overflow = OverflowOf(limit);
  Progress progress;
  auto capture = ReadPaths(flags.paths, progress, DetailFor(flags.report), flags.span, overflow);
  // Every error is an error of the input, hence kUsage.
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  const auto fit = FitAnalysis(limit, overflow, *capture, progress);
  if (!fit.ok()) return Fail(fit.status());
  report::AnalyzeOptions options;
  options.communication_pattern = flags.communication;
  options.threads = fit->threads;
  options.disk = fit->disk.get();
  ReportFlags print = flags.report;
  // Set only for one path, because `lockstep whatif` takes one path.
  if (flags.paths.size() == 1) print.source = flags.paths[0];
  print.has_traces = !print.source.empty() && HasTraces(print.source);
  const report::Analysis analysis = report::Analyze(*capture, options);
  progress.Clear();
  return PrintReport(*capture, analysis, print);
}

}  // namespace

void AddAnalyze(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "analyze", kAnalyzeAbout);
  auto flags = std::make_shared<AnalyzeFlags>();
  sub->add_option("PATH", flags->paths, "Files and folders")->required();
  sub->add_option("--communication", flags->communication,
                  "Regular expression of further kernel names that are communication");
  AddSpanFlag(*sub, flags->span);
  AddMemoryFlag(*sub, flags->memory_bytes);
  AddReportFlags(*sub, flags->report);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Analyze(*flags); }; });
}

}  // namespace lockstep::cli
