#include "base/rpc/token.h"

#include <fcntl.h>
#include <grpcpp/server_context.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/rpc/status_macros.h"

namespace lockstep::rpc {
namespace {

constexpr size_t kShortestToken = 16;
constexpr size_t kLongestToken = 256;
constexpr size_t kRandomBytes = 32;

absl::Status Failed(const std::string& path, const char* what, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("token file ", path, ": cannot ", what, " it"));
}

absl::Status CheckFile(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode))
    return absl::PermissionDeniedError(
        absl::StrCat("token file ", path, " is not a regular file: name another"));
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat("token file ", path, " belongs to user ", info.st_uid,
                                                    ": it must belong to you or root"));
  }
  // A file of root may be readable for a group, because only root decides who is in the group. In this way a
  // Kubernetes secret reaches a program that does not run as root.
  const mode_t others = info.st_uid == 0 && geteuid() != 0 ? 037 : 077;
  if ((info.st_mode & others) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("token file ", path, " is readable by others: chmod 600 ", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Token> Token::FromText(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (text.size() < kShortestToken || text.size() > kLongestToken || !printable) {
    return absl::InvalidArgumentError(absl::StrCat("a token must have ", kShortestToken, " to ",
                                                   kLongestToken, " printable characters without spaces"));
  }
  return Token(std::string(text));
}

absl::StatusOr<Token> Token::Random() {
  char bytes[kRandomBytes];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) {
    return absl::ErrnoToStatus(errno, "cannot read random bytes from the kernel");
  }
  return Token(absl::BytesToHexString(absl::string_view(bytes, sizeof(bytes))));
}

absl::StatusOr<Token> Token::Load(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok()) return Failed(path, "open", errno);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return Failed(path, "examine", errno);
  LOCKSTEP_RETURN_IF_ERROR(CheckFile(path, info));
  char buffer[kLongestToken + 3];
  const ssize_t n = read(fd.get(), buffer, sizeof(buffer));
  if (n < 0) return Failed(path, "read", errno);
  auto token = FromText(std::string_view(buffer, static_cast<size_t>(n)));
  if (!token.ok())
    return absl::InvalidArgumentError(absl::StrCat("token file ", path, ": ", token.status().message()));
  return token;
}

absl::StatusOr<Token> Token::LoadOrCreate(const std::string& path) {
  auto loaded = Load(path);
  if (loaded.ok() || !absl::IsNotFound(loaded.status())) return loaded;

  // The token is written to a temporary file and then linked. The file is therefore complete when its name
  // appears, and one of several concurrent makers wins.
  LOCKSTEP_ASSIGN_OR_RETURN(const Token token, Random());
  const std::string beside = absl::StrCat(path, ".", getpid(), ".new");
  Fd fd(open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.ok()) return Failed(beside, "create", errno);
  const std::string line = token.text() + "\n";
  int error = 0;
  if (write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    error = errno != 0 ? errno : EIO;
  if (error == 0 && link(beside.c_str(), path.c_str()) != 0 && errno != EEXIST) error = errno;
  unlink(beside.c_str());
  if (error != 0) return Failed(path, "write", error);
  return Load(path);
}

bool Token::Matches(std::string_view other) const {
  // The loop reads every character of `other`, and the length decides only at the end, so the time reveals
  // nothing.
  unsigned difference = text_.size() == other.size() ? 0 : 1;
  for (size_t i = 0; i < other.size(); ++i) {
    const char mine = text_.empty() ? '\0' : text_[i % text_.size()];
    difference |= static_cast<unsigned char>(mine ^ other[i]);
  }
  return difference == 0 && !text_.empty();
}

absl::Status Token::Check(const grpc::ServerContextBase& context) const {
  if (empty()) return absl::OkStatus();
  const auto& metadata = context.client_metadata();
  const auto [begin, end] = metadata.equal_range(kTokenMetadata);
  if (begin == end) {
    return absl::UnauthenticatedError(
        "this port needs a token: give --token-file, or set LOCKSTEP_TOKEN_FILE");
  }
  for (auto it = begin; it != end; ++it) {
    if (Matches({it->second.data(), it->second.size()})) return absl::OkStatus();
  }
  return absl::UnauthenticatedError("wrong token: use the token file with which the aggregator was started");
}

}  // namespace lockstep::rpc
