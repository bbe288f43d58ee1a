#include "cli/man_pages.h"

#include <filesystem>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "aggregator/store/file_sink.h"
#include "cli/analysis_output.h"
#include "cli/command.h"
#include "common/rpc/status_macros.h"

namespace lockstep::cli {
namespace {

// Text as roff takes it: a leading dot or quote would be a command, a hyphen a line's break.
std::string Roff(const std::string& text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

std::string NameOf(const CommandHelp& command) { return command.name.empty() ? "lockstep" : absl::StrCat("lockstep-", command.name); }

void AddOption(const OptionHelp& option, std::string& out) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back("\\fB" + Roff(name) + "\\fR");
  if (names.empty()) names.push_back("\\fI" + Roff(option.positional) + "\\fR");
  absl::StrAppend(&out, ".TP\n", absl::StrJoin(names, ", "));
  if (!option.value.empty() && !option.names.empty()) absl::StrAppend(&out, " \\fI", Roff(option.value), "\\fR");
  const bool ends = option.about.ends_with('.') || option.about.ends_with(']');
  absl::StrAppend(&out, "\n", Roff(option.about), ends ? "\n" : ".\n");
  if (!option.choices.empty()) absl::StrAppend(&out, "One of: ", Roff(absl::StrJoin(option.choices, ", ")), ".\n");
  if (!option.preset.empty()) absl::StrAppend(&out, "Without it: ", Roff(option.preset), ".\n");
  if (!option.variable.empty()) absl::StrAppend(&out, "Also from the environment: ", Roff(option.variable), ".\n");
}

// Prose is filled; what is indented, and examples, stay as they stand.
void AddText(const std::string& text, std::string& out) {
  bool literal = false;
  for (const absl::string_view view : absl::StrSplit(text, '\n')) {
    const std::string line(view);
    const bool indented = line.starts_with("  ");
    if (indented != literal) absl::StrAppend(&out, indented ? ".PP\n.nf\n" : ".fi\n");
    literal = indented;
    if (line == "Examples:") {
      out += ".SH EXAMPLES\n";
    } else if (line.empty()) {
      out += ".PP\n";
    } else {
      absl::StrAppend(&out, Roff(line), "\n");
    }
  }
  if (literal) out += ".fi\n";
}

}  // namespace

std::string ManFileName(const CommandHelp& command) { return NameOf(command) + ".1"; }

std::string ManPage(const CommandHelp& command, const std::vector<CommandHelp>& all) {
  const std::string title = absl::AsciiStrToUpper(NameOf(command));
  std::string out = absl::StrCat(".TH ", Roff(title), " 1 \"\" \"lockstep " LOCKSTEP_VERSION "\"\n.SH NAME\n", Roff(NameOf(command)), " \\- ");
  const std::string about = command.about.substr(0, command.about.find('\n'));
  absl::StrAppend(&out, Roff(about), "\n.SH SYNOPSIS\n.B lockstep", command.name.empty() ? "" : " " + command.name, "\n");
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
    AddText(rest, out);
  }
  out += ".SH OPTIONS\n";
  for (const OptionHelp& option : command.options) AddOption(option, out);
  if (command.name.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandHelp& other : all) {
      if (!other.name.empty()) absl::StrAppend(&out, ".TP\n.BR ", Roff(NameOf(other)), " (1)\n", Roff(other.about), "\n");
    }
  }
  if (!command.text.empty()) {
    out += ".SH MORE\n";
    AddText(command.text, out);
  }
  return out;
}

namespace {

absl::Status WriteAll(const std::vector<CommandHelp>& table, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return absl::PermissionDeniedError(absl::StrCat("cannot make ", folder, ": ", error.message()));
  for (const CommandHelp& command : table) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto file, store::OpenAtomicFile(absl::StrCat(folder, "/", ManFileName(command))));
    LOCKSTEP_RETURN_IF_ERROR(file->Append(ManPage(command, table)));
    LOCKSTEP_RETURN_IF_ERROR(file->Finish());
  }
  return absl::OkStatus();
}

ExitCode Show(const std::vector<CommandHelp>& table, const std::string& name, const std::string& folder) {
  if (!folder.empty()) {
    if (absl::Status s = WriteAll(table, folder); !s.ok()) return Fail(s);
    Say(absl::StrCat("wrote ", table.size(), " pages to ", folder));
    return ExitCode::kDone;
  }
  for (const CommandHelp& command : table) {
    if (command.name == name) return PrintText(ManPage(command, table), {});
  }
  return Fail(ExitCode::kUsage, absl::StrCat("there is no command ", name, "; `lockstep --help` lists them"));
}

}  // namespace

void AddMan(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "man",
                             "Print the manual page of a command, or write those of all.\n"
                             "\n"
                             "Examples:\n"
                             "  lockstep man trace | man -l -\n"
                             "  lockstep man -o ~/.local/share/man/man1\n");
  auto name = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  sub->add_option("COMMAND", *name, "Without it the program's own page");
  sub->add_option("-o,--output", *folder, "A folder for the pages of all commands");
  sub->callback([&app, name, folder, &chosen] { chosen.action = [&app, name, folder] { return Show(OptionTable(app), *name, *folder); }; });
}

}  // namespace lockstep::cli
