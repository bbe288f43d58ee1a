// Identifies callers and the jobs that they may see and capture.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_

#include <sys/types.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/log/audit_log.h"
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
  // caller may use all jobs; the socket must then be in a folder that only one user can enter.
  Callers(rpc::Token token, std::shared_ptr<const rpc::CallerCredentials> credentials)
      : token_(std::move(token)), credentials_(std::move(credentials)) {}

  // kUnauthenticated: the error states the missing credential.
  absl::StatusOr<Caller> Of(const grpc::ServerContextBase& context) const;

 private:
  const rpc::Token token_;
  const std::shared_ptr<const rpc::CallerCredentials> credentials_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CALLERS_H_
