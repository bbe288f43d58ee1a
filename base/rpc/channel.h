// Channels and call contexts for every Lockstep program.
//
// The helpers apply these rules. Each call has a deadline and waits for the connection, because a new channel
// of gRPC 1.51 sometimes fails although the server runs. A reconnect takes 50 ms to 2 s. Messages have at
// most kMaxMessageBytes. A dead peer is noticed after 15 s.
#ifndef LOCKSTEP_BASE_RPC_CHANNEL_H_
#define LOCKSTEP_BASE_RPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/rpc/security.h"
#include "base/rpc/token.h"
#include "base/time.h"

namespace lockstep::rpc {

inline constexpr int kMaxMessageBytes = 16 << 20;

// Call it once in main(), before any use of gRPC and after the last fork. gRPC then stays initialized until
// the process ends, and has no fork handlers. It logs only as GRPC_VERBOSITY permits.
void PrepareProcess();

// `address` is HOST:PORT, unix:/path or unix:relative; anything else returns kInvalidArgument. `tcp` protects
// the connection to HOST:PORT and may end before the channel; null: Unix sockets only, else
// kFailedPrecondition. The channel connects at its first use. Channels do not share connections.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       const Security* tcp = nullptr);
// Uses a connected stream socket. The channel ends with that socket.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectOver(Fd socket);
// Returns a socket that is connected to the Unix socket at `path`, non-blocking, for ConnectOver and checks
// of the peer.
absl::StatusOr<Fd> ConnectUnix(const std::string& path);

// `deadline` counts from now. Nanos::Max() means no deadline, for long-lived streams only.
void Prepare(grpc::ClientContext& context, const Token& token, Nanos deadline);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_CHANNEL_H_
