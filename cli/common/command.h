// One subcommand per file: each adds itself to the parser and says what it does when it was chosen.
#ifndef LOCKSTEP_CLI_COMMAND_H_
#define LOCKSTEP_CLI_COMMAND_H_

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "cli/common/exit_code.h"

namespace lockstep::cli {

// What the parser leaves behind: the chosen subcommand's work. Empty when --help or --version was all.
struct Chosen {
  std::function<ExitCode()> action;
  // What stood after `--`: the user's command, never parsed by us.
  std::vector<std::string> command;
  bool has_command = false;
};

// A subcommand whose first line of `about` stands in the list of commands, and the rest below its options.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& about);

void AddRun(CLI::App& app, Chosen& chosen);
void AddTrace(CLI::App& app, Chosen& chosen);
void AddStatus(CLI::App& app, Chosen& chosen);
void AddTop(CLI::App& app, Chosen& chosen);
void AddReport(CLI::App& app, Chosen& chosen);
void AddAnalyze(CLI::App& app, Chosen& chosen);
void AddWhatIf(CLI::App& app, Chosen& chosen);
void AddExport(CLI::App& app, Chosen& chosen);
void AddViews(CLI::App& app, Chosen& chosen);
void AddDiff(CLI::App& app, Chosen& chosen);
void AddProfile(CLI::App& app, Chosen& chosen);
void AddDoctor(CLI::App& app, Chosen& chosen);
void AddHealth(CLI::App& app, Chosen& chosen);
void AddConfig(CLI::App& app, Chosen& chosen);
void AddJob(CLI::App& app, Chosen& chosen);
void AddCompletion(CLI::App& app, Chosen& chosen);
void AddMan(CLI::App& app, Chosen& chosen);

// The whole program.
int Main(int argc, char** argv);

// "lockstep: …" on stderr.
void Say(const std::string& sentence);
// Says why, and gives the exit code of that kind of failure.
ExitCode Fail(const absl::Status& status);
ExitCode Fail(ExitCode code, const std::string& sentence);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMAND_H_
