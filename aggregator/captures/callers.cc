#include "aggregator/captures/callers.h"

#include <grpcpp/server_context.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {

AuditCaller CallerAt(const grpc::ServerContextBase& context) {
  AuditCaller who;
  who.peer = rpc::PeerText(context.peer());
  return who;
}

absl::StatusOr<Caller> Callers::Of(const grpc::ServerContextBase& context) {
  absl::StatusOr<Caller> caller = Identify(context);
  if (!caller.ok()) {
    peers_.NoteRefused(context.peer());
    return caller;
  }
  LOCKSTEP_RETURN_IF_ERROR(peers_.Trust(
      context.peer(), caller->may_use_all() ? std::nullopt : std::optional<uid_t>(caller->uid())));
  return caller;
}

absl::StatusOr<Caller> Callers::Identify(const grpc::ServerContextBase& context) {
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
      const uid_t uid, CheckCredential(peers_.SourceOf(context.peer()),
                                       std::string(credential->second.data(), credential->second.size())));
  AuditCaller who = CallerAt(context);
  who.by = "munge";
  who.uid = uid;
  return Caller::User(uid).KnownAs(std::move(who));
}

absl::StatusOr<uid_t> Callers::CheckCredential(const std::string& source, const std::string& credential) {
  {
    MutexLock lock(&mutex_);
    if (checks_.size() >= kMostChecks || checks_.count(source) >= kMostChecksOfOneSource)
      return absl::ResourceExhaustedError(
          "the aggregator is checking too many MUNGE credentials at once: try again in a second");
    checks_.insert(source);
  }
  absl::StatusOr<uid_t> user = credentials_->Read(credential);
  MutexLock lock(&mutex_);
  checks_.erase(checks_.find(source));
  return user;
}

}  // namespace lockstep::aggregator
