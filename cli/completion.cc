#include "cli/completion.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

using settings::CommandHelp;
using settings::OptionHelp;
using settings::OptionTable;

// Returns the first sentence without characters that are special to shells.
std::string Brief(const std::string& about) {
  const std::string sentence = about.substr(0, about.find_first_of(".;\n"));
  return absl::StrReplaceAll(
      sentence,
      {{"'", ""}, {"[", "("}, {"]", ")"}, {":", " "}, {"\\", ""}, {"`", ""}, {"$", ""}, {"\"", ""}});
}

std::string NamesOf(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const OptionHelp& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return absl::StrJoin(names, " ");
}

// Generates `case` branches by the word before the completed one.
std::string BashValues(const CommandHelp& command) {
  std::string out;
  std::vector<std::string> files;
  for (const OptionHelp& option : command.options) {
    if (option.value.empty() || option.names.empty()) continue;
    if (option.choices.empty()) {
      files.insert(files.end(), option.names.begin(), option.names.end());
      continue;
    }
    absl::StrAppend(&out, "        ", command.name, ":",
                    absl::StrJoin(option.names, absl::StrCat("|", command.name, ":")),
                    ") COMPREPLY=($(compgen -W '", absl::StrJoin(option.choices, " "),
                    "' -- \"$cur\")); return ;;\n");
  }
  if (!files.empty()) {
    absl::StrAppend(&out, "        ", command.name, ":",
                    absl::StrJoin(files, absl::StrCat("|", command.name, ":")),
                    ") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n");
  }
  return out;
}

}  // namespace

std::string BashCompletion(const std::vector<CommandHelp>& table) {
  std::vector<std::string> commands;
  std::string options, values;
  for (const CommandHelp& command : table) {
    if (!command.name.empty()) commands.push_back(command.name);
    absl::StrAppend(&options, "        ", command.name.empty() ? "''" : command.name, ") words='",
                    NamesOf(command), "' ;;\n");
    if (!command.name.empty()) absl::StrAppend(&values, BashValues(command));
  }
  return absl::StrCat(
      "# bash completion of lockstep: source it, or put it into "
      "~/.local/share/bash-completion/completions/lockstep\n"
      "_lockstep() {\n"
      "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command= words= i\n"
      "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "        case ${COMP_WORDS[i]} in\n"
      "            -*) ;;\n"
      "            *) command=${COMP_WORDS[i]}; break ;;\n"
      "        esac\n"
      "    done\n"
      "    if [[ $command == run ]]; then\n"
      "        for ((i = 2; i < COMP_CWORD; i++)); do\n"
      "            if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
      "                if ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- \"$cur\")); else "
      "COMPREPLY=($(compgen -f -- \"$cur\")); fi\n"
      "                return\n"
      "            fi\n"
      "        done\n"
      "    fi\n"
      "    case $command:$prev in\n",
      values,
      "    esac\n"
      "    case $command in\n",
      options,
      "    esac\n"
      "    if [[ $cur == -* ]]; then\n"
      "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "    elif [[ -z $command ]]; then\n"
      "        COMPREPLY=($(compgen -W '",
      absl::StrJoin(commands, " "),
      "' -- \"$cur\"))\n"
      "    else\n"
      "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
      "    fi\n"
      "}\n"
      "complete -o filenames -F _lockstep lockstep\n");
}

std::string ZshCompletion(const std::vector<CommandHelp>& table) {
  std::string commands, cases;
  for (const CommandHelp& command : table) {
    if (command.name.empty()) continue;
    absl::StrAppend(&commands, "    '", command.name, ":", Brief(command.about), "'\n");
    absl::StrAppend(&cases, "    ", command.name, ")\n      _arguments -s");
    for (const OptionHelp& option : command.options) {
      const std::string brief = Brief(option.about);
      const std::string value =
          option.value.empty() ? ""
          : option.choices.empty()
              ? absl::StrCat(":", option.value, ":_files")
              : absl::StrCat(":", option.value, ":(", absl::StrJoin(option.choices, " "), ")");
      for (const std::string& name : option.names)
        absl::StrAppend(&cases, " \\\n        '", name, "[", brief, "]", value, "'");
      if (option.names.empty()) absl::StrAppend(&cases, " \\\n        '*:", option.positional, ":_files'");
    }
    if (command.name == "run") absl::StrAppend(&cases, " \\\n        '*::command:_normal'");
    absl::StrAppend(&cases, "\n      ;;\n");
  }
  return absl::StrCat(
      "#compdef lockstep\n"
      "# zsh completion of lockstep: put it as _lockstep into a folder of $fpath\n"
      "_lockstep() {\n"
      "  local -a commands\n"
      "  commands=(\n",
      commands,
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $command in\n",
      cases,
      "  esac\n"
      "}\n"
      "if [ \"$funcstack[1]\" = _lockstep ]; then _lockstep \"$@\"; else compdef _lockstep lockstep; fi\n");
}

std::string FishCompletion(const std::vector<CommandHelp>& table) {
  std::string out = "# fish completion of lockstep: put it into ~/.config/fish/completions/lockstep.fish\n";
  for (const CommandHelp& command : table) {
    const std::string when = command.name.empty()
                                 ? "__fish_use_subcommand"
                                 : absl::StrCat("__fish_seen_subcommand_from ", command.name);
    if (!command.name.empty()) {
      absl::StrAppend(&out, "complete -c lockstep -n __fish_use_subcommand -f -a ", command.name, " -d '",
                      Brief(command.about), "'\n");
    }
    for (const OptionHelp& option : command.options) {
      if (option.names.empty()) continue;
      absl::StrAppend(&out, "complete -c lockstep -n '", when, "'");
      for (const std::string& name : option.names) {
        absl::StrAppend(&out, name[1] == '-' ? " -l " : " -s ", name.substr(name[1] == '-' ? 2 : 1));
      }
      if (!option.choices.empty()) {
        absl::StrAppend(&out, " -x -a '", absl::StrJoin(option.choices, " "), "'");
      } else if (!option.value.empty()) {
        out += " -r";
      }
      absl::StrAppend(&out, " -d '", Brief(option.about), "'\n");
    }
  }
  return out;
}

void AddCompletion(CLI::App& app, Chosen& chosen) {
  CLI::App* sub =
      AddCommand(app, "completion",
                 "Print the completion script of a shell.\n"
                 "\n"
                 "Examples:\n"
                 "  lockstep completion bash > ~/.local/share/bash-completion/completions/lockstep\n"
                 "  lockstep completion zsh > ~/.zfunc/_lockstep\n"
                 "  lockstep completion fish > ~/.config/fish/completions/lockstep.fish\n"
                 "  source <(lockstep completion bash)                      this shell only\n");
  auto shell = std::make_shared<std::string>();
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->callback([&app, shell, &chosen] {
    chosen.action = [&app, shell] {
      const std::vector<CommandHelp> table = OptionTable(app);
      return PrintText(*shell == "bash"  ? BashCompletion(table)
                       : *shell == "zsh" ? ZshCompletion(table)
                                         : FishCompletion(table),
                       {});
    };
  });
}

}  // namespace lockstep::cli
