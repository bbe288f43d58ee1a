#include "cli/common/view_output.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/log/clean_text.h"
#include "base/rpc/status_macros.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"
#include "views/catalog/json_table.h"
#include "views/tables/csv_sink.h"
#include "views/tables/text_table.h"

namespace lockstep::cli {
namespace {

using views::Grid;

constexpr int kTopOnTerminal = 20;

std::string_view ColumnOf(const ShownTable& shown, const std::string& name) {
  for (const views::Alias& alias : shown.aliases) {
    if (alias.name == name) return alias.column;
  }
  return name;
}

absl::Status Filter(const ShownTable& shown, const TableFlags& flags, Grid& grid) {
  for (const std::string& where : flags.where) {
    const size_t equals = where.find('=');
    if (equals == std::string::npos)
      return absl::InvalidArgumentError(
          absl::StrCat("--where ", where, ": expected COLUMN=TEXT, as in --where name=gemm"));
    LOCKSTEP_RETURN_IF_ERROR(grid.KeepHolding(ColumnOf(shown, where.substr(0, equals)),
                                              std::string_view(where).substr(equals + 1)));
  }
  return absl::OkStatus();
}

absl::Status Arrange(const ShownTable& shown, const TableFlags& flags, Grid& grid) {
  if (!flags.sort_by.empty()) {
    const std::string_view column = ColumnOf(shown, flags.sort_by);
    LOCKSTEP_ASSIGN_OR_RETURN(const size_t place, grid.Find(column));
    // By default numbers are sorted descending and text ascending.
    const bool ascending = flags.ascending || grid.table().columns[place].type == views::CellType::kText;
    LOCKSTEP_RETURN_IF_ERROR(
        grid.SortBy(column, ascending ? views::SortOrder::kAscending : views::SortOrder::kDescending));
  }
  const bool for_people = !flags.csv && !flags.json && !flags.plain;
  const std::string chosen = !flags.columns.empty() ? flags.columns
                             : for_people           ? std::string(shown.columns)
                                                    : "";
  if (!chosen.empty()) {
    std::vector<std::string> words = absl::StrSplit(chosen, ',', absl::SkipEmpty());
    std::vector<std::string_view> columns;
    for (const std::string& word : words) columns.push_back(ColumnOf(shown, word));
    // A table that hides the reason for its order puzzles its reader.
    if (flags.columns.empty() && !flags.sort_by.empty()) columns.push_back(ColumnOf(shown, flags.sort_by));
    LOCKSTEP_RETURN_IF_ERROR(grid.Select(columns));
  }
  const int top = flags.top >= 0 ? flags.top : for_people && flags.output.empty() ? kTopOnTerminal : 0;
  if (top > 0) grid.Truncate(static_cast<size_t>(top));
  return absl::OkStatus();
}

// Collects a document in memory.
class StringSink final : public ByteSink {
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
  views::CsvSink sink(grid.table(), bytes);
  // Neither sink can fail.
  (void)grid.Write(sink);
  return std::move(bytes.text);
}

std::string TextOf(const views::MadeView& made, size_t all_rows, const views::TextTableOptions& options) {
  std::string text = views::TextTable(made.grid, options);
  if (made.grid.rows() < all_rows)
    absl::StrAppend(&text, all_rows - made.grid.rows(), " more; --top 0 shows all\n");
  for (const std::string& total : made.totals) absl::StrAppend(&text, CleanText(total), "\n");
  for (const std::string& note : made.notes) absl::StrAppend(&text, "note: ", CleanText(note), "\n");
  return text;
}

}  // namespace

void AddTableFlags(CLI::App& app, TableFlags& flags) {
  app.add_option("--sort-by", flags.sort_by, "Sort column: numbers descending, text A-Z")
      ->type_name(kColumnValue);
  app.add_flag("--ascending", flags.ascending, "Sort ascending");
  app.add_option("--where", flags.where,
                 "COLUMN=TEXT: only rows with that text or number in that column; several must all match")
      ->type_name(kConditionValue)
      ->take_all();
  app.add_option("-c,--columns", flags.columns, "Columns to show, in order, with commas")
      ->type_name(kColumnsValue);
  app.add_option("--top", flags.top, "Maximum rows, 0 for all; default: 20 on a terminal, all in files")
      ->check(CLI::Range(0, 1000000000));
  app.add_option(
         "-w,--width", flags.width,
         "Characters per line, 0 for no limit; columns that do not fit are left out, but not in a pipe")
      ->check(CLI::Range(0, 100000));
  app.add_flag("--csv", flags.csv, "Comma-separated values, raw numbers");
  app.add_flag("--json", flags.json, "One JSON document with columns, units and rows");
  app.add_flag("--plain", flags.plain, "One line per row, values separated by blanks, for awk");
  app.add_option("-o,--output", flags.output, "File to write instead of stdout")->type_name(kFileValue);
}

absl::Status CheckTableFlags(const TableFlags& flags) {
  if (flags.csv + flags.json + flags.plain <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError("--csv, --json and --plain exclude each other: choose one");
}

ExitCode PrintView(const ShownTable& shown, const TableFlags& flags, views::MadeView made) {
  if (absl::Status s = Filter(shown, flags, made.grid); !s.ok()) return Fail(s);
  const size_t all_rows = made.grid.rows();
  if (absl::Status s = Arrange(shown, flags, made.grid); !s.ok()) return Fail(s);
  ReportFlags print;
  print.output = flags.output;
  std::string text;
  if (flags.csv) {
    text = CsvOf(made.grid);
  } else if (flags.json) {
    text = views::JsonTable(shown.name, made);
  } else if (flags.plain) {
    text = views::PlainTable(made.grid);
  } else {
    using TooWide = views::TextTableOptions::TooWide;
    // A program that reads the table through a pipe needs every column.
    const bool pipe = flags.width < 0 && !IsTerminal(print);
    text = TextOf(made, all_rows,
                  {.width = flags.width >= 0 ? flags.width : TextFor(print).width,
                   .kept = ColumnOf(shown, flags.sort_by),
                   .too_wide = pipe ? TooWide::kLongerLines : TooWide::kLeaveOutColumns});
  }
  if (flags.csv || flags.plain) {
    for (const std::string& note : made.notes) PrintMessage(note);
  }
  return PrintText(text, print);
}

}  // namespace lockstep::cli
