// The subcommands, one per file. Each adds itself to the parser and stores its action when it is chosen.
#ifndef LOCKSTEP_CLI_COMMON_COMMAND_H_
#define LOCKSTEP_CLI_COMMON_COMMAND_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "cli/common/exit_code.h"

namespace lockstep::cli {

// Kinds of values. --help shows them as names of an option's value, and completion knows their values.
inline constexpr char kFileValue[] = "FILE";
inline constexpr char kFolderValue[] = "FOLDER";
inline constexpr char kPathValue[] = "PATH";  // a file or a folder
inline constexpr char kSocketValue[] = "SOCKET";
inline constexpr char kCaptureValue[] = "CAPTURE";
inline constexpr char kJobValue[] = "JOB";
inline constexpr char kColumnValue[] = "COLUMN";
inline constexpr char kColumnsValue[] = "COLUMN,...";
inline constexpr char kConditionValue[] = "COLUMN=TEXT";
inline constexpr char kListValue[] = "LIST";  // words with commas
// Returns the kind of an option that accepts one of `words`, or of `words` with commas between them.
std::string OneOf(const std::vector<std::string>& words);
std::string ListOf(const std::vector<std::string>& words);

// The result of parsing: the action of the chosen subcommand. Empty if --help or --version ended the parsing.
struct Chosen {
  std::function<ExitCode()> action;
  // The words after `--`, which are not parsed: the user's command, or the line to complete.
  std::vector<std::string> command;
  bool has_command = false;
};

// Adds a subcommand. The first line of `about` appears in the list of commands, the rest below its options.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& about);

void AddRun(CLI::App& app, Chosen& chosen);
void AddTrace(CLI::App& app, Chosen& chosen);
void AddStatus(CLI::App& app, Chosen& chosen);
void AddTop(CLI::App& app, Chosen& chosen);
void AddHang(CLI::App& app, Chosen& chosen);
void AddRecord(CLI::App& app, Chosen& chosen);
void AddReport(CLI::App& app, Chosen& chosen);
void AddAnalyze(CLI::App& app, Chosen& chosen);
void AddWhatIf(CLI::App& app, Chosen& chosen);
void AddExport(CLI::App& app, Chosen& chosen);
void AddViews(CLI::App& app, Chosen& chosen);
void AddDiff(CLI::App& app, Chosen& chosen);
void AddHistory(CLI::App& app, Chosen& chosen);
void AddFlame(CLI::App& app, Chosen& chosen);
void AddProfile(CLI::App& app, Chosen& chosen);
void AddDoctor(CLI::App& app, Chosen& chosen);
void AddHealth(CLI::App& app, Chosen& chosen);
void AddNode(CLI::App& app, Chosen& chosen);
void AddToken(CLI::App& app, Chosen& chosen);
void AddAudit(CLI::App& app, Chosen& chosen);
void AddConfig(CLI::App& app, Chosen& chosen);
void AddJob(CLI::App& app, Chosen& chosen);
void AddCompletion(CLI::App& app, Chosen& chosen);
// Adds `complete`, which the completion scripts call. It is in no list of commands.
void AddComplete(CLI::App& app, Chosen& chosen);
void AddMan(CLI::App& app, Chosen& chosen);

// Runs the whole program.
int Main(int argc, char** argv);

// Prints "lockstep: …" on stderr.
void PrintMessage(const std::string& sentence);
// Prints the error and returns the exit code for its kind.
ExitCode Fail(const absl::Status& status);
ExitCode Fail(ExitCode code, const std::string& sentence);

// Adds a verb of a subcommand (`lockstep node list`), which ends with Fail if `verb` fails.
template <typename Flags>
CLI::App* AddVerb(CLI::App& command, const char* name, const char* about, std::shared_ptr<Flags> flags,
                  Chosen& chosen, absl::Status (*verb)(const Flags&)) {
  CLI::App* sub = command.add_subcommand(name, about);
  sub->callback([flags = std::move(flags), &chosen, verb] {
    chosen.action = [flags, verb] {
      const absl::Status status = verb(*flags);
      return status.ok() ? ExitCode::kDone : Fail(status);
    };
  });
  return sub;
}

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_COMMAND_H_
