// Channels and call contexts as every Lockstep program uses them.
//
// Rules that the helpers keep: each call waits for the connection and has a deadline (a fresh gRPC 1.51
// channel fails now and then although the server is there); reconnecting takes 50 ms to 2 s; messages are at
// most kMaxMessageBytes; a dead peer is noticed after 15 s.
#ifndef LOCKSTEP_COMMON_RPC_CHANNEL_H_
#define LOCKSTEP_COMMON_RPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/rpc/token.h"
#include "base/time.h"

namespace lockstep::rpc {

inline constexpr int kMaxMessageBytes = 16 << 20;

// Once in main(), before anything of gRPC and behind the last fork. gRPC stays ready until the process ends,
// has no fork handlers, and logs only where GRPC_VERBOSITY asks it to.
void PrepareProcess();

// `address` is HOST:PORT, unix:/path or unix:relative. kInvalidArgument for anything else. Connects on first
// use; each call makes a connection of its own.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address);
// Speaks over a connected stream socket; the channel is dead when that is.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectOver(Fd socket);
// A connected, non-blocking socket to the Unix socket at `path`, for ConnectOver and peer checks.
absl::StatusOr<Fd> ConnectUnix(const std::string& path);

// `deadline` counts from now; Nanos::Max() is none, for long-lived streams only.
void Prepare(grpc::ClientContext& context, const Token& token, Nanos deadline);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_COMMON_RPC_CHANNEL_H_
