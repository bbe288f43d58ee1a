#include "aggregator/captures/callers.h"

#include <grpcpp/server_context.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {

AuditCaller CallerAt(const grpc::ServerContextBase& context) {
  AuditCaller who;
  // `peer` is for example "ipv4:10.0.0.7:41234", "ipv6:%5B::1%5D:41234" or "unix:".
  const std::string peer = context.peer();
  if (absl::StartsWith(peer, "ipv"))
    who.peer = absl::StrReplaceAll(peer.substr(peer.find(':') + 1), {{"%5B", "["}, {"%5D", "]"}});
  return who;
}

absl::StatusOr<Caller> Callers::Of(const grpc::ServerContextBase& context) const {
  const auto& metadata = context.client_metadata();
  const auto credential = metadata.find(rpc::kMungeMetadata);
  const bool by_token = metadata.find(rpc::kTokenMetadata) != metadata.end();
  if (credentials_ == nullptr || by_token) {
    LOCKSTEP_RETURN_IF_ERROR(token_.Check(context));
    AuditCaller who = CallerAt(context);
    who.by = token_.empty() ? "folder" : "token";
    // Only this user can enter the socket's folder.
    if (token_.empty()) who.uid = ::geteuid();
    return Caller::All().KnownAs(std::move(who));
  }
  if (credential == metadata.end()) {
    return absl::UnauthenticatedError(
        "this aggregator identifies its callers by MUNGE, and the call had no credential: call it from a "
        "machine of the cluster on which munged runs, or give --token-file");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const uid_t uid, credentials_->Read(std::string(credential->second.data(), credential->second.size())));
  AuditCaller who = CallerAt(context);
  who.by = "munge";
  who.uid = uid;
  return Caller::User(uid).KnownAs(std::move(who));
}

}  // namespace lockstep::aggregator
