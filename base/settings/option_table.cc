#include "base/settings/option_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep::settings {
namespace {

// Parses a type such as "TEXT:{auto,cupti}".
void TakeType(const std::string& type, OptionHelp& option) {
  const size_t open = type.find('{');
  option.value = type.substr(0, type.find_first_of(":{ "));
  if (open == std::string::npos) return;
  const size_t close = type.find('}', open);
  option.choices = absl::StrSplit(type.substr(open + 1, close - open - 1), ',', absl::SkipEmpty());
}

OptionHelp HelpOf(const CLI::Option& from) {
  OptionHelp option;
  for (const std::string& name : from.get_snames()) option.names.push_back("-" + name);
  for (const std::string& name : from.get_lnames()) option.names.push_back("--" + name);
  if (option.names.empty()) option.positional = from.get_name(true);
  if (from.get_expected_max() > 0) TakeType(from.get_type_name(), option);
  option.preset = from.get_default_str();
  option.variable = from.get_envname();
  option.about = from.get_description();
  option.required = from.get_required();
  return option;
}

CommandHelp HelpOf(const CLI::App& app, const std::string& name) {
  CommandHelp command{.name = name, .about = app.get_description(), .text = app.get_footer()};
  for (const CLI::Option* option : app.get_options({})) command.options.push_back(HelpOf(*option));
  return command;
}

}  // namespace

std::vector<CommandHelp> OptionTable(const CLI::App& app) {
  std::vector<CommandHelp> table = {HelpOf(app, "")};
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_group().empty()) table.push_back(HelpOf(*sub, sub->get_name()));
  }
  return table;
}

}  // namespace lockstep::settings
