#include "cli/candidates.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

using settings::CommandHelp;
using settings::OptionHelp;

// Joins "--option", "=" and "value", which are separate words in bash.
std::vector<std::string> JoinedAtEquals(const std::vector<std::string>& words) {
  std::vector<std::string> joined;
  bool open = false;  // the last word of `joined` ends with a separate "="
  for (const std::string& word : words) {
    if ((open || word == "=") && !joined.empty()) {
      joined.back() += word;
    } else {
      joined.push_back(word);
    }
    open = word == "=";
  }
  return joined;
}

std::vector<Candidate> Starting(std::string_view prefix, std::vector<Candidate> all) {
  std::erase_if(all, [&](const Candidate& c) { return !std::string_view(c.text).starts_with(prefix); });
  return all;
}

std::vector<Candidate> WithPrefix(std::string_view prefix, std::vector<Candidate> all) {
  for (Candidate& candidate : all) candidate.text.insert(0, prefix);
  return all;
}

std::vector<Candidate> Plain(const std::vector<std::string>& words) {
  std::vector<Candidate> all;
  for (const std::string& word : words) all.push_back({word, ""});
  return all;
}

// Completes the last item of a list with commas, from those that are not in the list yet.
std::vector<Candidate> NextItem(const std::string& typed, std::vector<Candidate> all) {
  const size_t comma = typed.rfind(',');
  if (comma == std::string::npos) return Starting(typed, std::move(all));
  const std::string before = typed.substr(0, comma + 1);
  std::erase_if(
      all, [&](const Candidate& c) { return ("," + before).find("," + c.text + ",") != std::string::npos; });
  return WithPrefix(before, Starting(std::string_view(typed).substr(comma + 1), std::move(all)));
}

// The command line without its last word.
class CommandLine {
 public:
  CommandLine(const std::vector<CommandHelp>& table, std::vector<std::string> words)
      : words_(std::move(words)) {
    const auto name =
        std::find_if(words_.begin(), words_.end(), [](const std::string& w) { return !w.starts_with("-"); });
    const std::string command = name == words_.end() ? "" : *name;
    for (const CommandHelp& known : table) {
      if (known.name == command) command_ = &known;
    }
  }

  // Null: the command is unknown. The program itself, without a command, has an empty name.
  const CommandHelp* command() const { return command_; }
  bool passes_on() const {  // the words belong to the user's command
    return command_ != nullptr && command_->name == "run" &&
           std::find(words_.begin(), words_.end(), "--") != words_.end();
  }
  bool ends_with(std::string_view word) const { return !words_.empty() && words_.back() == word; }

  const OptionHelp* OptionOf(std::string_view name) const {
    if (command_ == nullptr) return nullptr;
    for (const OptionHelp& option : command_->options) {
      if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return &option;
    }
    return nullptr;
  }
  // Returns the option that the last word opens, if it takes a value.
  const OptionHelp* OpenOption() const {
    const OptionHelp* option = words_.empty() ? nullptr : OptionOf(words_.back());
    return option == nullptr || option->value.empty() ? nullptr : option;
  }

  std::string ValueOf(std::string_view name) const {
    const OptionHelp* option = OptionOf(name);
    if (option == nullptr) return "";
    for (size_t i = 0; i < words_.size(); ++i) {
      for (const std::string& spelling : option->names) {
        if (words_[i] == spelling && i + 1 < words_.size()) return words_[i + 1];
        if (words_[i].starts_with(spelling + "=")) return words_[i].substr(spelling.size() + 1);
      }
    }
    return "";
  }

  // Returns the positional argument at the end of the line; null: all are given. The last one can repeat.
  const OptionHelp* Positional() const {
    std::vector<const OptionHelp*> positionals;
    for (const OptionHelp& option : command_->options) {
      if (option.names.empty()) positionals.push_back(&option);
    }
    if (positionals.empty()) return nullptr;
    size_t given = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      if (words_[i].starts_with("-")) {
        const OptionHelp* option = OptionOf(words_[i]);
        if (option != nullptr && !option->value.empty()) ++i;
        continue;
      }
      ++given;
    }
    given -= 1;  // the command itself
    return positionals[std::min(given, positionals.size() - 1)];
  }

 private:
  const std::vector<std::string> words_;
  const CommandHelp* command_ = nullptr;
};

class Completer {
 public:
  Completer(const std::vector<CommandHelp>& table, const CommandLine& line, const CandidateSources& sources)
      : table_(table), line_(line), sources_(sources) {}

