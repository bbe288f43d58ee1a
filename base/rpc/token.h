// The secret that opens an aggregator's TCP port: a file only its owner can read, sent with every call as
// metadata "lockstep-token".
#ifndef LOCKSTEP_COMMON_RPC_TOKEN_H_
#define LOCKSTEP_COMMON_RPC_TOKEN_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace grpc {
class ServerContextBase;
}

namespace lockstep::rpc {

inline constexpr char kTokenMetadata[] = "lockstep-token";

// Immutable; any thread. Never logged or printed.
class Token {
 public:
  // No token: nothing is sent, and Check accepts every call. Only for Unix sockets in folders of one user.
  Token() = default;

  // kInvalidArgument for texts that are no token (under 16 or over 256 characters, not all printable ASCII).
  static absl::StatusOr<Token> FromText(std::string_view text);
  // The file must be a regular one, owned by this user or root, and closed to group and others; root's may be
  // readable for a group where this user is not root. kPermissionDenied says what is wrong with it and how to
  // repair it.
  static absl::StatusOr<Token> Load(const std::string& path);
  // Makes the file (mode 0600, 256 random bits) where there is none. Of several processes doing so at once,
  // all get the same token.
  static absl::StatusOr<Token> LoadOrCreate(const std::string& path);
  // A fresh one that is in no file.
  static absl::StatusOr<Token> Random();

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  // Takes the same time whatever `other` holds.
  bool Matches(std::string_view other) const;
  // kUnauthenticated unless the call carries this token.
  absl::Status Check(const grpc::ServerContextBase& context) const;

 private:
  explicit Token(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_COMMON_RPC_TOKEN_H_
