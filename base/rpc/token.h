// The secret for an aggregator's TCP port. It is in a file that only its owner can read, and every call sends
// it as metadata "lockstep-token".
#ifndef LOCKSTEP_BASE_RPC_TOKEN_H_
#define LOCKSTEP_BASE_RPC_TOKEN_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace grpc {
class ServerContextBase;
}

namespace lockstep::rpc {

inline constexpr char kTokenMetadata[] = "lockstep-token";

// Immutable, so any thread may use it. It is never logged or printed.
class Token {
 public:
  // Without a token, calls send none and Check accepts every call. Use it only for Unix sockets in folders of
  // one user.
  Token() = default;

  // kInvalidArgument: the text is not a token (under 16 or over 256 characters, or not all printable ASCII).
  static absl::StatusOr<Token> FromText(std::string_view text);
  // Loads the aggregator's token. The file must be regular, owned by this user or root, and closed to group
  // and others. If this user is not root, a file of root may be readable for its group. kPermissionDenied
  // states the problem and the remedy.
  static absl::StatusOr<Token> Load(const std::string& path);
  // As Load, for a file that is open for reading. `path` is for messages.
  static absl::StatusOr<Token> LoadOpen(const Fd& fd, const std::string& path);
  // Also loads a token for one job (job_token.h), for a program that only makes calls.
  static absl::StatusOr<Token> LoadForCalls(const std::string& path);
  // Creates the file (mode 0600, 256 random bits) if there is none. Concurrent processes all get the same
  // token.
  static absl::StatusOr<Token> LoadOrCreate(const std::string& path);
  // Returns a new token that is in no file.
  static absl::StatusOr<Token> Random();

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  // Returns what a call sends, which is not all of a token for one job.
  std::string_view sent() const;
  // Takes the same time for every `other`.
  bool Matches(std::string_view other) const;
  // Returns kUnauthenticated, with the remedy, unless `other` matches.
  absl::Status CheckText(std::string_view other) const;
  // Returns kUnauthenticated unless the call carries this token.
  absl::Status Check(const grpc::ServerContextBase& context) const;

 private:
  explicit Token(std::string text) : text_(std::move(text)) {}
  // Reads the text of a file. `path` is for messages.
  static absl::StatusOr<Token> OfFile(std::string_view text, const std::string& path);
  static absl::StatusOr<Token> NotOfOneJob(Token token, const std::string& path);
  std::string text_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_TOKEN_H_
