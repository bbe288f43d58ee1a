#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/common/command.h"
#include "cli/common/installation.h"

namespace lockstep::cli {
namespace {

struct Configured {
  const char* program;
  const char* file;  // its usual name, which identifies the program of a file
  const char* stem;  // prefix of its files' names
};
constexpr Configured kConfigured[] = {{"lockstepd", "lockstepd.conf", "lockstepd"},
                                      {"lockstep-aggregator", "aggregator.conf", "aggregator"}};

const Configured* ProgramOf(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const Configured& each : kConfigured) {
    if (name.rfind(each.stem, 0) == 0) return &each;
  }
  return nullptr;
}

// The installed program checks its own file, because only it knows the keys of its version.
ExitCode Check(const Configured& configured, const std::string& path) {
  const absl::StatusOr<std::string> program = Installation::OfThisProgram().Program(configured.program);
  if (!program.ok()) {
    return Fail(ExitCode::kFailed,
                absl::StrCat("cannot check ", path, ": ", program.status().message(), "; install lockstep-",
                             configured.program == kConfigured[0].program ? "daemon" : "aggregator"));
  }
  std::string words[] = {*program, "--config", path, "--print-config"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  std::printf("== %s\n", path.c_str());
  std::fflush(stdout);
  pid_t pid = 0;
  if (const int error = ::posix_spawn(&pid, words[0].c_str(), nullptr, nullptr, argv, environ); error != 0) {
    return Fail(absl::ErrnoToStatus(error, absl::StrCat("cannot start ", *program)));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ExitCode::kDone : ExitCode::kUsage;
}

// Returns the files that the installed services read: in /etc/lockstep, and in the etc folder of this
// installation's prefix.
std::vector<std::string> UsualFiles() {
  std::vector<std::string> found;
  for (const std::string& folder :
       {std::string("/etc/lockstep"), Installation::OfThisProgram().folder() + "/../etc/lockstep"}) {
    for (const Configured& configured : kConfigured) {
      const std::string path = absl::StrCat(folder, "/", configured.file);
      if (::access(path.c_str(), F_OK) == 0) found.push_back(path);
    }
    if (!found.empty()) break;
  }
  return found;
}

ExitCode CheckAll(std::vector<std::string> files) {
  if (files.empty()) files = UsualFiles();
  if (files.empty()) return Fail(ExitCode::kUsage, "no configuration file in /etc/lockstep: give FILE");
  ExitCode worst = ExitCode::kDone;
  for (const std::string& path : files) {
    const Configured* configured = ProgramOf(path);
    const ExitCode code =
        configured == nullptr
            ? Fail(ExitCode::kUsage,
                   absl::StrCat(path, ": the file's name must begin with lockstepd or aggregator"))
            : Check(*configured, path);
    if (code != ExitCode::kDone && worst != ExitCode::kUsage) worst = code;
  }
  return worst;
}

}  // namespace

void AddConfig(CLI::App& app, Chosen& chosen) {
  CLI::App* sub =
      AddCommand(app, "config",
                 "Check configuration files: print each key's value and origin, or each error.\n"
                 "\n"
                 "Errors give exit code 2. Without FILE it checks /etc/lockstep/lockstepd.conf and "
                 "aggregator.conf, if they exist.\n"
                 "It reads the variables LOCKSTEPD_* and LOCKSTEP_AGGREGATOR_* of this shell, as the program "
                 "does.\n"
                 "\n"
                 "Examples:\n"
                 "  lockstep config check\n"
                 "  lockstep config check ./lockstepd.conf\n"
                 "  lockstepd --example-config > lockstepd.conf\n");
  struct Flags {
    std::string action;
    std::vector<std::string> files;
  };
  auto flags = std::make_shared<Flags>();
  sub->add_option("ACTION", flags->action, "check")->required()->check(CLI::IsMember({"check"}));
  sub->add_option("FILE", flags->files, "Files whose names begin with lockstepd or aggregator");
  sub->callback([flags, &chosen] { chosen.action = [flags] { return CheckAll(flags->files); }; });
}

}  // namespace lockstep::cli
