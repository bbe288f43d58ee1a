#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "cli/arguments.h"
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
    "  lockstep hang                                       it does not move: why\n"
    "  lockstep analyze ./traces                           the same report of recorded Kineto/PyTorch "
    "traces\n";

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app(kAbout, "lockstep");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  Chosen chosen;
  AddCommands(app, chosen);
  const int parsed = ParseArguments(app, {argv + std::min(argc, 1), argv + argc}, chosen);
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
