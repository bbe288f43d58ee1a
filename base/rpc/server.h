// Opens the gRPC servers of every Lockstep program.
#ifndef LOCKSTEP_BASE_RPC_SERVER_H_
#define LOCKSTEP_BASE_RPC_SERVER_H_

#include <grpcpp/server_builder.h>

#include <string>

#include "absl/status/status.h"
#include "base/rpc/address.h"
#include "base/rpc/token.h"

namespace lockstep::rpc {

// Sets message sizes and keepalive, and turns port sharing off. Call it before anything is added to
// `builder`.
void Configure(grpc::ServerBuilder& builder);

// Checks whether a server may listen at that address. Listen and the check of the settings apply the same
// rule. kFailedPrecondition has the remedy.
enum class HasToken { kNo, kYes };
absl::Status MayListen(const Address& address, HasToken token);

// Adds the port.
//
// A TCP port, also on loopback, is open to every user of the machine: without a token the call returns
// kFailedPrecondition. The folder of a Unix socket must belong to this user and be closed to others (else
// kPermissionDenied). A dead socket file of this user is removed. `*port` receives the TCP port when the
// server is built.
absl::Status Listen(grpc::ServerBuilder& builder, const Address& address, const Token& token,
                    int* port = nullptr);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_SERVER_H_
