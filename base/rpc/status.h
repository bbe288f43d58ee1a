// Converts absl::Status to grpc::Status and back, with the same code and text.
#ifndef LOCKSTEP_BASE_RPC_STATUS_H_
#define LOCKSTEP_BASE_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace lockstep::rpc {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_STATUS_H_
