#include "cli/common/output_name.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/files/own_folder.h"

namespace lockstep::cli {

std::string AsFileName(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  // Prevents ".." and hidden files.
  if (!out.empty() && out[0] == '.') out[0] = '_';
  return out.empty() ? "unnamed" : out;
}

absl::StatusOr<std::string> ExpandOutputName(const std::string& pattern, const OutputTokens& tokens) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      out += pattern[i];
      continue;
    }
    const char token = i + 1 < pattern.size() ? pattern[++i] : '\0';
    switch (token) {
      case '%':
        out += '%';
        break;
      case 'h':
        out += AsFileName(tokens.host);
        break;
      case 'p':
        out += AsFileName(tokens.pid);
        break;
      case 'r':
        out += AsFileName(tokens.ranks);
        break;
      case 'j':
        out += AsFileName(tokens.job);
        break;
      case 'q': {
        const size_t end = pattern.find('}', i);
        if (i + 1 >= pattern.size() || pattern[i + 1] != '{' || end == std::string::npos) {
          return absl::InvalidArgumentError(
              absl::StrCat("-o ", pattern, ": %q needs a variable in braces, as in %q{USER}"));
        }
        const std::string name = pattern.substr(i + 2, end - i - 2);
        const char* value = tokens.environment(name.c_str());
        if (value == nullptr)
          return absl::InvalidArgumentError(
              absl::StrCat("-o ", pattern, ": the variable ", name, " is not set"));
        out += AsFileName(value);
        i = end;
        break;
      }
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("-o ", pattern, ": unknown token %", std::string(token != '\0', token),
                         "; the tokens are %h (host), %p (pid), %r (ranks), %j (job), %q{ENV} and %%"));
    }
  }
  return out;
}

std::string DefaultOutputName(const std::string& job, std::time_t now) {
  std::tm local = {};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d-%H%M%S", &local);
  return absl::StrCat("./lockstep-", AsFileName(job), "-", text);
}

absl::Status CheckOutput(const std::string& folder, Overwrite overwrite) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (!fs::exists(status)) return absl::OkStatus();
  const bool replaceable = IsOwnFolder(folder, OwnFolder::kCapture) ||
                           (fs::is_directory(status) && fs::is_empty(folder, error) && !error);
  if (!replaceable) {
    return absl::AlreadyExistsError(
        absl::StrCat(folder, " already exists and is not a capture of Lockstep: choose another -o"));
  }
  if (overwrite == Overwrite::kForce) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(folder, " already exists: choose another -o, or replace it with --force"));
}

}  // namespace lockstep::cli
