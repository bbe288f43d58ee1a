// Reads a program's configuration from flags, environment variables and a file. The first of these that sets
// a key wins, else the default applies. Every configurable long option of the parser is a key. For example,
// --ring-bytes is `ring-bytes` in the file and LOCKSTEPD_RING_BYTES in the environment.
#ifndef LOCKSTEP_BASE_SETTINGS_SETTINGS_H_
#define LOCKSTEP_BASE_SETTINGS_SETTINGS_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"

namespace lockstep::settings {

// A conflict of settings: each value is valid alone, but they do not fit together, or not to the program's
// use of them.
struct Conflict {
  enum class Weight : uint8_t { kWarning, kError };  // the program continues, or it does not start
  Weight weight = Weight::kError;
  std::vector<std::string> keys;  // the conflicting keys; the message has the place where each was set
  std::string text;               // the problem and the remedy
};

struct Program {
  std::string name;       // "lockstepd", for messages
  std::string version;    // "lockstepd 0.1.0"
  std::string summary;    // one line for the manual page
  std::string prefix;     // "LOCKSTEPD_"
  std::string file_name;  // name of its example file, "lockstepd.conf"
  // Defaults that depend on the machine or the user, by key. Only --print-config shows them.
  std::map<std::string, std::string> defaults_here;
  // Other files of the program, for the manual page: path and description.
  std::vector<std::pair<std::string, std::string>> files;
  // Called when all options have their values. No other code checks these rules, so `lockstep config check`
  // and a start agree.
  std::function<std::vector<Conflict>()> rules = [] { return std::vector<Conflict>(); };
};

// Exit codes that users may rely on.
inline constexpr int kDone = 0;
inline constexpr int kUsage = 2;

// One thread may use it, before others start.
class Settings {
 public:
  // Adds --config, --print-config, --example-config and --man-page to `app`, which must have all its other
  // options already. `environment` is that of main(). It and `app` must outlive this object.
  Settings(CLI::App& app, Program program, const char* const* environment);

  // Parses all sources. nullopt: the program continues. 0: --help or a similar option has written to stdout.
  // 2: errors were written to stderr, as many as can be found at once.
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
  // Warns about variables with the program's prefix that belong to no key.
  void WarnOfUnknownVariables() const;
  // Returns false if one of the conflicts is an error.
  bool HoldsRules(const Values& values) const;
  void ReadFile(const std::string& path, Values& values);
  // Reports every wrong value, not only the first.
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

#endif  // LOCKSTEP_BASE_SETTINGS_SETTINGS_H_
