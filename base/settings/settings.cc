#include "base/settings/settings.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/settings/example_file.h"
#include "base/settings/nearest_word.h"
#include "base/settings/service_page.h"
#include "base/settings/settings_file.h"

namespace lockstep::settings {
namespace {

constexpr char kConfig[] = "config";

std::string KeyOf(const CLI::Option& option) {
  return option.get_lnames().empty() ? "" : option.get_lnames()[0];
}

bool TakesMany(const CLI::Option& option) { return option.get_expected_max() > 1; }

// Returns the long names of the options on the command line. Our programs have no short ones, and CLI11 does
// not accept a word with -- as a value.
std::set<std::string> GivenFlags(const std::vector<std::string>& words) {
  std::set<std::string> given;
  for (const std::string& word : words) {
    if (word.rfind("--", 0) == 0) given.insert(word.substr(2, word.find('=') - 2));
  }
  return given;
}

// Returns the value of `--config FILE` or `--config=FILE`. The last one counts, as in CLI11.
std::string FlagValue(const std::vector<std::string>& words, const std::string& key) {
  std::string value;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--" + key && i + 1 < words.size()) value = words[i + 1];
    if (words[i].rfind("--" + key + "=", 0) == 0) value = words[i].substr(key.size() + 3);
  }
  return value;
}

}  // namespace

Settings::Settings(CLI::App& app, Program program, const char* const* environment)
    : app_(app), program_(std::move(program)), environment_(environment) {
  app.add_option("--config", file_,
                 "Configuration file with a `key = value` line per option; flags and environment win over it")
      ->configurable(false);
  app.add_flag("--print-config", print_, "Print each key's value and origin, and exit")->configurable(false);
  app.add_flag("--example-config", example_, "Print a configuration file that explains every key, and exit")
      ->configurable(false);
  app.add_flag("--man-page", page_, "Print the manual page, and exit")->configurable(false);
  app.footer(absl::StrCat(app.get_footer(), app.get_footer().empty() ? "" : "\n\n",
                          "Each option is also read from the environment: --log-level from ",
                          VariableOf("log-level"), ", and so on; a comma separates several values."));
}

std::string Settings::VariableOf(const std::string& key) const {
  return absl::StrCat(program_.prefix, absl::AsciiStrToUpper(absl::StrReplaceAll(key, {{"-", "_"}})));
}

const CLI::Option* Settings::Find(const std::string& key) const {
  for (const CLI::Option* option : app_.get_options({})) {
    if (option->get_configurable() && KeyOf(*option) == key) return option;
  }
  return nullptr;
}

std::vector<std::string> Settings::Keys() const {
  std::vector<std::string> keys;
  for (const CLI::Option* option : app_.get_options({})) {
    if (option->get_configurable() && !KeyOf(*option).empty()) keys.push_back(KeyOf(*option));
  }
  return keys;
}

const char* Settings::Variable(const std::string& name) const {
  for (const char* const* variable = environment_; variable != nullptr && *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, name.c_str(), name.size()) == 0 && (*variable)[name.size()] == '=') {
      const char* value = *variable + name.size() + 1;
      return *value == '\0' ? nullptr : value;  // an empty variable counts as not set
    }
  }
  return nullptr;
}

void Settings::ReadEnvironment(Values& values) {
  for (const std::string& key : Keys()) {
    const CLI::Option* option = Find(key);
    // The second name is older, and shared by all programs.
    for (const std::string& name : {VariableOf(key), option->get_envname()}) {
      const char* value = name.empty() ? nullptr : Variable(name);
      if (value == nullptr) continue;
      std::vector<Value>& into = values[key];
      if (!TakesMany(*option)) {
        into.push_back({value, name});
      } else {
        for (const absl::string_view part : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
          into.push_back({std::string(absl::StripAsciiWhitespace(part)), name});
        }
      }
      break;
    }
  }
}

