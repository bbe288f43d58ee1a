// lockstep overview, ops, kernels, …: one command for each view of a capture, all with the same options.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "aggregator/tables/csv_sink.h"
#include "aggregator/tables/json_table.h"
#include "aggregator/tables/text_table.h"
#include "aggregator/tables/views.h"
#include "cli/analysis_output.h"
#include "cli/choose_ranks.h"
#include "cli/command.h"
#include "common/rpc/status_macros.h"

namespace lockstep::cli {
namespace {

using tables::Grid;
using tables::View;

struct Flags {
  std::vector<std::string> paths;
  std::string sort_by, group_by, columns, ranks, output, table, method;
  bool ascending = false, csv = false, json = false, plain = false;
  int top = -1;    // negative: not said
  int width = -1;  // negative: the terminal's
  int stack_depth = 5;
};

constexpr int kTopOnTerminal = 20;

std::string GroupNames(const View& view) {
  return absl::StrJoin(view.groupings, ", ", [](std::string* out, const tables::GroupName& g) { out->append(g.name); });
}

absl::StatusOr<tables::ViewOptions> OptionsOf(const View& view, const Flags& flags) {
  tables::ViewOptions options{.stack_depth = flags.stack_depth, .table = flags.table, .method = flags.method};
  for (const auto word : absl::StrSplit(flags.group_by, ',', absl::SkipEmpty())) {
    const std::string name(word);
    const auto group = std::find_if(view.groupings.begin(), view.groupings.end(), [&](const tables::GroupName& g) { return g.name == name; });
    if (name == "name") continue;  // by that they always are
    if (group == view.groupings.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--group-by ", name, ": ", std::string(view.name), " can be told apart by ", GroupNames(view)));
    }
    options.group_by.push_back(group->group);
  }
  return options;
}

std::string_view ColumnOf(const View& view, const std::string& name) {
  for (const tables::Alias& alias : view.aliases) {
    if (alias.name == name) return alias.column;
  }
  return name;
}

absl::Status Arrange(const View& view, const Flags& flags, const tables::ViewOptions& options, Grid& grid) {
  if (!flags.sort_by.empty()) {
    const std::string_view column = ColumnOf(view, flags.sort_by);
    LOCKSTEP_ASSIGN_OR_RETURN(const size_t place, grid.Find(column));
    // The most first, and names in the order of the alphabet.
    const bool ascending = flags.ascending || grid.table().columns[place].type == tables::CellType::kText;
    LOCKSTEP_RETURN_IF_ERROR(grid.SortBy(column, ascending ? tables::SortOrder::kAscending : tables::SortOrder::kDescending));
  }
  const bool for_people = !flags.csv && !flags.json && !flags.plain;
  const std::string chosen = !flags.columns.empty() ? flags.columns : for_people ? std::string(view.ColumnsOf(options)) : "";
  if (!chosen.empty()) {
    std::vector<std::string> words = absl::StrSplit(chosen, ',', absl::SkipEmpty());
    std::vector<std::string_view> columns;
    for (const std::string& word : words) columns.push_back(ColumnOf(view, word));
    LOCKSTEP_RETURN_IF_ERROR(grid.Select(columns));
  }
  const int top = flags.top >= 0 ? flags.top : for_people && flags.output.empty() ? kTopOnTerminal : 0;
  if (top > 0) grid.Truncate(static_cast<size_t>(top));
  return absl::OkStatus();
}

// A whole document in memory.
class StringSink final : public store::ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    text.append(bytes);
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
  std::string text;
};

std::string CsvOf(const Grid& grid) {
  StringSink bytes;
  tables::CsvSink sink(grid.table(), bytes);
  // Neither refuses anything.
  (void)grid.Write(sink);
  return std::move(bytes.text);
}

std::string TextOf(const tables::MadeView& made, size_t all_rows, int width) {
  std::string text = tables::TextTable(made.grid, width);
  if (made.grid.rows() < all_rows) absl::StrAppend(&text, all_rows - made.grid.rows(), " more; --top 0 shows all\n");
  for (const std::string& note : made.notes) absl::StrAppend(&text, "note: ", note, "\n");
  return text;
}

ExitCode Show(const View& view, const Flags& flags) {
  if (flags.csv + flags.json + flags.plain > 1) return Fail(ExitCode::kUsage, "--csv, --json and --plain: choose one");
  const auto options = OptionsOf(view, flags);
  if (!options.ok()) return Fail(options.status());
  auto paths = FindCaptures(flags.paths);
  if (!paths.ok()) return Fail(paths.status());
  const bool frames = view.needs_frames != nullptr && view.needs_frames(*options);
  Progress progress;
  auto capture = ReadPaths(*paths, progress, frames ? trace::HostDetail::kFrames : trace::HostDetail::kUnions);
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
  if (!view.needs_all_ranks) KeepRanks(*capture, *ranks);
  tables::MadeView made = view.make({.capture = *capture, .analysis = analyze}, *options);
  progress.Clear();
  if (view.needs_all_ranks && !flags.ranks.empty()) {
    std::set<int64_t> wanted;
    for (const uint32_t place : *ranks) wanted.insert(capture->ranks[place].rank.value());
    made.grid.KeepWhere("rank", wanted);
  }
  const size_t all_rows = made.grid.rows();
  if (absl::Status s = Arrange(view, flags, *options, made.grid); !s.ok()) return Fail(s);
  ReportFlags print;
  print.output = flags.output;
  std::string text;
  if (flags.csv) {
    text = CsvOf(made.grid);
  } else if (flags.json) {
    text = tables::JsonTable(view.name, made);
  } else if (flags.plain) {
    text = tables::PlainTable(made.grid);
  } else {
    text = TextOf(made, all_rows, flags.width >= 0 ? flags.width : TextFor(print).width);
  }
  if (flags.csv || flags.plain) {
    for (const std::string& note : made.notes) Say(note);
  }
  return PrintText(text, print);
}

std::string About(const View& view) {
  std::string text = absl::StrCat("Show ", std::string(view.about), ".\n\n", std::string(view.text));
  if (!view.groupings.empty()) {
    absl::StrAppend(&text, "\nRows can be told apart (--group-by, several with commas) by\n");
    for (const tables::GroupName& g : view.groupings) absl::StrAppend(&text, absl::StrFormat("  %-8s %s\n", std::string(g.name), std::string(g.about)));
  }
  const auto list = [&](const char* title, const auto& choices) {
    if (choices.empty()) return;
    absl::StrAppend(&text, "\n", title, "\n");
    for (const auto& c : choices) absl::StrAppend(&text, absl::StrFormat("  %-15s %s\n", std::string(c.name), std::string(c.about)));
  };
  list("Tables (--table; the first where it is not said)", view.tables);
  list("Methods (--method; the first where it is not said)", view.methods);
  absl::StrAppend(&text, "\nColumns: `lockstep ", std::string(view.name), " INPUT --json` names all with unit and meaning.");
  if (!view.aliases.empty()) {
    absl::StrAppend(&text, " Other tools' names work too:\n  ",
                    absl::StrJoin(view.aliases, ", ", [](std::string* out, const tables::Alias& a) { out->append(a.name); }));
  }
  absl::StrAppend(&text, "\n\nExamples:\n  lockstep ", std::string(view.name), " ./traces --top 10\n  lockstep ", std::string(view.name),
                  " ./lockstep-4711-20260301-120000 --csv -o ", std::string(view.name), ".csv\n");
  return text;
}

void AddOne(const View& view, CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, std::string(view.name), About(view));
  auto flags = std::make_shared<Flags>();
  sub->add_option("CAPTURE", flags->paths, "A capture's folder or id, or recorded traces")->required();
  sub->add_option("--sort-by", flags->sort_by, "Column: the most first, texts by the alphabet");
  sub->add_flag("--ascending", flags->ascending, "The least first");
  if (!view.groupings.empty()) sub->add_option("--group-by", flags->group_by, "Of: " + GroupNames(view));
  if (std::any_of(view.groupings.begin(), view.groupings.end(), [](const tables::GroupName& g) { return g.group == tables::GroupBy::kStack; })) {
    sub->add_option("--stack-depth", flags->stack_depth, "Calls that count with --group-by stack")->check(CLI::Range(1, 1000))->capture_default_str();
  }
  const auto choose = [&](const char* flag, std::string& into, const auto& choices, const char* help) {
    std::vector<std::string> names;
    for (const auto& c : choices) names.emplace_back(c.name);
    if (!names.empty()) sub->add_option(flag, into, help)->check(CLI::IsMember(names));
  };
  choose("--table", flags->table, view.tables, "Which of its tables");
  choose("--method", flags->method, view.methods, "By whose rule");
  sub->add_option("-c,--columns", flags->columns, "Columns and their order, with commas");
  sub->add_option("--ranks", flags->ranks, "Only these, as in 0-7,12");
  sub->add_option("--top", flags->top, "Rows; 0: all. Where it is not said, 20 on a terminal and all in files")->check(CLI::Range(0, 1000000000));
  sub->add_option("-w,--width", flags->width, "Characters of a line; 0: as wide as it gets")->check(CLI::Range(0, 100000));
  sub->add_flag("--csv", flags->csv, "Comma-separated values, raw numbers");
  sub->add_flag("--json", flags->json, "One JSON document with columns, units and rows");
  sub->add_flag("--plain", flags->plain, "A line a row, blanks between values, for awk");
  sub->add_option("-o,--output", flags->output, "A file instead of stdout");
  sub->callback([flags, &view, &chosen] { chosen.action = [flags, &view] { return Show(view, *flags); }; });
}

}  // namespace

void AddViews(CLI::App& app, Chosen& chosen) {
  for (const View& view : tables::Views()) AddOne(view, app, chosen);
}

}  // namespace lockstep::cli
