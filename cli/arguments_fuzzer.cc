// Parses any words as the arguments of `lockstep`, one word a line. Nothing is run. Wrong words must give
// exit code 2, and only accepted ones an action.
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/fuzz_input_fixture.h"
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
  if (code != 0 && code != static_cast<int>(ExitCode::kUsage)) std::abort();
  return 0;
}
