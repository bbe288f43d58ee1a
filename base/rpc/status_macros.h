// Macros that return early on a failed absl::Status or absl::StatusOr.
#ifndef LOCKSTEP_BASE_RPC_STATUS_MACROS_H_
#define LOCKSTEP_BASE_RPC_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define LOCKSTEP_RETURN_IF_ERROR(expression)             \
  do {                                                   \
    ::absl::Status lockstep_status_ = (expression);      \
    if (!lockstep_status_.ok()) return lockstep_status_; \
  } while (false)

#define LOCKSTEP_STATUS_JOIN_INNER(a, b) a##b
#define LOCKSTEP_STATUS_JOIN(a, b) LOCKSTEP_STATUS_JOIN_INNER(a, b)

// Usage: LOCKSTEP_ASSIGN_OR_RETURN(auto x, MakeX());
#define LOCKSTEP_ASSIGN_OR_RETURN(lhs, expression) \
  LOCKSTEP_ASSIGN_OR_RETURN_INNER(LOCKSTEP_STATUS_JOIN(lockstep_statusor_, __LINE__), lhs, expression)

#define LOCKSTEP_ASSIGN_OR_RETURN_INNER(statusor, lhs, expression) \
  auto statusor = (expression);                                    \
  if (!statusor.ok()) return statusor.status();                    \
  lhs = *std::move(statusor)

#endif  // LOCKSTEP_BASE_RPC_STATUS_MACROS_H_
