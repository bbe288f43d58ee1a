#include "base/settings/roff.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace lockstep::settings {

// A leading dot or quote would be a command. A hyphen would permit a line break.
std::string Roff(const std::string& text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

void AddRoffOption(const OptionHelp& option, std::string& out) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back("\\fB" + Roff(name) + "\\fR");
  if (names.empty()) names.push_back("\\fI" + Roff(option.positional) + "\\fR");
  absl::StrAppend(&out, ".TP\n", absl::StrJoin(names, ", "));
  if (!option.value.empty() && !option.names.empty())
    absl::StrAppend(&out, " \\fI", Roff(option.value), "\\fR");
  const bool ends = option.about.ends_with('.') || option.about.ends_with(']');
  absl::StrAppend(&out, "\n", Roff(option.about), ends ? "\n" : ".\n");
  if (!option.choices.empty())
    absl::StrAppend(&out, "One of: ", Roff(absl::StrJoin(option.choices, ", ")), ".\n");
  if (!option.preset.empty()) absl::StrAppend(&out, "Default: ", Roff(option.preset), ".\n");
  if (!option.variable.empty()) absl::StrAppend(&out, "Environment: ", Roff(option.variable), ".\n");
}

void AddRoffText(const std::string& text, std::string& out) {
  bool literal = false, gap = false, begun = false;
  for (const absl::string_view view : absl::StrSplit(text, '\n')) {
    const std::string line(view);
    if (line.empty()) {
      // Several empty lines count as one. Empty lines at both ends are dropped.
      gap = begun;
      continue;
    }
    const bool indented = line.starts_with("  ");
    if (literal && !indented) out += ".fi\n";
    if (line == "Examples:") {
      out += ".SH EXAMPLES\n";
      literal = gap = begun = false;
      continue;
    }
    if (begun && (gap || indented != literal)) out += literal && indented ? "\n" : ".PP\n";
    if (indented && !literal) out += ".nf\n";
    absl::StrAppend(&out, Roff(line), "\n");
    literal = indented;
    gap = false;
    begun = true;
  }
  if (literal) out += ".fi\n";
}

}  // namespace lockstep::settings
