#include "base/settings/service_page.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/settings/roff.h"

namespace lockstep::settings {
namespace {

void AddFiles(const Program& program, std::string& out) {
  absl::StrAppend(
      &out, ".SH FILES\n.TP\n.I ", Roff(absl::StrCat("/etc/lockstep/", program.file_name)), "\n",
      "Configuration file that the unit passes to \\-\\-config: one line \\(lqkey = value\\(rq for "
      "each option.\n");
  for (const auto& [path, what] : program.files)
    absl::StrAppend(&out, ".TP\n.I ", Roff(path), "\n", Roff(what), "\n");
}

}  // namespace

std::string ServicePage(const CLI::App& app, const Program& program) {
  const CommandHelp help = OptionTable(app)[0];
  std::string out =
      absl::StrCat(".TH ", Roff(absl::AsciiStrToUpper(program.name)), " 8 \"\" \"", program.version,
                   "\"\n.SH NAME\n", Roff(program.name), " \\- ", Roff(program.summary),
                   "\n.SH SYNOPSIS\n.B ", Roff(program.name), "\n[\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n");
  AddRoffText(help.about, out);
  out += ".SH OPTIONS\n";
  for (OptionHelp option : help.options) {
    const bool key = !option.names.empty() && app.get_option(option.names[0])->get_configurable();
    const std::string variable =
        option.names.empty()
            ? ""
            : absl::AsciiStrToUpper(absl::StrReplaceAll(option.names[0].substr(2), {{"-", "_"}}));
    if (key)
      option.variable =
          absl::StrCat(program.prefix, variable, option.variable.empty() ? "" : " or " + option.variable);
    AddRoffOption(option, out);
  }
  if (!help.text.empty()) {
    out += ".SH NOTES\n";
    AddRoffText(help.text, out);
  }
  AddFiles(program, out);
  out +=
      ".SH EXIT STATUS\n.TP\n0\nIt ended on request.\n.TP\n1\nIt failed; stderr and the log name the "
      "reason.\n.TP\n2\n"
      "The settings are invalid; stderr names each error.\n.SH SEE ALSO\n.BR lockstep "
      "(1),\n.BR lockstepd (8),\n.BR "
      "lockstep\\-aggregator (8)\n";
  return out;
}

}  // namespace lockstep::settings
