#include "cli/common/command.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/log/clean_text.h"

namespace lockstep::cli {

CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& about) {
  const size_t line = about.find('\n');
  CLI::App* sub = app.add_subcommand(name, about.substr(0, line));
  if (line != std::string::npos) sub->footer(about.substr(line));
  return sub;
}

std::string OneOf(const std::vector<std::string>& words) {
  return absl::StrCat("TEXT:{", absl::StrJoin(words, ","), "}");
}

std::string ListOf(const std::vector<std::string>& words) {
  return absl::StrCat(kListValue, ":{", absl::StrJoin(words, ","), "}");
}

void PrintMessage(const std::string& sentence) {
  std::fprintf(stderr, "lockstep: %s\n", CleanText(sentence).c_str());
}

ExitCode Fail(ExitCode code, const std::string& sentence) {
  PrintMessage(sentence);
  return code;
}

ExitCode Fail(const absl::Status& status) {
  const std::string text(status.message());
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kUnimplemented:
      return Fail(ExitCode::kUsage, text);
    case absl::StatusCode::kNotFound:
      return Fail(ExitCode::kNotFound, text);
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return Fail(ExitCode::kDenied, text);
    case absl::StatusCode::kDeadlineExceeded:
      return Fail(ExitCode::kTimedOut, text);
    default:
      return Fail(ExitCode::kFailed, text);
  }
}

}  // namespace lockstep::cli
