// Identifies users and the jobs that they may see and capture, and daemons and the node for which they speak.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/access/roles.h"
#include "base/clock.h"
#include "base/log/audit_log.h"
#include "base/mutex.h"
#include "base/rpc/connection_gate.h"
#include "base/rpc/munge.h"
#include "base/rpc/security.h"
#include "base/rpc/token.h"

namespace grpc {
class ServerContext;
class ServerContextBase;
}  // namespace grpc

namespace lockstep::aggregator {

// A job of one user.
struct OwnedJob {
  std::string name;
  uid_t owner = 0;
};

// An identified caller and their rights. Immutable, apart from KnownAs.
class Caller {
 public:
  // A caller with the aggregator's token, or root.
  static Caller All() { return Caller(std::nullopt, std::nullopt, Rights::All()); }
  static Caller User(uid_t uid, const Rights& rights) { return Caller(uid, std::nullopt, rights); }
  // A caller with a token for one job, whose holder acts for the job's owner, in that job only.
  static Caller OfJob(const OwnedJob& job, const Rights& rights) {
    return Caller(job.owner, job.name, rights);
  }

  // Returns whether the caller may see and capture every job.
  bool may_use_all() const { return !job_ && rights_.capture_all; }
  // The user whose limits count for the calls. Not empty unless may_use_all().
  const std::optional<uid_t>& uid() const { return uid_; }
  // Returns whether the caller may see every job: metrics have all of them.
  bool may_see_all() const { return !job_ && (rights_.see_all || rights_.capture_all); }
  bool MaySee(const OwnedJob& job) const;
  bool MayCapture(const OwnedJob& job) const;
  // These return kPermissionDenied with the reason. `what` is the object: "job train", "capture 2026…".
  absl::Status CheckSee(const std::string& what, const OwnedJob& job) const;
  absl::Status CheckCapture(const std::string& what, const OwnedJob& job) const;

  // The caller's name in the audit log.
  const AuditCaller& who() const { return who_; }
  Caller KnownAs(AuditCaller who) const {
    Caller same = *this;
    same.who_ = std::move(who);
    return same;
  }

 private:
  Caller(std::optional<uid_t> uid, std::optional<std::string> job, const Rights& rights)
      : uid_(uid), job_(std::move(job)), rights_(rights) {}
  // Returns whether the caller's token, if it is for one job, is for this one.
  bool Covers(const OwnedJob& job) const;
  absl::Status Denied(const std::string& what, const OwnedJob& job, const char* action) const;

  std::optional<uid_t> uid_;
  std::optional<std::string> job_;  // the only job of a token
  Rights rights_;
  AuditCaller who_;
};

// Returns the address of a caller that is not identified.
AuditCaller CallerAt(const grpc::ServerContextBase& context);

// A daemon that has proved who it is.
struct DaemonCaller {
  // The node for which it speaks; nothing: any, because its proof is a token or a socket.
  std::optional<std::string> node;
};

// Proofs that a server accepts. All may be absent; then only a Unix socket gives access.
struct Proofs {
  // Gives access to all jobs and speaks for all nodes.
  rpc::Token token;
  // Identifies users by MUNGE; may be null.
  std::shared_ptr<const rpc::CallerCredentials> credentials;
  // Identifies users and nodes by their certificates; may be null.
  std::shared_ptr<const rpc::Security> security;
  // Rights of users. Not null.
  std::shared_ptr<const Roles> roles;
  // Finds the users of certificates. Not null with `security`.
  std::shared_ptr<const UserDirectory> users;
  // Tells whether a token for one job has expired. Not null.
  std::shared_ptr<const Clock> clock;
};

// The proofs in one HTTP request; empty: none.
struct HttpProofs {
  std::string token;
  std::string certificate;  // chain in PEM form, of which the client has the key
};

// Thread-safe.
class Callers {
 public:
  // A Unix socket without a token must be in a folder that only one user can enter, because its callers may
  // use all jobs. `peers` outlives this.
  Callers(Proofs proofs, rpc::Peers& peers) : proofs_(std::move(proofs)), peers_(peers) {}

  // Identifies the caller, and then trusts their connection. It returns kUnauthenticated with the missing
  // proof. It returns kResourceExhausted if the caller's source has too many checks of credentials in
  // progress, or if the caller has too many connections.
  absl::StatusOr<Caller> Of(const grpc::ServerContext& context);
  // Identifies the caller of an HTTP request from `peer`. Errors as above.
  absl::StatusOr<Caller> OfHttp(const HttpProofs& proofs, const std::string& peer) const;
  // Identifies a daemon in the same way. kUnauthenticated, kPermissionDenied: the proof is another one's.
  absl::StatusOr<DaemonCaller> DaemonOf(const grpc::ServerContext& context);

 private:
  // A check of a credential is a process. A stranger can make a server begin as many as these.
  static constexpr size_t kMostChecks = 32;
  static constexpr size_t kMostChecksOfOneSource = 4;

  absl::StatusOr<Caller> Identify(const grpc::ServerContext& context);
  // `who` has the caller's peer.
  absl::StatusOr<Caller> OfToken(std::string_view token, AuditCaller who) const;
  absl::StatusOr<Caller> OfHolder(const tls::Identity& holder, AuditCaller who) const;
  absl::StatusOr<DaemonCaller> IdentifyDaemon(const grpc::ServerContext& context) const;
  absl::StatusOr<std::optional<tls::Identity>> HolderOf(const grpc::ServerContext& context) const;
  // Returns whether the call came over a socket in a folder that only this user can enter.
  bool IsOwn(const grpc::ServerContext& context) const;
  // Lists the proofs that a caller can have.
  std::string Wanted(const char* credential) const;
  absl::StatusOr<uid_t> CheckCredential(const std::string& source, const std::string& credential);

  const Proofs proofs_;
  rpc::Peers& peers_;
  Mutex mutex_;
  std::multiset<std::string> checks_ ABSL_GUARDED_BY(mutex_);  // the sources of those that run
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_
