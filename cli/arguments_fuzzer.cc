// Parses any words as the arguments of `lockstep`, one word a line. Nothing is run. Wrong words must give
// exit code 2, and only accepted ones an action.
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/fuzz_input_fixture.h"
#include "base/settings/duration.h"
#include "cli/commands/trigger_flags.h"
#include "cli/common/choose_span.h"
#include "cli/common/export_formats.h"
#include "cli/common/values.h"

namespace {

using namespace lockstep;

void ParseValues(const std::string& word) {
  cli::ParseRanks(word).status().IgnoreError();
  cli::ParseActivities(word).status().IgnoreError();
  cli::ParseStartAt(word, JobTime(1'700'000'000'000'000'000)).status().IgnoreError();
  cli::ParseSpan(word).status().IgnoreError();
  cli::ParseFormats(word).status().IgnoreError();
  for (const auto& rules :
       {settings::kSettingDuration, settings::kFlagDuration, settings::kSimulationDuration}) {
    const auto duration = settings::ParseDuration(word, rules);
    if (duration.ok() && cli::FormatDuration(*duration).empty()) std::abort();
  }
  cli::WindowFlags flags;
  flags.start_on_step = word;
  flags.steps = "2";
  cli::ParseTrigger(flags).status().IgnoreError();
  flags.steps = word;
  flags.start_on_step = "5";
  cli::ParseTrigger(flags).status().IgnoreError();
  flags = {};
  flags.start_on_range = word;
  const auto trigger = cli::ParseTrigger(flags);
  if (trigger.ok() && trigger->has_value()) cli::BeginWords(**trigger);
}

}  // namespace
#include "cli/arguments.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::cli;
  const std::string text(lockstep::FuzzInput(data, size).Rest());
  std::vector<std::string> words;
  // An argument has no byte 0.
  for (const absl::string_view line : absl::StrSplit(text, '\n'))
    words.emplace_back(line.substr(0, line.find('\0')));
  // Made once, because that takes a hundred times as long as to parse.
  static Chosen chosen;
  static CLI::App& app = []() -> CLI::App& {
    static CLI::App made("About.", "lockstep");
    made.require_subcommand(1);
    AddCommands(made, chosen);
    return made;
  }();
  chosen = Chosen();
  const int code = ParseArguments(app, words, chosen);
  for (const std::string& word : words) ParseValues(word);
  if (code != 0 && code != static_cast<int>(ExitCode::kUsage)) std::abort();
  return 0;
}