void Settings::WarnOfUnknownVariables() const {
  std::vector<std::string> known = {VariableOf(kConfig)};
  for (const std::string& key : Keys()) known.push_back(VariableOf(key));
  for (const char* const* variable = environment_; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string name(*variable, std::strcspn(*variable, "="));
    if (name.rfind(program_.prefix, 0) != 0 || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    std::fprintf(stderr, "%s: warning: %s matches no key and is ignored%s\n", program_.name.c_str(),
                 name.c_str(), DidYouMean(name, known).c_str());
  }
}

bool Settings::HoldsRules(const Values& values) const {
  bool holds = true;
  for (const Conflict& conflict : program_.rules()) {
    std::vector<std::string> places;
    for (const std::string& key : conflict.keys) {
      if (const auto configured = values.find(key); configured != values.end())
        places.push_back(configured->second[0].origin);
    }
    const bool error = conflict.weight == Conflict::Weight::kError;
    holds = holds && !error;
    std::fprintf(stderr, "%s: %s%s%s\n", program_.name.c_str(),
                 error ? "" : "warning: ", places.empty() ? "" : (absl::StrJoin(places, ", ") + ": ").c_str(),
                 conflict.text.c_str());
  }
  return holds;
}

void Settings::ReadFile(const std::string& path, Values& values) {
  const absl::StatusOr<std::string> text = ReadSettingsFile(path);
  if (!text.ok()) {
    errors_.emplace_back(text.status().message());
    return;
  }
  FileContent content = ParseSettings(*text, path);
  std::move(content.errors.begin(), content.errors.end(), std::back_inserter(errors_));
  Values of_file;
  for (const FileLine& line : content.lines) {
    const std::string origin = absl::StrCat(path, ":", line.number);
    const CLI::Option* option = Find(line.key);
    if (option == nullptr) {
      const std::string meant = DidYouMean(line.key, Keys());
      errors_.push_back(absl::StrCat(
          origin, ": unknown key ", line.key,
          meant.empty() ? absl::StrCat("; `", program_.name, " --example-config` lists all keys") : meant));
      continue;
    }
    std::vector<Value>& known = of_file[line.key];
    if (!known.empty() && !TakesMany(*option)) {
      errors_.push_back(absl::StrCat(origin, ": ", line.key, " is already set at ", known[0].origin,
                                     ": remove one of the two"));
      continue;
    }
    known.push_back({line.value, origin});
  }
  // merge() keeps the values of the environment.
  values.merge(of_file);
}

int Settings::Fail() const {
  for (const std::string& error : errors_)
    std::fprintf(stderr, "%s: %s\n", program_.name.c_str(), error.c_str());
  return kUsage;
}

std::optional<int> Settings::ParseWith(const std::vector<std::string>& flags, Values values) {
  for (;;) {
    std::vector<std::string> words;
    for (const auto& [key, list] : values) {
      for (const Value& value : list) words.push_back(absl::StrCat("--", key, "=", value.text));
    }
    words.insert(words.end(), flags.begin(), flags.end());
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
    try {
      app_.parse(words);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);
      const std::string what = error.what();
      // Error messages of CLI11 contain the name of the option.
      const auto wrong = std::find_if(values.begin(), values.end(), [&](const auto& entry) {
        const size_t at = what.find("--" + entry.first);
        return at != std::string::npos && what.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-",
                                                                 at) == at + 2 + entry.first.size();
      });
      if (wrong == values.end()) {
        const bool in_file = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && !file_.empty();
        errors_.push_back(in_file ? absl::StrCat(what, ": give the flag, or write it into ", file_) : what);
        return Fail();
      }
      errors_.push_back(absl::StrCat(wrong->second[0].origin, ": ", what));
      values.erase(wrong);
      continue;
    }
    return errors_.empty() ? std::nullopt : std::optional<int>(Fail());
  }
}

void Settings::Print(const Values& values) const {
  std::printf("# %s\n", program_.version.c_str());
  for (const std::string& key : Keys()) {
    const CLI::Option* option = Find(key);
    std::vector<Value> shown;
    if (const auto configured = values.find(key); configured != values.end()) {
      shown = configured->second;
    } else if (option->count() > 0) {
      for (const std::string& text : option->results()) shown.push_back({text, "flag"});
    } else {
      const auto here = program_.defaults_here.find(key);
      const std::string preset =
          here != program_.defaults_here.end() ? here->second : option->get_default_str();
      shown.push_back({preset.empty() ? "-" : preset, "default"});
    }
    for (const Value& value : shown)
      std::printf("%-18s %-40s %s\n", key.c_str(), value.text.c_str(), value.origin.c_str());
  }
}

std::optional<int> Settings::Parse(int argc, const char* const* argv) {
  const std::vector<std::string> flags(argv + 1, argv + std::max(argc, 1));
  const std::set<std::string> given = GivenFlags(flags);
  if (given.count("example-config") != 0) {
    std::fputs(ExampleFile(app_, program_).c_str(), stdout);
    return kDone;
  }
  if (given.count("man-page") != 0) {
    std::fputs(ServicePage(app_, program_).c_str(), stdout);
    return kDone;
  }
  // --help must work also with a broken file.
  Values values;
  if (given.count("help") == 0 && given.count("version") == 0) {
    WarnOfUnknownVariables();
    ReadEnvironment(values);
    std::string file = FlagValue(flags, kConfig);
    if (const char* named = Variable(VariableOf(kConfig)); file.empty() && named != nullptr) file = named;
    if (!file.empty()) ReadFile(file, values);
    file_ = file;
    for (const std::string& key : given) values.erase(key);
  }
  if (const std::optional<int> code = ParseWith(flags, values)) return code;
  const bool holds = HoldsRules(values);
  if (print_) Print(values);
  if (!holds) return kUsage;
  return print_ ? std::optional<int>(kDone) : std::nullopt;
}

}  // namespace lockstep::settings
