#include "aggregator/captures/callers.h"

#include <grpcpp/server_context.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/rpc/job_token.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {

AuditCaller CallerAt(const grpc::ServerContextBase& context) {
  AuditCaller who;
  who.peer = rpc::PeerText(context.peer());
  return who;
}

bool Caller::Covers(const OwnedJob& job) const { return !job_ || (*job_ == job.name && uid_ == job.owner); }

bool Caller::MaySee(const OwnedJob& job) const {
  if (!Covers(job)) return false;
  return rights_.see_all || rights_.capture_all || uid_ == job.owner;
}

bool Caller::MayCapture(const OwnedJob& job) const {
  if (!Covers(job)) return false;
  return rights_.capture_all || (rights_.capture_own && uid_ == job.owner);
}

absl::Status Caller::Denied(const std::string& what, const OwnedJob& job, const char* action) const {
  if (job_) {
    return absl::PermissionDeniedError(
        Covers(job) ? absl::StrCat(what, ": your token does not let you ", action, " it")
                    : absl::StrCat("your token is for job ", *job_, ", to which ", what, " does not belong"));
  }
  if (uid_ == job.owner) {
    return absl::PermissionDeniedError(absl::StrCat(what, " is yours, and you may see it, but not ", action,
                                                    " it: the aggregator's --operators do not include you"));
  }
  return absl::PermissionDeniedError(absl::StrCat(
      what, " is user ", job.owner, "'s, and you are user ", *uid_,
      ": only its user, admins, root and holders of the aggregator's token can ", action, " it"));
}

absl::Status Caller::CheckSee(const std::string& what, const OwnedJob& job) const {
  return MaySee(job) ? absl::OkStatus() : Denied(what, job, "read");
}

absl::Status Caller::CheckCapture(const std::string& what, const OwnedJob& job) const {
  return MayCapture(job) ? absl::OkStatus() : Denied(what, job, "capture");
}

absl::StatusOr<Caller> Callers::Of(const grpc::ServerContext& context) {
  absl::StatusOr<Caller> caller = Identify(context);
  if (!caller.ok()) {
    peers_.NoteRefused(context.peer());
    return caller;
  }
  LOCKSTEP_RETURN_IF_ERROR(
      peers_.Trust(context.peer(), caller->may_use_all() ? std::nullopt : caller->uid()));
  return caller;
}

absl::StatusOr<DaemonCaller> Callers::DaemonOf(const grpc::ServerContext& context) {
  absl::StatusOr<DaemonCaller> daemon = IdentifyDaemon(context);
  if (!daemon.ok()) {
    peers_.NoteRefused(context.peer());
    return daemon;
  }
  LOCKSTEP_RETURN_IF_ERROR(peers_.Trust(context.peer(), std::nullopt));
  return daemon;
}

bool Callers::IsOwn(const grpc::ServerContext& context) const {
  return proofs_.token.empty() && absl::StartsWith(context.peer(), "unix:");
}

absl::StatusOr<std::optional<tls::Identity>> Callers::HolderOf(const grpc::ServerContext& context) const {
  if (proofs_.security == nullptr) return std::nullopt;
  return proofs_.security->CheckClient(context);
}

std::string Callers::Wanted(const char* credential) const {
  std::vector<std::string> ways;
  if (proofs_.security != nullptr && proofs_.security->kind() == rpc::Security::Kind::kCertificates)
    ways.push_back(absl::StrCat("a ", credential, "'s certificate in --tls-dir"));
  if (!proofs_.token.empty()) ways.emplace_back("--token-file (or LOCKSTEP_TOKEN_FILE)");
  if (proofs_.credentials != nullptr && std::string_view(credential) == "user")
    ways.emplace_back("a machine of the cluster on which munged runs");
  return absl::StrCat("the call proves no ", credential, ": this aggregator needs ",
                      absl::StrJoin(ways, ", or "));
}