  Candidates Of(const std::string& typed) const {
    using More = Candidates::More;
    if (line_.passes_on()) return {{}, line_.ends_with("--") ? More::kPrograms : More::kFiles};
    if (line_.command() == nullptr) return {};
    if (const OptionHelp* option = line_.OpenOption(); option != nullptr) return Value(*option, typed);
    if (const size_t equals = typed.find('='); typed.starts_with("--") && equals != std::string::npos) {
      const OptionHelp* option = line_.OptionOf(typed.substr(0, equals));
      if (option == nullptr || option->value.empty()) return {};
      Candidates value = Value(*option, typed.substr(equals + 1));
      value.found = WithPrefix(typed.substr(0, equals + 1), std::move(value.found));
      return value;
    }
    if (typed.starts_with("-")) return {Starting(typed, Options()), More::kNothing};
    if (line_.command()->name.empty()) return {Starting(typed, Commands()), More::kNothing};
    const OptionHelp* positional = line_.Positional();
    return positional == nullptr ? Candidates{} : Value(*positional, typed);
  }

 private:
  std::vector<Candidate> Commands() const {
    std::vector<Candidate> all;
    for (const CommandHelp& command : table_) {
      if (!command.name.empty()) all.push_back({command.name, command.about});
    }
    return all;
  }

  std::vector<Candidate> Options() const {
    std::vector<Candidate> all;
    for (const OptionHelp& option : line_.command()->options) {
      for (const std::string& name : option.names) all.push_back({name, option.about});
    }
    return all;
  }

  std::vector<Candidate> Columns() const {
    return sources_.columns(line_.command()->name,
                            [this](std::string_view name) { return line_.ValueOf(name); });
  }

  // Completes a value by its kind, which is its name in --help.
  Candidates Value(const OptionHelp& option, const std::string& typed) const {
    using More = Candidates::More;
    const std::string& kind = option.names.empty() ? option.positional : option.value;
    if (option.value == kListValue) return {NextItem(typed, Plain(option.choices)), More::kNothing};
    if (!option.choices.empty()) return {Starting(typed, Plain(option.choices)), More::kNothing};
    if (kind == kColumnValue) return {Starting(typed, Columns()), More::kNothing};
    if (kind == kColumnsValue) return {NextItem(typed, Columns()), More::kNothing};
    if (kind == kConditionValue) {
      std::vector<Candidate> columns = Columns();
      for (Candidate& column : columns) column.text += '=';
      return {Starting(typed, std::move(columns)), More::kNothing};
    }
    if (kind == kJobValue) {
      return {Starting(typed, sources_.jobs([this](std::string_view name) { return line_.ValueOf(name); })),
              More::kNothing};
    }
    if (kind == kCaptureValue || kind == "A" || kind == "B") {
      std::vector<Candidate> captures = Starting(typed, sources_.captures(typed));
      const More more = captures.empty() ? More::kFiles : More::kNothing;
      return {std::move(captures), more};
    }
    if (kind == "COMMAND") return {Starting(typed, Commands()), More::kNothing};
    const bool file =
        kind == kFileValue || kind == kFolderValue || kind == kPathValue || kind == kSocketValue;
    return {{}, file ? More::kFiles : More::kNothing};
  }

  const std::vector<CommandHelp>& table_;
  const CommandLine& line_;
  const CandidateSources& sources_;
};

}  // namespace

Candidates CandidatesFor(const std::vector<CommandHelp>& table, std::vector<std::string> words,
                         const CandidateSources& sources) {
  words = JoinedAtEquals(words);
  if (words.empty()) words.emplace_back();
  const std::string typed = words.back();
  words.pop_back();
  const CommandLine line(table, std::move(words));
  return Completer(table, line, sources).Of(typed);
}

std::string CandidateLines(const Candidates& candidates) {
  std::string lines;
  for (const Candidate& candidate : candidates.found) {
    absl::StrAppend(&lines, candidate.text);
    const std::string about = candidate.about.substr(0, candidate.about.find('\n'));
    if (!about.empty()) absl::StrAppend(&lines, "\t", absl::StrReplaceAll(about, {{"\t", " "}}));
    lines += '\n';
  }
  if (candidates.more == Candidates::More::kFiles) lines += ":files\n";
  if (candidates.more == Candidates::More::kPrograms) lines += ":programs\n";
  return lines;
}

}  // namespace lockstep::cli
