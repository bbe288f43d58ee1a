#include "cli/common/view_output.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/rpc/status_macros.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"
#include "views/catalog/json_table.h"
#include "views/tables/csv_sink.h"
#include "views/tables/text_table.h"

namespace lockstep::cli {
namespace {

using tables::Grid;

constexpr int kTopOnTerminal = 20;

std::string_view ColumnOf(const ShownTable& shown, const std::string& name) {
  for (const tables::Alias& alias : shown.aliases) {
    if (alias.name == name) return alias.column;
  }
  return name;
}

absl::Status Filter(const ShownTable& shown, const TableFlags& flags, Grid& grid) {
  for (const std::string& where : flags.where) {
    const size_t equals = where.find('=');
    if (equals == std::string::npos)
      return absl::InvalidArgumentError(
          absl::StrCat("--where ", where, ": COLUMN=TEXT is wanted, as in --where name=gemm"));
    LOCKSTEP_RETURN_IF_ERROR(grid.KeepHolding(ColumnOf(shown, where.substr(0, equals)),
                                              std::string_view(where).substr(equals + 1)));
  }
  return absl::OkStatus();
}

absl::Status Arrange(const ShownTable& shown, const TableFlags& flags, Grid& grid) {
  if (!flags.sort_by.empty()) {
    const std::string_view column = ColumnOf(shown, flags.sort_by);
    LOCKSTEP_ASSIGN_OR_RETURN(const size_t place, grid.Find(column));
    // The most first, and names in the order of the alphabet.
    const bool ascending = flags.ascending || grid.table().columns[place].type == tables::CellType::kText;
    LOCKSTEP_RETURN_IF_ERROR(
        grid.SortBy(column, ascending ? tables::SortOrder::kAscending : tables::SortOrder::kDescending));
  }
  const bool for_people = !flags.csv && !flags.json && !flags.plain;
  const std::string chosen = !flags.columns.empty() ? flags.columns
                             : for_people           ? std::string(shown.columns)
                                                    : "";
  if (!chosen.empty()) {
    std::vector<std::string> words = absl::StrSplit(chosen, ',', absl::SkipEmpty());
    std::vector<std::string_view> columns;
    for (const std::string& word : words) columns.push_back(ColumnOf(shown, word));
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
  if (made.grid.rows() < all_rows)
    absl::StrAppend(&text, all_rows - made.grid.rows(), " more; --top 0 shows all\n");
  for (const std::string& note : made.notes) absl::StrAppend(&text, "note: ", note, "\n");
  return text;
}

}  // namespace

void AddTableFlags(CLI::App& app, TableFlags& flags) {
  app.add_option("--sort-by", flags.sort_by, "Column: the most first, texts by the alphabet");
  app.add_flag("--ascending", flags.ascending, "The least first");
  app.add_option(
         "--where", flags.where,
         "COLUMN=TEXT: only rows with that text in that column, or that number; several: all must hold")
      ->type_name("COLUMN=TEXT")
      ->take_all();
  app.add_option("-c,--columns", flags.columns, "Columns and their order, with commas");
  app.add_option("--top", flags.top, "Rows; 0: all. Where it is not said, 20 on a terminal and all in files")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("-w,--width", flags.width, "Characters of a line; 0: as wide as it gets")
      ->check(CLI::Range(0, 100000));
  app.add_flag("--csv", flags.csv, "Comma-separated values, raw numbers");
  app.add_flag("--json", flags.json, "One JSON document with columns, units and rows");
  app.add_flag("--plain", flags.plain, "A line a row, blanks between values, for awk");
  app.add_option("-o,--output", flags.output, "A file instead of stdout");
}

absl::Status CheckTableFlags(const TableFlags& flags) {
  if (flags.csv + flags.json + flags.plain <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError("--csv, --json and --plain: choose one");
}

ExitCode PrintView(const ShownTable& shown, const TableFlags& flags, tables::MadeView made) {
  if (absl::Status s = Filter(shown, flags, made.grid); !s.ok()) return Fail(s);
  const size_t all_rows = made.grid.rows();
  if (absl::Status s = Arrange(shown, flags, made.grid); !s.ok()) return Fail(s);
  ReportFlags print;
  print.output = flags.output;
  std::string text;
  if (flags.csv) {
    text = CsvOf(made.grid);
  } else if (flags.json) {
    text = tables::JsonTable(shown.name, made);
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

}  // namespace lockstep::cli
