// Shared by all commands that print a view: the flags that sort, select and format its table, and the
// printing.
#ifndef LOCKSTEP_CLI_COMMON_VIEW_OUTPUT_H_
#define LOCKSTEP_CLI_COMMON_VIEW_OUTPUT_H_

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
  int top = -1;    // negative: not given
  int width = -1;  // negative: the terminal's width
};

void AddTableFlags(CLI::App& app, TableFlags& flags);
// kInvalidArgument: more than one format is set.
absl::Status CheckTableFlags(const TableFlags& flags);

// A table's public names. The texts live as long as the program.
struct ShownTable {
  std::string_view name;
  std::string_view columns;  // shown on a terminal without -c
  std::span<const views::Alias> aliases;
};

// Prints the view in the format and to the output that the flags name.
ExitCode PrintView(const ShownTable& shown, const TableFlags& flags, views::MadeView made);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_VIEW_OUTPUT_H_