absl::StatusOr<Caller> Callers::OfToken(std::string_view token, AuditCaller who) const {
  if (!rpc::IsJobToken(token)) {
    LOCKSTEP_RETURN_IF_ERROR(proofs_.token.CheckText(token));
    who.by = "token";
    return Caller::All().KnownAs(std::move(who));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(rpc::JobClaims claims,
                            rpc::CheckJobToken(proofs_.token.text(), token, proofs_.clock->Realtime()));
  who.by = "job_token";
  who.job = claims.job;
  const Rights rights = {.capture_own = claims.role == rpc::JobClaims::Role::kOperator};
  return Caller::OfJob({std::move(claims.job), claims.owner}, rights).KnownAs(std::move(who));
}

absl::StatusOr<Caller> Callers::OfHolder(const tls::Identity& holder, AuditCaller who) const {
  const std::optional<uid_t> uid = proofs_.users->UserOf(holder.name);
  if (!uid) {
    return absl::PermissionDeniedError(absl::StrCat("the certificate is of user ", holder.name,
                                                    ", whom the aggregator's system does not know"));
  }
  who.by = "certificate";
  who.uid = *uid;
  return Caller::User(*uid, proofs_.roles->Of(*uid)).KnownAs(std::move(who));
}

absl::StatusOr<Caller> Callers::OfHttp(const HttpProofs& proofs, const std::string& peer) const {
  AuditCaller who;
  who.peer = peer;
  if (!proofs.token.empty() && !proofs_.token.empty()) return OfToken(proofs.token, std::move(who));
  if (!proofs.certificate.empty() && proofs_.security != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const tls::Identity holder,
                              proofs_.security->CheckCertificate(proofs.certificate));
    if (holder.holder == tls::Holder::kUser) return OfHolder(holder, std::move(who));
  }
  return absl::UnauthenticatedError("the request proves no user: it needs a token or a user's certificate");
}

absl::StatusOr<Caller> Callers::Identify(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  AuditCaller who = CallerAt(context);
  if (const auto token = metadata.find(rpc::kTokenMetadata);
      token != metadata.end() && !proofs_.token.empty())
    return OfToken({token->second.data(), token->second.size()}, std::move(who));
  if (const auto credential = metadata.find(rpc::kMungeMetadata);
      credential != metadata.end() && proofs_.credentials != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const uid_t uid, CheckCredential(peers_.SourceOf(context.peer()),
                                         std::string(credential->second.data(), credential->second.size())));
    who.by = "munge";
    who.uid = uid;
    return Caller::User(uid, proofs_.roles->Of(uid)).KnownAs(std::move(who));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<tls::Identity> holder, HolderOf(context));
  if (holder && holder->holder == tls::Holder::kUser) return OfHolder(*holder, std::move(who));
  if (IsOwn(context)) {
    who.by = "folder";
    who.uid = ::geteuid();
    return Caller::All().KnownAs(std::move(who));
  }
  if (holder) {
    return absl::PermissionDeniedError(absl::StrCat("the certificate is of ", tls::TextOf(*holder),
                                                    ", which may not make this call; ", Wanted("user")));
  }
  return absl::UnauthenticatedError(Wanted("user"));
}

absl::StatusOr<DaemonCaller> Callers::IdentifyDaemon(const grpc::ServerContext& context) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<tls::Identity> holder, HolderOf(context));
  // A certificate binds its holder even if a token comes with it.
  if (holder && holder->holder == tls::Holder::kNode) return DaemonCaller{holder->name};
  if (!proofs_.token.empty() && context.client_metadata().count(rpc::kTokenMetadata) != 0) {
    LOCKSTEP_RETURN_IF_ERROR(proofs_.token.Check(context));
    return DaemonCaller{};
  }
  if (IsOwn(context)) return DaemonCaller{};
  if (holder) {
    return absl::PermissionDeniedError(absl::StrCat("the certificate is of ", tls::TextOf(*holder),
                                                    ", which has no daemon; ", Wanted("node")));
  }
  return absl::UnauthenticatedError(Wanted("node"));
}

absl::StatusOr<uid_t> Callers::CheckCredential(const std::string& source, const std::string& credential) {
  {
    MutexLock lock(&mutex_);
    if (checks_.size() >= kMostChecks || checks_.count(source) >= kMostChecksOfOneSource)
      return absl::ResourceExhaustedError(
          "the aggregator is checking too many MUNGE credentials at once: try again in a second");
    checks_.insert(source);
  }
  absl::StatusOr<uid_t> user = proofs_.credentials->Read(credential);
  MutexLock lock(&mutex_);
  checks_.erase(checks_.find(source));
  return user;
}

}  // namespace lockstep::aggregator
