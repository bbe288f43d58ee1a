// What a program is told: by flags, by environment variables, by a file; in that order the first that tells a
// key wins, and where none does its default holds. Every configurable long option of the parser is a key:
// --ring-bytes is `ring-bytes` in the file and LOCKSTEPD_RING_BYTES in the environment.
#ifndef LOCKSTEP_COMMON_SETTINGS_SETTINGS_H_
#define LOCKSTEP_COMMON_SETTINGS_SETTINGS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"

namespace lockstep::settings {

// Values that are taken each for itself and do not fit together, or do not fit what the program will do with
// them.
struct Clash {
  enum class Weight : uint8_t { kWarning, kError };  // the program runs on, or it does not start
  Weight weight = Weight::kError;
  std::vector<std::string> keys;  // whose values; those that were given are named by their place
  std::string text;               // what is wrong and what to do
};

struct Program {
  std::string name;       // "lockstepd", for messages
  std::string version;    // "lockstepd 0.1.0"
  std::string summary;    // a line for the manual page
  std::string prefix;     // "LOCKSTEPD_"
  std::string file_name;  // "lockstepd.conf", of its example
  // Defaults that depend on the machine or the user, by key: shown by --print-config only.
  std::map<std::string, std::string> defaults_here;
  // Its other files, for the manual page: path and what it is.
  std::vector<std::pair<std::string, std::string>> files;
  // Asked once all options have their values. Here and nowhere else, so that `lockstep config check` and a
  // start agree.
  std::function<std::vector<Clash>()> rules = [] { return std::vector<Clash>(); };
};

// Exit codes of the contract.
inline constexpr int kDone = 0;
inline constexpr int kUsage = 2;

// One thread, before others start.
class Settings {
 public:
  // Adds --config, --print-config, --example-config and --man-page to `app`, which has all its other options
  // already. `environment` as main gets it; it and `app` outlive this.
  Settings(CLI::App& app, Program program, const char* const* environment);

  // Parses. Nothing: go on. Otherwise the exit code: 0 after --help and the like, said on stdout; 2 after an
  // error, said on stderr, all that can be found at once.
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
  // Variables with the program's prefix that are no key's.
  void WarnOfUnknownVariables() const;
  // False: one is an error.
  bool HoldsRules(const Values& values) const;
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
  bool page_ = false;
  std::vector<std::string> errors_;
};

}  // namespace lockstep::settings

#endif  // LOCKSTEP_COMMON_SETTINGS_SETTINGS_H_
