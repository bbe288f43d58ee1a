#include "cli/common/choose_span.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::cli {

using formats::SpanChoice;

void AddSpanFlag(CLI::App& app, std::string& text, const std::string& name) {
  app.add_option(
         name, text,
         "If ranks have several traces each: the recording to read, N in order of time, or last; default: "
         "the last that all ranks have")
      ->type_name("N|last");
}

absl::StatusOr<SpanChoice> ParseSpan(const std::string& text) {
  if (text.empty()) return SpanChoice{};
  if (text == "last") return SpanChoice{SpanChoice::Kind::kLast, 0};
  SpanChoice choice{SpanChoice::Kind::kNumber, 0};
  if (absl::SimpleAtoi(text, &choice.number)) return choice;
  return absl::InvalidArgumentError(
      absl::StrCat("--span ", text, " is not a span; give its number, as in --span 2, or last"));
}

}  // namespace lockstep::cli
