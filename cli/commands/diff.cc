// Implements `lockstep diff`: the differences between two captures.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/explain/causes.h"
#include "analysis/gains/fit_memory.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_ranks.h"
#include "cli/common/choose_span.h"
#include "cli/common/command.h"
#include "cli/common/progress.h"
#include "cli/common/view_output.h"
#include "formats/common/read_options.h"
#include "report/actions.h"
#include "report/row_words.h"
#include "views/catalog/diff_view.h"

namespace lockstep::cli {
namespace {

using views::DiffKey;

constexpr char kDiffAbout[] =
    "Compare two captures: operations that ran more or less often, longer or shorter, in B than in A.\n"
    "\n"
    "If both have steps, only whole steps count, and figures are per step and rank. `change` compares\n"
    "counts, the differences compare times, and the largest difference comes first. `--json` names all\n"
    "columns.\n"
    "\n"
    "Examples:\n"
    "  lockstep diff before/ after/\n"
    "  lockstep diff control.json.gz test.json.gz --by operator --top 50\n"
    "  lockstep diff before/ after/ --by collective --csv -o diff.csv\n"
    "  lockstep diff before/ after/ --exit-code || echo 'after/ has a straggler, or cannot be used'\n";

struct DiffFlags {
  std::string before, after, by = "kernel";
  std::string ranks_before, ranks_after, span_before, span_after;
  bool exit_code = false;
  uint64_t memory_bytes = 0;
  TableFlags table;
};

std::optional<DiffKey> KeyOf(const std::string& word) {
  if (word == "kernel") return DiffKey::kKernel;
  if (word == "operator") return DiffKey::kOperator;
  if (word == "collective") return DiffKey::kCollective;
  if (word == "step") return DiffKey::kStep;
  return std::nullopt;
}

// A capture with its analysis.
struct Side {
  capture::Capture capture;
  report::Analysis analysis;
  uint64_t bytes_in_memory = 0;  // of the capture
};

absl::StatusOr<Side> Read(const std::string& path, const std::string& ranks, const std::string& span,
                          DiffKey key, const analysis::MemoryLimit& limit, Progress& progress) {
  auto paths = FindCaptures({path});
  if (!paths.ok()) return paths.status();
  capture::RowOverflow overflow = OverflowOf(limit);
  auto capture =
      ReadPaths(*paths, progress,
                key == DiffKey::kOperator ? formats::HostDetail::kFrames : formats::HostDetail::kUnions, span,
                overflow);
  if (!capture.ok()) return capture.status();
  const auto places = ChooseRanks(*capture, ranks);
  if (!places.ok()) return places.status();
  KeepRanks(*capture, *places);
  Side side{.capture = std::move(*capture)};
  const auto fit = FitAnalysis(limit, overflow, side.capture, progress);
  if (!fit.ok()) return fit.status();
  side.analysis = report::Analyze(side.capture, {.threads = fit->threads, .disk = fit->disk.get()});
  side.bytes_in_memory = BytesInMemory(side.capture, fit->disk.get());
  return side;
}

// The table does not show the reason for the exit code.
std::string StragglerText(const report::Report& report, const report::StragglerRow& straggler) {
  return absl::StrCat("B has a straggler, ", straggler.verdict, ": ",
                      report::StragglerName(report, straggler), ", ", report::CauseInWords(straggler.cause),
                      ", ", analysis::LengthText(straggler.lost_ns_per_step),
                      " per step; `lockstep analyze` shows its evidence");
}

// An error of an input is one of its use, unless the memory does not suffice.
ExitCode FailToRead(const absl::Status& status, Progress& progress) {
  progress.Clear();
  return absl::IsResourceExhausted(status) ? Fail(status)
                                           : Fail(ExitCode::kUsage, std::string(status.message()));
}

ExitCode Diff(const DiffFlags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok())
    return Fail(ExitCode::kUsage, std::string(s.message()));
  const std::optional<DiffKey> key = KeyOf(flags.by);
  if (!key)
    return Fail(ExitCode::kUsage,
                absl::StrCat("--by ", flags.by, " is unknown; choose kernel, operator, collective or step"));
  // A part of the rows would give other sums.
  analysis::MemoryLimit limit{.bytes = MemoryLimitOf(flags.memory_bytes),
                              .may_shorten = analysis::MayShorten::kNo};
  LimitMemory(limit.bytes);
  Progress progress;
  const auto before = Read(flags.before, flags.ranks_before, flags.span_before, *key, limit, progress);
  if (!before.ok()) return FailToRead(before.status(), progress);
  limit.other_bytes = before->bytes_in_memory;
  const auto after = Read(flags.after, flags.ranks_after, flags.span_after, *key, limit, progress);
  if (!after.ok()) return FailToRead(after.status(), progress);
  progress.Clear();
  const ExitCode printed =
      PrintView({.name = "diff", .columns = views::kDiffColumns, .aliases = {}}, flags.table,
                views::MakeDiff({before->capture, before->analysis.steps},
                                {after->capture, after->analysis.steps}, *key));
  if (printed != ExitCode::kDone || !flags.exit_code) return printed;
  const report::StragglerRow* straggler = CostliestStraggler(after->analysis.report);
  return straggler == nullptr ? ExitCode::kDone
                              : Fail(ExitCode::kStraggler, StragglerText(after->analysis.report, *straggler));
}

}  // namespace

void AddDiff(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "diff", kDiffAbout);
  auto flags = std::make_shared<DiffFlags>();
  sub->add_option("A", flags->before, "A capture's folder or id, or a recorded trace")->required();
  sub->add_option("B", flags->after, "The capture to compare with A, in the same forms")->required();
  sub->add_option("--by", flags->by, "Kind of the rows")
      ->type_name(OneOf({"kernel", "operator", "collective", "step"}))
      ->capture_default_str();
  sub->add_option("--ranks-a", flags->ranks_before, "Only these ranks of A, as in 0-7,12");
  sub->add_option("--ranks-b", flags->ranks_after, "Only these ranks of B");
  AddSpanFlag(*sub, flags->span_before, "--span-a");
  AddSpanFlag(*sub, flags->span_after, "--span-b");
  AddMemoryFlag(*sub, flags->memory_bytes);
  AddTableFlags(*sub, flags->table);
  sub->add_flag("--exit-code", flags->exit_code,
                "Exit with code 3 if B has a straggler with verdict sure or likely, and name it on stderr");
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Diff(*flags); }; });
}

}  // namespace lockstep::cli
