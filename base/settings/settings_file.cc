#include "base/settings/settings_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/fd.h"

namespace lockstep::settings {
namespace {

constexpr off_t kMostBytes = 1 << 20;

bool IsKey(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
}

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return absl::ascii_iscntrl(c) && c != '\t'; });
}

}  // namespace

FileContent ParseSettings(std::string_view text, const std::string& name) {
  FileContent content;
  int number = 0;
  for (const absl::string_view whole : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(whole);
    if (line.empty() || line[0] == '#') continue;
    const std::string at = absl::StrCat(name, ":", number, ": ");
    const size_t equals = line.find('=');
    const absl::string_view key = absl::StripAsciiWhitespace(line.substr(0, equals));
    const absl::string_view value =
        equals == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(line.substr(equals + 1));
    if (HasControlCharacter({line.data(), line.size()})) {
      content.errors.push_back(at + "the line holds a control character: write plain text");
    } else if (equals == absl::string_view::npos || !IsKey({key.data(), key.size()})) {
      content.errors.push_back(at + "the line is not `key = value`; a comment begins with #");
    } else if (value.empty()) {
      content.errors.push_back(absl::StrCat(at, key, " has no value: remove the line to use the default"));
    } else {
      content.lines.push_back({number, std::string(key), std::string(value)});
    }
  }
  return content;
}

absl::StatusOr<std::string> ReadSettingsFile(const std::string& path) {
  // The open must not wait: the path could be a pipe.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read the configuration file ", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot examine ", path));
  if (!S_ISREG(info.st_mode))
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file: name a configuration file"));
  if (info.st_size > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", info.st_size, " bytes: a configuration file has at most ", kMostBytes));
  }
  std::string text(static_cast<size_t>(kMostBytes), '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t n = ::read(fd.get(), text.data() + length, text.size() - length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (n == 0) break;
    length += static_cast<size_t>(n);
  }
  text.resize(length);
  return text;
}

}  // namespace lockstep::settings
