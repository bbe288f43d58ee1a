// Implements `lockstep flame`: the stacks of a capture in the folded form of flame graphs.
#include "views/host/flame.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/gains/fit_memory.h"
#include "cli/commands/memory_limit.h"
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
  uint64_t memory_bytes = 0;
  bool per_rank = false;
};

std::optional<FlameKind> KindOf(const std::string& word) {
  if (word == "device") return FlameKind::kDevice;
  if (word == "host") return FlameKind::kHost;
  if (word == "python") return FlameKind::kPython;
  return std::nullopt;
}

// A capture, and the file with the rows that memory does not hold.
struct FlameSide {
  capture::Capture capture;
  std::unique_ptr<capture::DiskRows> disk;  // null: all rows are in memory
  std::optional<analysis::Steps> steps;     // only for a comparison
};

// A part of the rows would give other sums.
analysis::MemoryLimit FlameLimit(const FlameFlags& flags, uint64_t other_bytes) {
  return {.bytes = MemoryLimitOf(flags.memory_bytes),
          .other_bytes = other_bytes,
          .may_shorten = analysis::MayShorten::kNo};
}

absl::StatusOr<FlameSide> Read(const FlameFlags& flags, const std::string& path,
                               const analysis::MemoryLimit& limit, Progress& progress) {
  auto paths = FindCaptures({path});
  if (!paths.ok()) return paths.status();
  capture::RowOverflow overflow = OverflowOf(limit);
  auto capture = ReadPaths(*paths, progress, formats::HostDetail::kFrames, flags.span, overflow);
  if (!capture.ok()) return capture.status();
  const auto places = ChooseRanks(*capture, flags.ranks);
  if (!places.ok()) return places.status();
  KeepRanks(*capture, *places);
  FlameSide side = {.capture = *std::move(capture), .disk = nullptr, .steps = {}};
  if (flags.before.empty()) {
    auto disk = FitRows(limit, overflow, side.capture, progress);
    if (!disk.ok()) return disk.status();
    side.disk = *std::move(disk);
    return side;
  }
  auto fit = FitAnalysis(limit, overflow, side.capture, progress);
  if (!fit.ok()) return fit.status();
  side.disk = std::move(fit->disk);
  side.steps = report::Analyze(side.capture, {.threads = fit->threads, .disk = side.disk.get()}).steps;
  return side;
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

absl::StatusOr<std::string> Difference(const FlameSide& before, const FlameSide& after,
                                       const FlameFlags& flags) {
  const bool by_steps = HasSteps(*before.steps) && HasSteps(*after.steps);
  const auto a = Build(before.capture, flags, by_steps ? &*before.steps : nullptr);
  if (!a.ok()) return a.status();
  const auto b = Build(after.capture, flags, by_steps ? &*after.steps : nullptr);
  if (!b.ok()) return b.status();
  const auto parts = [&](const FlameSide& side) {
    return std::max<uint64_t>(1, side.capture.ranks.size() * (by_steps ? side.steps->count() : 1));
  };
  return views::FoldedDifference(*a, *b, {.before = parts(before), .after = parts(after)});
}

ExitCode Flame(const FlameFlags& flags) {
  if (!KindOf(flags.by))
    return Fail(ExitCode::kUsage,
                absl::StrCat("--by ", flags.by, " is unknown; choose device, host or python"));
  LimitMemory(MemoryLimitOf(flags.memory_bytes));
  Progress progress;
  const auto after = Read(flags, flags.path, FlameLimit(flags, 0), progress);
  std::optional<absl::StatusOr<FlameSide>> before;
  if (after.ok() && !flags.before.empty()) {
    const uint64_t held = BytesInMemory(after->capture, after->disk.get());
    before = Read(flags, flags.before, FlameLimit(flags, held), progress);
  }
  const auto fail = [&](const absl::Status& status) {
    progress.Clear();
    return absl::IsResourceExhausted(status) ? Fail(status)
                                             : Fail(ExitCode::kUsage, std::string(status.message()));
  };
  if (!after.ok()) return fail(after.status());
  if (before && !before->ok()) return fail(before->status());
  absl::StatusOr<std::string> text;
  if (before) {
    text = Difference(**before, *after, flags);
  } else {
    const auto tree = Build(after->capture, flags, nullptr);
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
  AddMemoryFlag(*sub, flags->memory_bytes);
  sub->add_option("-o,--output", flags->output, "File to write instead of stdout")->type_name(kFileValue);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Flame(*flags); }; });
}

}  // namespace lockstep::cli
