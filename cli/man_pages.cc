#include "cli/man_pages.h"

#include <filesystem>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/files/file_sink.h"
#include "base/rpc/status_macros.h"
#include "base/settings/roff.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

using settings::CommandHelp;
using settings::OptionHelp;
using settings::OptionTable;
using settings::Roff;

std::string NameOf(const CommandHelp& command) {
  return command.name.empty() ? "lockstep" : absl::StrCat("lockstep-", command.name);
}

}  // namespace

std::string ManFileName(const CommandHelp& command) { return NameOf(command) + ".1"; }

std::string ManPage(const CommandHelp& command, const std::vector<CommandHelp>& all) {
  const std::string title = absl::AsciiStrToUpper(NameOf(command));
  std::string out = absl::StrCat(".TH ", Roff(title), " 1 \"\" \"lockstep " LOCKSTEP_VERSION "\"\n.SH NAME\n",
                                 Roff(NameOf(command)), " \\- ");
  const std::string about = command.about.substr(0, command.about.find('\n'));
  absl::StrAppend(&out, Roff(about), "\n.SH SYNOPSIS\n.B lockstep",
                  command.name.empty() ? "" : " " + command.name, "\n");
  if (command.name.empty()) {
    out += "\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  } else {
    out += "[\\fIOPTIONS\\fR]";
    for (const OptionHelp& option : command.options) {
      if (option.names.empty()) absl::StrAppend(&out, " \\fI", Roff(option.positional), "\\fR");
    }
    out += command.name == "run" ? " \\-\\- \\fICOMMAND\\fR\n" : "\n";
  }
  const std::string rest = command.about.size() > about.size() ? command.about.substr(about.size() + 1) : "";
  if (!rest.empty()) {
    out += ".SH DESCRIPTION\n";
    settings::AddRoffText(rest, out);
  }
  out += ".SH OPTIONS\n";
  for (const OptionHelp& option : command.options) settings::AddRoffOption(option, out);
  if (command.name.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandHelp& other : all) {
      if (!other.name.empty())
        absl::StrAppend(&out, ".TP\n.BR ", Roff(NameOf(other)), " (1)\n", Roff(other.about), "\n");
    }
  }
  if (!command.text.empty()) {
    out += ".SH MORE\n";
    settings::AddRoffText(command.text, out);
  }
  return out;
}

namespace {

absl::Status WriteAll(const std::vector<CommandHelp>& table, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return absl::PermissionDeniedError(absl::StrCat("cannot create ", folder, ": ", error.message()));
  for (const CommandHelp& command : table) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto file,
                              OpenAtomicFile(absl::StrCat(folder, "/", ManFileName(command))));
    LOCKSTEP_RETURN_IF_ERROR(file->Append(ManPage(command, table)));
    LOCKSTEP_RETURN_IF_ERROR(file->Finish());
  }
  return absl::OkStatus();
}

ExitCode Show(const std::vector<CommandHelp>& table, const std::string& name, const std::string& folder) {
  if (!folder.empty()) {
    if (absl::Status s = WriteAll(table, folder); !s.ok()) return Fail(s);
    PrintMessage(absl::StrCat("wrote ", table.size(), " pages to ", folder));
    return ExitCode::kDone;
  }
  for (const CommandHelp& command : table) {
    if (command.name == name) return PrintText(ManPage(command, table), {});
  }
  return Fail(ExitCode::kUsage, absl::StrCat("unknown command ", name, "; `lockstep --help` lists them"));
}

}  // namespace

void AddMan(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "man",
                             "Print the manual page of a command, or write all manual pages.\n"
                             "\n"
                             "Examples:\n"
                             "  lockstep man trace | man -l -\n"
                             "  lockstep man -o ~/.local/share/man/man1\n");
  auto name = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  sub->add_option("COMMAND", *name, "The command; default: the program itself");
  sub->add_option("-o,--output", *folder, "Folder for the pages of all commands")->type_name(kFolderValue);
  sub->callback([&app, name, folder, &chosen] {
    chosen.action = [&app, name, folder] { return Show(OptionTable(app), *name, *folder); };
  });
}

}  // namespace lockstep::cli
