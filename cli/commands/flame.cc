// Implements `lockstep flame`: the stacks of a capture in the folded form of flame graphs.
#include "views/host/flame.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_ranks.h"
#include "cli/common/choose_span.h"
#include "cli/common/command.h"
#include "cli/common/progress.h"
#include "formats/common/read_options.h"

namespace lockstep::cli {
namespace {

using views::FlameKind;
using views::FlameTree;

constexpr char kFlameAbout[] =
    "Print the time of a capture by stacks of calls, for flame graphs.\n"
    "\n"
    "Each line is a stack, outermost call first, with its nanoseconds: the folded form that flamegraph.pl,\n"
    "inferno and speedscope.app read. It replaces export_stacks() of PyTorch's profiler. report.html draws\n"
    "the same stacks.\n"
    "\n"
    "  --by device   time on the GPU: operators and ranges around a launch, then the kernel\n"
    "  --by host     time of host threads: operators, ranges and modules\n"
    "  --by python   the same with Python functions, if the trace has them (with_stack=True)\n"
    "\n"
    "--diff prints two numbers per line, before and after. If both captures have steps, only whole steps\n"
    "count, and the numbers are per step and rank; otherwise they are per rank.\n"
    "\n"
    "Examples:\n"
    "  lockstep flame ./traces | flamegraph.pl --countname ns > flame.svg\n"
    "  lockstep flame ./traces --by python --ranks 3 -o rank3.folded\n"
    "  lockstep flame after/ --diff before/ | flamegraph.pl --countname ns > diff.svg\n";

struct FlameFlags {
  std::string path, before, by = "device", ranks, span, output;
  bool per_rank = false;
};

std::optional<FlameKind> KindOf(const std::string& word) {
  if (word == "device") return FlameKind::kDevice;
  if (word == "host") return FlameKind::kHost;
  if (word == "python") return FlameKind::kPython;
  return std::nullopt;
}

absl::StatusOr<capture::Capture> Read(const FlameFlags& flags, const std::string& path, Progress& progress) {
  auto paths = FindCaptures({path});
  if (!paths.ok()) return paths.status();
  auto capture = ReadPaths(*paths, progress, formats::HostDetail::kFrames, flags.span);
  if (!capture.ok()) return capture.status();
  const auto places = ChooseRanks(*capture, flags.ranks);
  if (!places.ok()) return places.status();
  KeepRanks(*capture, *places);
  return capture;
}

// kNotFound: the capture has no stack of this kind.
absl::StatusOr<FlameTree> Build(const capture::Capture& capture, const FlameFlags& flags,
                                const analysis::Steps* steps) {
  const FlameKind kind = *KindOf(flags.by);
  FlameTree tree = views::BuildFlame(
      capture, {.kind = kind,
                .roots = flags.per_rank ? views::FlameRoots::kRanks : views::FlameRoots::kFrames,
                .steps = steps});
  if (!tree.nodes.empty()) return tree;
  return absl::NotFoundError(
      kind == FlameKind::kDevice ? "the capture has no work of a device"
      : kind == FlameKind::kHost
          ? "the capture has no operators or ranges of the host; use --by device"
          : "the capture has no Python functions: record with torch.profiler's with_stack=True, or use "
            "`lockstep trace --python-profile` and `lockstep profile`");
}

bool HasSteps(const analysis::Steps& steps) { return steps.found() && steps.count() > 0; }

absl::StatusOr<std::string> Difference(const capture::Capture& before, const capture::Capture& after,
                                       const FlameFlags& flags) {
  const analysis::Steps steps_before = report::Analyze(before).steps;
  const analysis::Steps steps_after = report::Analyze(after).steps;
  const bool by_steps = HasSteps(steps_before) && HasSteps(steps_after);
  const auto a = Build(before, flags, by_steps ? &steps_before : nullptr);
  if (!a.ok()) return a.status();
  const auto b = Build(after, flags, by_steps ? &steps_after : nullptr);
  if (!b.ok()) return b.status();
  const auto parts = [&](const capture::Capture& capture, const analysis::Steps& steps) {
    return std::max<uint64_t>(1, capture.ranks.size() * (by_steps ? steps.count() : 1));
  };
  return views::FoldedDifference(*a, *b,
                                 {.before = parts(before, steps_before), .after = parts(after, steps_after)});
}

ExitCode Flame(const FlameFlags& flags) {
  if (!KindOf(flags.by))
    return Fail(ExitCode::kUsage,
                absl::StrCat("--by ", flags.by, " is unknown; choose device, host or python"));
  Progress progress;
  const auto after = Read(flags, flags.path, progress);
  std::optional<absl::StatusOr<capture::Capture>> before;
  if (after.ok() && !flags.before.empty()) before = Read(flags, flags.before, progress);
  const auto fail = [&](const absl::Status& status) {
    progress.Clear();
    return Fail(ExitCode::kUsage, std::string(status.message()));
  };
  if (!after.ok()) return fail(after.status());
  if (before && !before->ok()) return fail(before->status());
  absl::StatusOr<std::string> text;
  if (before) {
    text = Difference(**before, *after, flags);
  } else {
    const auto tree = Build(*after, flags, nullptr);
    text = tree.ok() ? absl::StatusOr<std::string>(views::FoldedStacks(*tree)) : tree.status();
  }
  if (!text.ok()) return fail(text.status());
  progress.Clear();
  ReportFlags print;
  print.output = flags.output;
  return PrintText(*text, print);
}

}  // namespace

void AddFlame(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "flame", kFlameAbout);
  auto flags = std::make_shared<FlameFlags>();
  sub->add_option("CAPTURE", flags->path, "A capture's folder or id, or recorded traces")->required();
  sub->add_option("--by", flags->by, "Kind of the stacks")
      ->type_name(OneOf({"device", "host", "python"}))
      ->capture_default_str();
  sub->add_option("--diff", flags->before, "The capture before, in the same forms: print both times")
      ->type_name(kCaptureValue);
  sub->add_option("--ranks", flags->ranks, "Only these ranks, as in 0-7,12");
  sub->add_flag("--per-rank", flags->per_rank,
                "The outermost frame is the rank; without it, ranks are summed");
  AddSpanFlag(*sub, flags->span);
  sub->add_option("-o,--output", flags->output, "File to write instead of stdout")->type_name(kFileValue);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Flame(*flags); }; });
}

}  // namespace lockstep::cli
