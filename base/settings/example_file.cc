#include "base/settings/example_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace lockstep::settings {
namespace {

constexpr size_t kWidth = 100;

void AddComment(const std::string& text, std::string& out) {
  std::string line = "#";
  for (const absl::string_view word : absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(&out, line, "\n");
      line = "#";
    }
    absl::StrAppend(&line, " ", word);
  }
  absl::StrAppend(&out, line, "\n");
}

}  // namespace

std::string ExampleFile(const CLI::App& app, const Program& program) {
  std::string out;
  AddComment(absl::StrCat(program.file_name, ": read by `", program.name,
                          " --config FILE`. Each line is `key = value`, and the value ends with the line. ",
                          "A line that begins with # is a comment. A key with several values has several "
                          "lines."),
             out);
  AddComment(
      absl::StrCat(
          "Flags win over the environment, the environment over this file, and this file over the defaults. "
          "`lockstep config check` shows each value ",
          "and its origin."),
      out);
  for (const CLI::Option* option : app.get_options({})) {
    if (!option->get_configurable() || option->get_lnames().empty()) continue;
    const std::string& key = option->get_lnames()[0];
    const std::string variable =
        absl::StrCat(program.prefix, absl::AsciiStrToUpper(absl::StrReplaceAll(key, {{"-", "_"}})));
    const std::string about = option->get_description();
    out += "\n";
    AddComment(absl::StrCat(about, about.empty() || about.back() == '.' ? "" : ".",
                            option->get_expected_max() > 1 ? " May be repeated on several lines." : "",
                            " Environment: ", variable,
                            option->get_envname().empty() ? "" : " or " + option->get_envname(), "."),
               out);
    const bool varies = program.defaults_here.count(key) != 0 || option->get_default_str().empty();
    absl::StrAppend(&out, "#", key, " =", varies ? "" : " " + option->get_default_str(), "\n");
  }
  return out;
}

}  // namespace lockstep::settings
