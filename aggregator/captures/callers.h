// Identifies callers and the jobs that they may see and capture.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_

#include <sys/types.h>

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/log/audit_log.h"
#include "base/mutex.h"
#include "base/rpc/connection_gate.h"
#include "base/rpc/munge.h"
#include "base/rpc/token.h"

namespace grpc {
class ServerContextBase;
}

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

// Thread-safe.
class Callers {
 public:
  // Without `credentials` only the token gives access. Without `credentials` and token, every
  // caller may use all jobs; the socket must then be in a folder that only one user can enter. `peers`
  // outlives this.
  Callers(rpc::Token token, std::shared_ptr<const rpc::CallerCredentials> credentials, rpc::Peers& peers)
      : token_(std::move(token)), credentials_(std::move(credentials)), peers_(peers) {}

  // Identifies the caller, and then trusts their connection. It returns kUnauthenticated with the missing
  // credential. It returns kResourceExhausted if the caller's source has too many checks of credentials in
  // progress, or if the caller has too many connections.
  absl::StatusOr<Caller> Of(const grpc::ServerContextBase& context);

 private:
  // A check of a credential is a process. A stranger can make a server begin as many as these.
  static constexpr size_t kMostChecks = 32;
  static constexpr size_t kMostChecksOfOneSource = 4;

  absl::StatusOr<Caller> Identify(const grpc::ServerContextBase& context);
  absl::StatusOr<uid_t> CheckCredential(const std::string& source, const std::string& credential);

  const rpc::Token token_;
  const std::shared_ptr<const rpc::CallerCredentials> credentials_;
  rpc::Peers& peers_;
  Mutex mutex_;
  std::multiset<std::string> checks_ ABSL_GUARDED_BY(mutex_);  // the sources of those that run
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_
