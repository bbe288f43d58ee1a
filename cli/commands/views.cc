// Implements `lockstep overview`, `ops`, `kernels` and others: one command for each view, all with the same
// options.
#include "views/catalog/views.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analysis/gains/fit_memory.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_ranks.h"
#include "cli/common/choose_span.h"
#include "cli/common/command.h"
#include "cli/common/progress.h"
#include "cli/common/view_output.h"
#include "formats/common/read_options.h"
#include "formats/python/python_profile.h"

namespace lockstep::cli {
namespace {

using views::View;

struct ViewsFlags {
  std::vector<std::string> paths;
  std::string group_by, ranks, table_name, method, span;
  uint64_t memory_bytes = 0;
  int stack_depth = 5;
  TableFlags table;
};

std::vector<std::string> GroupNames(const View& view) {
  std::vector<std::string> names;
  for (const views::GroupName& g : view.groupings) names.emplace_back(g.name);
  return names;
}

absl::StatusOr<views::ViewOptions> OptionsOf(const View& view, const ViewsFlags& flags) {
  views::ViewOptions options{
      .stack_depth = flags.stack_depth, .table = flags.table_name, .method = flags.method};
  for (const auto word : absl::StrSplit(flags.group_by, ',', absl::SkipEmpty())) {
    const std::string name(word);
    const auto group = std::find_if(view.groupings.begin(), view.groupings.end(),
                                    [&](const views::GroupName& g) { return g.name == name; });
    if (name == "name") continue;  // the grouping by name always applies
    if (group == view.groupings.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--group-by ", name, ": ", std::string(view.name),
                                                     " can be grouped by ",
                                                     absl::StrJoin(GroupNames(view), ", ")));
    }
    options.group_by.push_back(group->group);
  }
  return options;
}

// Points to the Python profiles, which show the callers of the host's calls.
void NoteProfiles(const std::vector<std::string>& paths, views::MadeView& made) {
  for (const std::string& path : paths) {
    const size_t profiles = formats::PythonProfilesIn(path).size();
    if (profiles == 0) continue;
    made.notes.push_back(
        absl::StrCat("Python profiles of ", profiles, " ranks: `lockstep profile ", path, "`"));
  }
}

ExitCode Show(const View& view, const ViewsFlags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok())
    return Fail(ExitCode::kUsage, std::string(s.message()));
  const auto options = OptionsOf(view, flags);
  if (!options.ok()) return Fail(options.status());
  auto paths = FindCaptures(flags.paths);
  if (!paths.ok()) return Fail(paths.status());
  const bool frames = view.needs_frames != nullptr && view.needs_frames(*options);
  // A part of the rows would give other sums.
  const analysis::MemoryLimit limit{.bytes = MemoryLimitOf(flags.memory_bytes),
                                    .may_shorten = analysis::MayShorten::kNo};
  LimitMemory(limit.bytes);
  capture::RowOverflow overflow = OverflowOf(limit);
  Progress progress;
  auto capture =
      ReadPaths(*paths, progress, frames ? formats::HostDetail::kFrames : formats::HostDetail::kUnions,
                flags.span, overflow);
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  const auto ranks = ChooseRanks(*capture, flags.ranks);
  if (!ranks.ok()) {
    progress.Clear();
    return Fail(ranks.status());
  }
  // Waiting can be computed only from all ranks. The other views need no analysis.
  analysis::MemoryFit fit;
  if (view.needs_all_ranks) {
    auto fitted = FitAnalysis(limit, overflow, *capture, progress);
    if (!fitted.ok()) return Fail(fitted.status());
    fit = *std::move(fitted);
  } else {
    auto fitted = FitRows(limit, overflow, *capture, progress);
    if (!fitted.ok()) return Fail(fitted.status());
    fit.disk = *std::move(fitted);
  }
  std::optional<report::Analysis> analysis;
  const auto analyze = [&]() -> const report::Analysis& {
    if (!analysis) analysis = report::Analyze(*capture, {.threads = fit.threads, .disk = fit.disk.get()});
    return *analysis;
  };
  std::vector<RankId> only;
  if (!view.needs_all_ranks) {
    KeepRanks(*capture, *ranks);
  } else if (!flags.ranks.empty()) {
    for (const uint32_t place : *ranks) only.push_back(capture->ranks[place].rank);
  }
  views::MadeView made =
      view.make({.capture = *capture, .analysis = analyze, .only = std::move(only)}, *options);
  progress.Clear();
  if (view.name == "host") NoteProfiles(*paths, made);
  if (view.needs_all_ranks && !flags.ranks.empty()) {
    std::set<int64_t> wanted;
    for (const uint32_t place : *ranks) wanted.insert(capture->ranks[place].rank.value());
    made.grid.KeepWhere("rank", wanted);
  }
  return PrintView({.name = view.name, .columns = view.ColumnsOf(*options), .aliases = view.aliases},
                   flags.table, std::move(made));
}

