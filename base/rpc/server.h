// Servers as every Lockstep program opens them.
#ifndef LOCKSTEP_COMMON_RPC_SERVER_H_
#define LOCKSTEP_COMMON_RPC_SERVER_H_

#include <grpcpp/server_builder.h>

#include <string>

#include "absl/status/status.h"
#include "base/rpc/address.h"
#include "base/rpc/token.h"

namespace lockstep::rpc {

// Message sizes, keepalive, no port sharing: before anything is added to `builder`.
void Configure(grpc::ServerBuilder& builder);

// Whether a server may be opened at that address: what Listen holds to, and settings are checked by.
// kFailedPrecondition with the remedy.
enum class HasToken { kNo, kYes };
absl::Status MayListen(const Address& address, HasToken token);

// Adds the port. A TCP port, loopback included, is open to every user of the machine: kFailedPrecondition
// without a token. The folder of a Unix socket must belong to this user and be closed to others
// (kPermissionDenied). A dead socket file of this user is removed. `*port` gets the TCP port once the server
// is built.
absl::Status Listen(grpc::ServerBuilder& builder, const Address& address, const Token& token,
                    int* port = nullptr);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_COMMON_RPC_SERVER_H_
