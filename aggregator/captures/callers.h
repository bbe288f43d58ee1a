// Who calls, and whose jobs they may see and capture.
#ifndef LOCKSTEP_AGGREGATOR_INGEST_CALLERS_H_
#define LOCKSTEP_AGGREGATOR_INGEST_CALLERS_H_

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

namespace lockstep::ingest {

class Caller {
 public:
  // Who holds the token, and root.
  static Caller All() { return Caller(true, 0); }
  static Caller User(uid_t uid) { return Caller(uid == 0, uid); }
  bool may_use_all() const { return all_; }
  bool MayUse(uid_t owner) const { return all_ || owner == uid_; }
  uid_t uid() const { return uid_; }
  // As the audit log names them.
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

// From where somebody calls of whom nothing more is known.
AuditCaller CallerAt(const grpc::ServerContextBase& context);

// Any thread.
class Callers {
 public:
  // Null `credentials`: only the token opens. With neither, everybody who can connect is let in for all: a
  // socket in a folder of one user.
  Callers(rpc::Token token, std::shared_ptr<const rpc::CallerCredentials> credentials)
      : token_(std::move(token)), credentials_(std::move(credentials)) {}

  // kUnauthenticated says what is missing.
  absl::StatusOr<Caller> Of(const grpc::ServerContextBase& context) const;

 private:
  const rpc::Token token_;
  const std::shared_ptr<const rpc::CallerCredentials> credentials_;
};

}  // namespace lockstep::ingest

#endif  // LOCKSTEP_AGGREGATOR_INGEST_CALLERS_H_
