// Implements `lockstep diff`: the differences between two captures.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/explain/causes.h"
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
};

absl::StatusOr<Side> Read(const std::string& path, const std::string& ranks, const std::string& span,
                          DiffKey key, Progress& progress) {
  auto paths = FindCaptures({path});
  if (!paths.ok()) return paths.status();
  auto capture = ReadPaths(
      *paths, progress,
      key == DiffKey::kOperator ? formats::HostDetail::kFrames : formats::HostDetail::kUnions, span);
  if (!capture.ok()) return capture.status();
  const auto places = ChooseRanks(*capture, ranks);
  if (!places.ok()) return places.status();
  KeepRanks(*capture, *places);
  Side side{.capture = std::move(*capture)};
  side.analysis = report::Analyze(side.capture);
  return side;
}

// The table does not show the reason for the exit code.
std::string StragglerText(const report::Report& report, const report::StragglerRow& straggler) {
  return absl::StrCat("B has a straggler, ", straggler.verdict, ": ",
                      report::StragglerName(report, straggler), ", ", report::CauseInWords(straggler.cause),
                      ", ", analysis::LengthText(straggler.lost_ns_per_step),
                      " per step; `lockstep analyze` shows its evidence");
}

ExitCode Diff(const DiffFlags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok())
    return Fail(ExitCode::kUsage, std::string(s.message()));
  const std::optional<DiffKey> key = KeyOf(flags.by);
  if (!key)
    return Fail(ExitCode::kUsage,
                absl::StrCat("--by ", flags.by, " is unknown; choose kernel, operator, collective or step"));
  Progress progress;
  const auto before = Read(flags.before, flags.ranks_before, flags.span_before, *key, progress);
  const auto after = before.ok() ? Read(flags.after, flags.ranks_after, flags.span_after, *key, progress)
                                 : absl::StatusOr<Side>(absl::CancelledError());
  progress.Clear();
  if (!before.ok()) return Fail(ExitCode::kUsage, std::string(before.status().message()));
  if (!after.ok()) return Fail(ExitCode::kUsage, std::string(after.status().message()));
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
  AddTableFlags(*sub, flags->table);
  sub->add_flag("--exit-code", flags->exit_code,
                "Exit with code 3 if B has a straggler with verdict sure or likely, and name it on stderr");
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Diff(*flags); }; });
}

}  // namespace lockstep::cli
