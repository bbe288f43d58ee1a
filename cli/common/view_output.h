// What every command that prints a view has in common: the flags that sort, select and format its table, and
// the printing.
#ifndef LOCKSTEP_CLI_VIEW_OUTPUT_H_
#define LOCKSTEP_CLI_VIEW_OUTPUT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "cli/common/exit_code.h"
#include "views/catalog/views.h"

namespace lockstep::cli {

struct TableFlags {
  std::string sort_by, columns, output;
  std::vector<std::string> where;  // COLUMN=TEXT
  bool ascending = false, csv = false, json = false, plain = false;
  int top = -1;    // negative: not said
  int width = -1;  // negative: the terminal's
};

void AddTableFlags(CLI::App& app, TableFlags& flags);
// kInvalidArgument: two formats.
absl::Status CheckTableFlags(const TableFlags& flags);

// How a table is known outside. Texts live as long as the program.
struct ShownTable {
  std::string_view name;
  std::string_view columns;  // on a terminal where -c says nothing
  std::span<const tables::Alias> aliases;
};

// As the flags say, to where they say.
ExitCode PrintView(const ShownTable& shown, const TableFlags& flags, tables::MadeView made);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_VIEW_OUTPUT_H_
