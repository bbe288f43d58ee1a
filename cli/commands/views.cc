// lockstep overview, ops, kernels, …: one command for each view of a capture, all with the same options.
#include "views/catalog/views.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "aggregator/trace/python_profile.h"
#include "cli/common/analysis_output.h"
#include "cli/common/choose_ranks.h"
#include "cli/common/command.h"
#include "cli/common/progress.h"
#include "cli/common/view_output.h"

namespace lockstep::cli {
namespace {

using tables::View;

struct Flags {
  std::vector<std::string> paths;
  std::string group_by, ranks, table_name, method;
  int stack_depth = 5;
  TableFlags table;
};

std::string GroupNames(const View& view) {
  return absl::StrJoin(view.groupings, ", ",
                       [](std::string* out, const tables::GroupName& g) { out->append(g.name); });
}

absl::StatusOr<tables::ViewOptions> OptionsOf(const View& view, const Flags& flags) {
  tables::ViewOptions options{
      .stack_depth = flags.stack_depth, .table = flags.table_name, .method = flags.method};
  for (const auto word : absl::StrSplit(flags.group_by, ',', absl::SkipEmpty())) {
    const std::string name(word);
    const auto group = std::find_if(view.groupings.begin(), view.groupings.end(),
                                    [&](const tables::GroupName& g) { return g.name == name; });
    if (name == "name") continue;  // by that they always are
    if (group == view.groupings.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--group-by ", name, ": ", std::string(view.name),
                                                     " can be told apart by ", GroupNames(view)));
    }
    options.group_by.push_back(group->group);
  }
  return options;
}

// What the calls of the host were made by stands elsewhere.
void NoteProfiles(const std::vector<std::string>& paths, tables::MadeView& made) {
  for (const std::string& path : paths) {
    const size_t profiles = trace::PythonProfilesIn(path).size();
    if (profiles == 0) continue;
    made.notes.push_back(
        absl::StrCat("there are profiles of Python of ", profiles, " ranks: `lockstep profile ", path, "`"));
  }
}

ExitCode Show(const View& view, const Flags& flags) {
  if (absl::Status s = CheckTableFlags(flags.table); !s.ok())
    return Fail(ExitCode::kUsage, std::string(s.message()));
  const auto options = OptionsOf(view, flags);
  if (!options.ok()) return Fail(options.status());
  auto paths = FindCaptures(flags.paths);
  if (!paths.ok()) return Fail(paths.status());
  const bool frames = view.needs_frames != nullptr && view.needs_frames(*options);
  Progress progress;
  auto capture =
      ReadPaths(*paths, progress, frames ? trace::HostDetail::kFrames : trace::HostDetail::kUnions);
  if (!capture.ok()) return Fail(ExitCode::kUsage, std::string(capture.status().message()));
  const auto ranks = ChooseRanks(*capture, flags.ranks);
  if (!ranks.ok()) {
    progress.Clear();
    return Fail(ranks.status());
  }
  std::optional<report::Analysis> analysis;
  // What waits for whom is known only with all ranks.
  const auto analyze = [&]() -> const report::Analysis& {
    if (!analysis) analysis = report::Analyze(*capture);
    return *analysis;
  };
  std::vector<RankId> only;
  if (!view.needs_all_ranks) {
    KeepRanks(*capture, *ranks);
  } else if (!flags.ranks.empty()) {
    for (const uint32_t place : *ranks) only.push_back(capture->ranks[place].rank);
  }
  tables::MadeView made =
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
    absl::StrAppend(&text, "\nRows can be told apart (--group-by, several with commas) by\n");
    for (const tables::GroupName& g : view.groupings)
      absl::StrAppend(&text, absl::StrFormat("  %-8s %s\n", std::string(g.name), std::string(g.about)));
  }
  const auto list = [&](const char* title, const auto& choices) {
    if (choices.empty()) return;
    absl::StrAppend(&text, "\n", title, "\n");
    for (const auto& c : choices)
      absl::StrAppend(&text, absl::StrFormat("  %-15s %s\n", std::string(c.name), std::string(c.about)));
  };
  list("Tables (--table; the first where it is not said)", view.tables);
  list("Methods (--method; the first where it is not said)", view.methods);
  absl::StrAppend(&text, "\nColumns: `lockstep ", std::string(view.name),
                  " INPUT --json` names all with unit and meaning.");
  if (!view.aliases.empty()) {
    absl::StrAppend(&text, " Other tools' names work too:\n  ",
                    absl::StrJoin(view.aliases, ", ",
                                  [](std::string* out, const tables::Alias& a) { out->append(a.name); }));
  }
  absl::StrAppend(&text, "\n\nExamples:\n  lockstep ", std::string(view.name),
                  " ./traces --top 10\n  lockstep ", std::string(view.name),
                  " ./lockstep-4711-20260301-120000 --csv -o ", std::string(view.name), ".csv\n");
  return text;
}

void AddOne(const View& view, CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, std::string(view.name), About(view));
  auto flags = std::make_shared<Flags>();
  sub->add_option("CAPTURE", flags->paths, "A capture's folder or id, or recorded traces")->required();
  if (!view.groupings.empty()) sub->add_option("--group-by", flags->group_by, "Of: " + GroupNames(view));
  if (std::any_of(view.groupings.begin(), view.groupings.end(),
                  [](const tables::GroupName& g) { return g.group == tables::GroupBy::kStack; })) {
    sub->add_option("--stack-depth", flags->stack_depth, "Calls that count with --group-by stack")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
  }
  const auto choose = [&](const char* flag, std::string& into, const auto& choices, const char* help) {
    std::vector<std::string> names;
    for (const auto& c : choices) names.emplace_back(c.name);
    if (!names.empty()) sub->add_option(flag, into, help)->check(CLI::IsMember(names));
  };
  choose("--table", flags->table_name, view.tables, "Which of its tables");
  choose("--method", flags->method, view.methods, "By whose rule");
  sub->add_option("--ranks", flags->ranks, "Only these, as in 0-7,12");
  AddTableFlags(*sub, flags->table);
  sub->callback([flags, &view, &chosen] { chosen.action = [flags, &view] { return Show(view, *flags); }; });
}

}  // namespace

void AddViews(CLI::App& app, Chosen& chosen) {
  for (const View& view : tables::Views()) AddOne(view, app, chosen);
}

}  // namespace lockstep::cli
