// lockstep diff: what one capture did otherwise than another.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_ranks.h"
#include "cli/common/command.h"
#include "cli/common/progress.h"
#include "cli/common/view_output.h"
#include "views/catalog/diff_view.h"

namespace lockstep::cli {
namespace {

using views::DiffKey;

constexpr char kAbout[] =
    "Compare two captures: what ran more or less often, longer or shorter, in B than in A.\n"
    "\n"
    "Where both have steps, only what lies in whole steps counts, and figures are per step and rank. "
    "`change` goes by how\n"
    "often a thing ran, differences by its time; the largest difference comes first. Columns: `--json` names "
    "all.\n"
    "\n"
    "Examples:\n"
    "  lockstep diff before/ after/\n"
    "  lockstep diff control.json.gz test.json.gz --by operator --top 50\n"
    "  lockstep diff before/ after/ --by collective --csv -o diff.csv\n"
    "  lockstep diff before/ after/ --exit-code || echo 'after/ has a straggler, or cannot be used'\n";

struct Flags {
  std::string before, after, by = "kernel";
  std::string ranks_before, ranks_after;
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
  store::Capture capture;
  report::Analysis analysis;
};

absl::StatusOr<Side> Read(const std::string& path, const std::string& ranks, DiffKey key,
                          Progress& progress) {
  auto paths = FindCaptures({path});
  if (!paths.ok()) return paths.status();
  auto capture = ReadPaths(
      *paths, progress, key == DiffKey::kOperator ? trace::HostDetail::kFrames : trace::HostDetail::kUnions);
  if (!capture.ok()) return capture.status();
  const auto places = ChooseRanks(*capture, ranks);
  if (!places.ok()) return places.status();
  KeepRanks(*capture, *places);
  Side side{.capture = std::move(*capture)};
  side.analysis = report::Analyze(side.capture);
  return side;
}

ExitCode Diff(const Flags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok())
    return Fail(ExitCode::kUsage, std::string(s.message()));
  const std::optional<DiffKey> key = KeyOf(flags.by);
  if (!key)
    return Fail(ExitCode::kUsage,
                absl::StrCat("--by ", flags.by, ": one of kernel, operator, collective, step"));
  Progress progress;
  const auto before = Read(flags.before, flags.ranks_before, *key, progress);
  const auto after = before.ok() ? Read(flags.after, flags.ranks_after, *key, progress)
                                 : absl::StatusOr<Side>(absl::CancelledError());
  progress.Clear();
  if (!before.ok()) return Fail(ExitCode::kUsage, std::string(before.status().message()));
  if (!after.ok()) return Fail(ExitCode::kUsage, std::string(after.status().message()));
  const ExitCode printed =
      PrintView({.name = "diff", .columns = tables::kDiffColumns, .aliases = {}}, flags.table,
                tables::MakeDiff({before->capture, before->analysis.steps},
                                 {after->capture, after->analysis.steps}, *key));
  if (printed != ExitCode::kDone || !flags.exit_code) return printed;
  return HasStraggler(after->analysis.report) ? ExitCode::kStraggler : ExitCode::kDone;
}

}  // namespace

void AddDiff(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "diff", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("A", flags->before, "A capture's folder or id, or a recorded trace")->required();
  sub->add_option("B", flags->after, "What it is compared with")->required();
  sub->add_option("--by", flags->by, "Of: kernel, operator, collective, step")->capture_default_str();
  sub->add_option("--ranks-a", flags->ranks_before, "Only these of A, as in 0-7,12");
  sub->add_option("--ranks-b", flags->ranks_after, "Only these of B");
  AddTableFlags(*sub, flags->table);
  sub->add_flag("--exit-code", flags->exit_code, "Exit 3 when B has a straggler with verdict sure or likely");
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Diff(*flags); }; });
}

}  // namespace lockstep::cli
