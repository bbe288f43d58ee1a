// Identifies users and the jobs that they may see and capture, and daemons and the node for which they speak.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
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

class Caller {
 public:
  // A caller with the token, or root.
  static Caller All() { return Caller(true, 0); }
  static Caller User(uid_t uid) { return Caller(uid == 0, uid); }
  bool may_use_all() const { return all_; }
  bool MayUse(uid_t owner) const { return all_ || owner == uid_; }
  uid_t uid() const { return uid_; }
  // The caller's name in the audit log.
  const AuditCaller& who() const { return who_; }
  Caller KnownAs(AuditCaller who) const {
    Caller same = *this;
    same.who_ = std::move(who);
    return same;
  }

 private:
  Caller(bool all, uid_t uid) : all_(all), uid_(uid) {}
  bool all_;
  uid_t uid_;
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
  // Identifies a daemon in the same way. kUnauthenticated, kPermissionDenied: the proof is another one's.
  absl::StatusOr<DaemonCaller> DaemonOf(const grpc::ServerContext& context);

 private:
  // A check of a credential is a process. A stranger can make a server begin as many as these.
  static constexpr size_t kMostChecks = 32;
  static constexpr size_t kMostChecksOfOneSource = 4;

  absl::StatusOr<Caller> Identify(const grpc::ServerContext& context);
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
