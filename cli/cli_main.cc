#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/settings/nearest_word.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "Lockstep finds the rank that holds the others back in a running multi-GPU job, the cause, and the "
    "gain of a fix.\n"
    "\n"
    "  mpiexec -n 8 lockstep run -- python train.py        start the job\n"
    "  lockstep trace --duration 2s                        capture it, whenever you like, and read the "
    "report\n"
    "  lockstep top                                        watch it live\n"
    "  lockstep analyze ./traces                           the same report of recorded Kineto/PyTorch "
    "traces\n";

// The words after `run --` and `complete --` are not parsed, because they can have any options.
std::vector<std::string> TakeCommand(int argc, char** argv, Chosen& chosen) {
  std::vector<std::string> ours;
  int i = 1;
  const std::string command = argc > 1 ? argv[1] : "";
  const bool passes_on = command == "run" || command == "complete";
  for (; i < argc; ++i) {
    if (passes_on && std::string(argv[i]) == "--") {
      chosen.has_command = true;
      break;
    }
    ours.emplace_back(argv[i]);
  }
  for (++i; i < argc; ++i) chosen.command.emplace_back(argv[i]);
  return ours;
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

int Parse(CLI::App& app, std::vector<std::string> words) {
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

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app(kAbout, "lockstep");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  Chosen chosen;
  AddRun(app, chosen);
  AddTrace(app, chosen);
  AddStatus(app, chosen);
  AddTop(app, chosen);
  AddReport(app, chosen);
  AddAnalyze(app, chosen);
  AddWhatIf(app, chosen);
  AddExport(app, chosen);
  AddViews(app, chosen);
  AddDiff(app, chosen);
  AddFlame(app, chosen);
  AddProfile(app, chosen);
  AddDoctor(app, chosen);
  AddHealth(app, chosen);
  AddConfig(app, chosen);
  AddJob(app, chosen);
  AddCompletion(app, chosen);
  AddComplete(app, chosen);
  AddMan(app, chosen);
  const int parsed = Parse(app, TakeCommand(argc, argv, chosen));
  if (parsed != 0 || !chosen.action) return parsed;
  // If a reader of stdout exits (`| head`), the write must fail instead of killing us. `run` is excluded,
  // because the user's command inherits the signal's setting.
  if (!app.got_subcommand("run")) std::signal(SIGPIPE, SIG_IGN);
  ExitCode code = ExitCode::kFailed;
  try {
    code = chosen.action();
  } catch (const std::exception& error) {
    // Thrown by the standard library, usually for lack of memory. Our code throws no exceptions.
    PrintMessage(std::string(error.what()) + ": this machine lacks a resource for the command");
  }
  std::fflush(stdout);
  std::fflush(stderr);
  // Skips the destructors of a capture of hundreds of megabytes.
  std::_Exit(static_cast<int>(code));
}

}  // namespace lockstep::cli
