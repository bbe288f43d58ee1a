#include "base/rpc/token.h"

#include <grpcpp/server_context.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/files/secret_file.h"
#include "base/rpc/job_token.h"
#include "base/rpc/status_macros.h"

namespace lockstep::rpc {
namespace {

constexpr size_t kShortestToken = 16;
constexpr size_t kLongestToken = 256;
constexpr size_t kRandomBytes = 32;
constexpr char kFile[] = "token file";
constexpr size_t kLongestFile = kLongestJobToken + 2;

std::string_view WithoutLineEnd(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.remove_suffix(1);
  return text;
}

}  // namespace

absl::StatusOr<Token> Token::FromText(std::string_view text) {
  text = WithoutLineEnd(text);
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
  LOCKSTEP_ASSIGN_OR_RETURN(Token token, LoadForCalls(path));
  return NotOfOneJob(std::move(token), path);
}

absl::StatusOr<Token> Token::LoadOpen(const Fd& fd, const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadOpenSecretFile(fd, path, kFile, kLongestFile));
  LOCKSTEP_ASSIGN_OR_RETURN(Token token, OfFile(text, path));
  return NotOfOneJob(std::move(token), path);
}

absl::StatusOr<Token> Token::LoadForCalls(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text,
                            ReadSecretFile(path, kFile, kLongestFile, Links::kRefused));
  return OfFile(text, path);
}

absl::StatusOr<Token> Token::OfFile(std::string_view text, const std::string& path) {
  const std::string_view line = WithoutLineEnd(text);
  auto token = FromText(line);
  if (IsJobToken(line)) {
    const absl::Status readable = ReadJobToken(line).status();
    token = readable.ok() ? absl::StatusOr<Token>(Token(std::string(line))) : readable;
  }
  if (!token.ok())
    return absl::InvalidArgumentError(absl::StrCat("token file ", path, ": ", token.status().message()));
  return token;
}

absl::StatusOr<Token> Token::NotOfOneJob(Token token, const std::string& path) {
  if (!IsJobToken(token.text())) return token;
  return absl::InvalidArgumentError(
      absl::StrCat("token file ", path, ": this token is for one job; here the aggregator's own is needed"));
}

std::string_view Token::sent() const { return IsJobToken(text_) ? SentPart(text_) : std::string_view(text_); }

absl::StatusOr<Token> Token::LoadOrCreate(const std::string& path) {
  auto loaded = Load(path);
  if (loaded.ok() || !absl::IsNotFound(loaded.status())) return loaded;
  LOCKSTEP_ASSIGN_OR_RETURN(const Token token, Random());
  const absl::Status created = CreateSecretFile(path, kFile, token.text() + "\n");
  if (!created.ok() && !absl::IsAlreadyExists(created)) return created;
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

absl::Status Token::CheckText(std::string_view other) const {
  if (Matches(other)) return absl::OkStatus();
  return absl::UnauthenticatedError("wrong token: use the token file with which the aggregator was started");
}

absl::Status Token::Check(const grpc::ServerContextBase& context) const {
  if (empty()) return absl::OkStatus();
  const auto& metadata = context.client_metadata();
  const auto [begin, end] = metadata.equal_range(kTokenMetadata);
  if (begin == end) {
    return absl::UnauthenticatedError(
        "this port needs a token: give --token-file, or set LOCKSTEP_TOKEN_FILE");
  }
  return CheckText({begin->second.data(), begin->second.size()});
}

}  // namespace lockstep::rpc
