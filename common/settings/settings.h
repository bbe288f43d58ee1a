// What a program is told: by flags, by environment variables, by a file; in that order the first that tells a key wins, and
// where none does its default holds. Every configurable long option of the parser is a key: --ring-bytes is `ring-bytes` in
// the file and LOCKSTEPD_RING_BYTES in the environment.
#ifndef LOCKSTEP_COMMON_SETTINGS_SETTINGS_H_
#define LOCKSTEP_COMMON_SETTINGS_SETTINGS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace lockstep::settings {

struct Program {
  std::string name;       // "lockstepd", for messages
  std::string version;    // "lockstepd 0.1.0"
  std::string prefix;     // "LOCKSTEPD_"
  std::string file_name;  // "lockstepd.conf", of its example
  // Defaults that depend on the machine or the user, by key: shown by --print-config only.
  std::map<std::string, std::string> defaults_here;
};

// Exit codes of the contract.
inline constexpr int kDone = 0;
inline constexpr int kUsage = 2;

// One thread, before others start.
class Settings {
 public:
  // Adds --config, --print-config and --example-config to `app`, which has all its other options already. `environment` as
  // main gets it; it and `app` outlive this.
  Settings(CLI::App& app, Program program, const char* const* environment);

  // Parses. Nothing: go on. Otherwise the exit code: 0 after --help and the like, said on stdout; 2 after an error, said on
  // stderr, all that can be found at once.
  std::optional<int> Parse(int argc, const char* const* argv);

 private:
  struct Value {
    std::string text;
    std::string origin;  // "LOCKSTEPD_METRICS", "/etc/lockstep/lockstepd.conf:7"
  };
  using Values = std::map<std::string, std::vector<Value>>;  // by key

  const CLI::Option* Find(const std::string& key) const;
  std::vector<std::string> Keys() const;
  const char* Variable(const std::string& name) const;
  void ReadEnvironment(Values& values);
  void ReadFile(const std::string& path, Values& values);
  // Every wrong value is named, not the first alone.
  std::optional<int> ParseWith(const std::vector<std::string>& flags, Values values);
  int Fail() const;
  void Print(const Values& values) const;
  std::string VariableOf(const std::string& key) const;

  CLI::App& app_;
  const Program program_;
  const char* const* const environment_;
  std::string file_;
  bool print_ = false;
  bool example_ = false;
  std::vector<std::string> errors_;
};

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_SETTINGS_H_
