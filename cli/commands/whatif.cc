// Implements `lockstep whatif`: replays a capture with some parts typical or faster.
#include "analysis/gains/whatif.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "analysis/gains/fit_memory.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_span.h"
#include "cli/common/command.h"
#include "formats/common/read_options.h"
#include "report/whatif_report.h"

namespace lockstep::cli {
namespace {

constexpr char kWhatifAbout[] =
    "Predict the step time after a fix: replay a capture with a part of it changed.\n"
    "\n"
    "CAPTURE is a folder that lockstep trace wrote, the id of one that an aggregator keeps, or recorded\n"
    "traces. --fix makes its targets typical, that is, like their peers; a list applies at once:\n"
    "  rank=5, rank=4-7   a rank's kernels, copies and host (without its waits for others)\n"
    "  host=n3            all ranks of a host\n"
    "  stage=3            a pipeline stage's kernels, balanced with the median of the other stages\n"
    "  link=5, link=4-7   the transfers of every group and pair that a rank takes part in\n"
    "  group=NAME         the transfers of a communicator, by the name that the report's table shows\n"
    "  op=REGEX           kernels, copies and calls by name, on every rank\n"
    "--strength 0.5 goes half of the way to typical. --scale 0.9 shortens durations by a tenth instead and\n"
    "needs no peers: it predicts the gain of a faster GPU, link or kernel.\n"
    "\n"
    "Examples:\n"
    "  lockstep whatif ./lockstep-4711-20260301-120000 --fix rank=5\n"
    "  lockstep whatif ./traces --fix rank=5,group=tp0 --format json\n"
    "  lockstep whatif ./traces --fix 'op=flash_fwd' --scale 0.8\n"
    "\n"
    "The result is a prediction from a replay of the records. Its interval covers the spread over the "
    "steps,\n"
    "not effects outside the replay.\n";

struct WhatifFlags {
  std::string capture, fix, span;
  double scale = 0;
  double strength = 1;
  uint64_t memory_bytes = 0;
  ReportFlags report;
  AggregatorFlags aggregator;
  CLI::Option* scale_given = nullptr;
  CLI::Option* strength_given = nullptr;
};

absl::StatusOr<analysis::WhatIfRequest> RequestOf(const WhatifFlags& flags) {
  analysis::WhatIfRequest request;
  auto targets = analysis::ParseFixTargets(flags.fix);
  if (!targets.ok()) return targets.status();
  request.targets = *std::move(targets);
  if (flags.scale_given->count() > 0 && flags.strength_given->count() > 0) {
    return absl::InvalidArgumentError("--strength and --scale exclude each other: give one of them");
  }
  if (flags.scale_given->count() > 0) request.scale = flags.scale;
  request.strength = flags.strength;
  return request;
}

ExitCode WhatIf(const WhatifFlags& flags) {
  auto request = RequestOf(flags);
  if (!request.ok()) return Fail(request.status());
  std::unique_ptr<TemporaryFolder> fetched;
  auto folder = FindOrFetchCapture(flags.capture, flags.aggregator, fetched);
  if (!folder.ok()) return Fail(folder.status());
  const uint64_t memory = MemoryLimitOf(flags.memory_bytes);
  LimitMemory(memory);
  const analysis::MemoryLimit limit{.bytes = memory};
  capture::RowOverflow overflow = OverflowOf(limit);
  Progress progress;
  auto capture = ReadPaths({*folder}, progress, formats::HostDetail::kUnions, flags.span, overflow);
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  const auto fit = FitAnalysis(limit, overflow, *capture, progress);
  if (!fit.ok()) return Fail(fit.status());
  const analysis::Prepared prepared(*capture, fit->threads, fit->disk.get());
  auto result = analysis::WhatIf(prepared, *request);
  progress.Clear();
  if (!result.ok()) return Fail(ExitCode::kUsage, std::string(result.status().message()));
  if (!fit->note.empty()) result->notes.push_back(fit->note);
  const std::string text = flags.report.format == "json"
                               ? report::WhatIfJson(*request, *result)
                               : report::RenderWhatIf(*request, *result, TextFor(flags.report));
  return PrintText(text, flags.report);
}

}  // namespace

void AddWhatIf(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "whatif", kWhatifAbout);
  auto flags = std::make_shared<WhatifFlags>();
  sub->add_option("CAPTURE", flags->capture, "A capture's folder or id, or recorded traces")->required();
  sub->add_option("--fix", flags->fix,
                  "Targets to change: rank=N, host=NAME, stage=N, link=N, group=NAME, op=REGEX, ...")
      ->required();
  flags->scale_given =
      sub->add_option("--scale", flags->scale, "Factor for durations, instead of typical ones");
  flags->strength_given =
      sub->add_option("--strength", flags->strength, "Fraction of the way to typical, up to 1")
          ->capture_default_str();
  AddSpanFlag(*sub, flags->span);
  AddMemoryFlag(*sub, flags->memory_bytes);
  sub->add_option("--format", flags->report.format, "Format of the prediction")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  sub->add_option("-o,--output", flags->report.output, "File to write instead of stdout")
      ->type_name(kFileValue);
  AddAggregatorFlags(*sub, flags->aggregator);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return WhatIf(*flags); }; });
}

}  // namespace lockstep::cli
