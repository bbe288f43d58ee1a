// lockstep whatif: the replay of a capture with something made typical, or faster.
#include "analysis/gains/whatif.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"
#include "report/whatif_report.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "What would a step take if this were fixed? Replays a capture with part of it changed.\n"
    "\n"
    "CAPTURE is a folder that lockstep trace wrote, the id of one that an aggregator keeps, or recorded\n"
    "traces. What --fix names is made typical: like the peers that do the same. All of a list at once:\n"
    "  rank=5, rank=4-7   a rank's kernels, copies and host (its waiting for others is not its own)\n"
    "  host=n3            all ranks of a host\n"
    "  stage=3            a pipeline stage's kernels, balanced with the median other stage\n"
    "  link=5, link=4-7   the transfers of every group and pair that a rank takes part in\n"
    "  group=NAME         the transfers of a communicator, by the name that the report's table shows\n"
    "  op=REGEX           kernels, copies and calls by name, on every rank\n"
    "--strength 0.5 goes half of the way to typical; --scale 0.9 makes durations a tenth shorter instead,\n"
    "which needs no peers: what would a faster GPU, link or kernel buy?\n"
    "\n"
    "Examples:\n"
    "  lockstep whatif ./lockstep-4711-20260301-120000 --fix rank=5\n"
    "  lockstep whatif ./traces --fix rank=5,group=tp0 --format json\n"
    "  lockstep whatif ./traces --fix 'op=flash_fwd' --scale 0.8\n"
    "\n"
    "The answer is a prediction, from a replay of what the records show. Its interval covers the spread "
    "over\n"
    "the steps, not what the replay leaves out.\n";

struct Flags {
  std::string capture;
  std::string fix;
  double scale = 0;
  double strength = 1;
  ReportFlags report;
  AggregatorFlags aggregator;
  CLI::Option* scale_given = nullptr;
  CLI::Option* strength_given = nullptr;
};

absl::StatusOr<analysis::WhatIfRequest> RequestOf(const Flags& flags) {
  analysis::WhatIfRequest request;
  auto targets = analysis::ParseFixTargets(flags.fix);
  if (!targets.ok()) return targets.status();
  request.targets = *std::move(targets);
  if (flags.scale_given->count() > 0 && flags.strength_given->count() > 0) {
    return absl::InvalidArgumentError(
        "--strength goes toward typical and --scale does not: give one of them");
  }
  if (flags.scale_given->count() > 0) request.scale = flags.scale;
  request.strength = flags.strength;
  return request;
}

ExitCode WhatIf(const Flags& flags) {
  if (absl::Status s = CheckReportFlags(flags.report); !s.ok()) return Fail(s);
  auto request = RequestOf(flags);
  if (!request.ok()) return Fail(request.status());
  std::unique_ptr<TemporaryFolder> fetched;
  auto folder = FindOrFetchCapture(flags.capture, flags.aggregator, fetched);
  if (!folder.ok()) return Fail(folder.status());
  Progress progress;
  auto capture = ReadPaths({*folder}, progress);
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  const analysis::Prepared prepared(*capture);
  const auto result = analysis::WhatIf(prepared, *request);
  progress.Clear();
  if (!result.ok()) return Fail(ExitCode::kUsage, std::string(result.status().message()));
  const std::string text = flags.report.format == "json"
                               ? report::WhatIfJson(*request, *result)
                               : report::RenderWhatIf(*request, *result, TextFor(flags.report));
  return PrintText(text, flags.report);
}

}  // namespace

void AddWhatIf(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "whatif", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("CAPTURE", flags->capture, "A capture's folder or id, or traces")->required();
  sub->add_option("--fix", flags->fix,
                  "What to change: rank=N, host=NAME, stage=N, link=N, group=NAME, op=REGEX, ...")
      ->required();
  flags->scale_given =
      sub->add_option("--scale", flags->scale, "Own durations times this, instead of made typical");
  flags->strength_given =
      sub->add_option("--strength", flags->strength, "Part of the way to typical, up to 1")
          ->capture_default_str();
  AddOutputFlags(*sub, flags->report);
  AddAggregatorFlags(*sub, flags->aggregator);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return WhatIf(*flags); }; });
}

}  // namespace lockstep::cli