std::string About(const View& view) {
  std::string text = absl::StrCat("Show ", std::string(view.about), ".\n\n", std::string(view.text));
  if (!view.groupings.empty()) {
    absl::StrAppend(&text, "\nGroupings of rows (--group-by, several with commas)\n");
    for (const views::GroupName& g : view.groupings)
      absl::StrAppend(&text, absl::StrFormat("  %-8s %s\n", std::string(g.name), std::string(g.about)));
  }
  const auto list = [&](const char* title, const auto& choices) {
    if (choices.empty()) return;
    absl::StrAppend(&text, "\n", title, "\n");
    for (const auto& c : choices)
      absl::StrAppend(&text, absl::StrFormat("  %-15s %s\n", std::string(c.name), std::string(c.about)));
  };
  list("Tables (--table; default: the first)", view.tables);
  list("Methods (--method; default: the first)", view.methods);
  absl::StrAppend(&text, "\nColumns: `lockstep ", std::string(view.name),
                  " INPUT --json` lists all with unit and meaning.");
  if (!view.aliases.empty()) {
    absl::StrAppend(&text, " It also accepts other tools' names:\n  ",
                    absl::StrJoin(view.aliases, ", ",
                                  [](std::string* out, const views::Alias& a) { out->append(a.name); }));
  }
  absl::StrAppend(&text, "\n\nExamples:\n  lockstep ", std::string(view.name),
                  " ./traces --top 10\n  lockstep ", std::string(view.name),
                  " ./lockstep-4711-20260301-120000 --csv -o ", std::string(view.name), ".csv\n");
  return text;
}

void AddOne(const View& view, CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, std::string(view.name), About(view));
  auto flags = std::make_shared<ViewsFlags>();
  sub->add_option("CAPTURE", flags->paths, "A capture's folder or id, or recorded traces")->required();
  if (!view.groupings.empty())
    sub->add_option("--group-by", flags->group_by, "Groupings of rows, with commas")
        ->type_name(ListOf(GroupNames(view)));
  if (std::any_of(view.groupings.begin(), view.groupings.end(),
                  [](const views::GroupName& g) { return g.group == views::GroupBy::kStack; })) {
    sub->add_option("--stack-depth", flags->stack_depth, "Number of calls that --group-by stack compares")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
  }
  const auto choose = [&](const char* flag, std::string& into, const auto& choices, const char* help) {
    std::vector<std::string> names;
    for (const auto& c : choices) names.emplace_back(c.name);
    if (!names.empty()) sub->add_option(flag, into, help)->check(CLI::IsMember(names));
  };
  choose("--table", flags->table_name, view.tables, "The table to show");
  choose("--method", flags->method, view.methods, "The method of computation");
  sub->add_option("--ranks", flags->ranks, "Only these ranks, as in 0-7,12");
  AddSpanFlag(*sub, flags->span);
  AddMemoryFlag(*sub, flags->memory_bytes);
  AddTableFlags(*sub, flags->table);
  sub->callback([flags, &view, &chosen] { chosen.action = [flags, &view] { return Show(view, *flags); }; });
}

}  // namespace

void AddViews(CLI::App& app, Chosen& chosen) {
  for (const View& view : views::Views()) AddOne(view, app, chosen);
}

}  // namespace lockstep::cli
