#include "cli/arguments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/settings/nearest_word.h"

namespace lockstep::cli {
namespace {

// The words after `run --` and `complete --` are not parsed, because they can have any options.
void TakeCommand(std::vector<std::string>& words, Chosen& chosen) {
  if (words.empty() || (words[0] != "run" && words[0] != "complete")) return;
  const auto end = std::find(words.begin(), words.end(), "--");
  if (end == words.end()) return;
  chosen.has_command = true;
  chosen.command.assign(end + 1, words.end());
  words.erase(end, words.end());
}

// For an unknown command CLI11 reports only that a subcommand is required, so this lists the known ones.
std::string WrongCommand(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0][0] == '-') return "";
  std::vector<std::string> known;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->check_name(words[0])) return "";
    if (!sub->get_group().empty()) known.push_back(sub->get_name());
  }
  return absl::StrCat("unknown command ", words[0], "; the commands are ", absl::StrJoin(known, ", "),
                      settings::DidYouMean(words[0], known));
}

// CLI11 names unexpected words in the opposite order.
std::string UnexpectedWords(const CLI::App& sub, const std::vector<std::string>& words) {
  std::vector<std::string> known;
  for (const CLI::Option* option : sub.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back(name);
  }
  const std::vector<std::string> unexpected = sub.remaining();
  std::string list, nearest;
  for (const std::string& word : words) {
    if (std::find(unexpected.begin(), unexpected.end(), word) == unexpected.end()) continue;
    absl::StrAppend(&list, list.empty() ? "" : " ", word);
    if (nearest.empty() && word.starts_with("--"))
      nearest = settings::NearestWord(word.substr(2, word.find('=') - 2), known);
  }
  return absl::StrCat("unexpected arguments: ", list,
                      nearest.empty() ? "" : absl::StrCat("; did you mean --", nearest, "?"));
}

}  // namespace

void AddCommands(CLI::App& app, Chosen& chosen) {
  AddRun(app, chosen);
  AddTrace(app, chosen);
  AddStatus(app, chosen);
  AddTop(app, chosen);
  AddHang(app, chosen);
  AddRecord(app, chosen);
  AddReport(app, chosen);
  AddAnalyze(app, chosen);
  AddWhatIf(app, chosen);
  AddExport(app, chosen);
  AddViews(app, chosen);
  AddDiff(app, chosen);
  AddHistory(app, chosen);
  AddFlame(app, chosen);
  AddProfile(app, chosen);
  AddDoctor(app, chosen);
  AddHealth(app, chosen);
  AddNode(app, chosen);
  AddToken(app, chosen);
  AddAudit(app, chosen);
  AddConfig(app, chosen);
  AddJob(app, chosen);
  AddCompletion(app, chosen);
  AddComplete(app, chosen);
  AddMan(app, chosen);
}

int ParseArguments(CLI::App& app, std::vector<std::string> words, Chosen& chosen) {
  TakeCommand(words, chosen);
  if (const std::string wrong = WrongCommand(app, words); !wrong.empty()) {
    PrintMessage(wrong);
    return static_cast<int>(ExitCode::kUsage);
  }
  // CLI11 reads the vector from its end.
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const CLI::App* sub = app.get_subcommands().empty() ? nullptr : app.get_subcommands()[0];
    const bool unexpected = sub != nullptr && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    PrintMessage(absl::StrCat(unexpected ? UnexpectedWords(*sub, words) : error.what(), "; see `lockstep ",
                              sub == nullptr ? "" : sub->get_name() + " ", "--help`"));
    return static_cast<int>(ExitCode::kUsage);
  }
  return 0;
}

}  // namespace lockstep::cli
