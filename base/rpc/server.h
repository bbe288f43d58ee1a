// Configures the gRPC servers of every Lockstep program.
#ifndef LOCKSTEP_BASE_RPC_SERVER_H_
#define LOCKSTEP_BASE_RPC_SERVER_H_

#include <grpcpp/server_builder.h>

#include <cstddef>

#include "base/rpc/channel.h"

namespace lockstep::rpc {

// The most that all clients of a server together can make it use. A call beyond a limit is refused; the
// server continues.
struct ServerLimits {
  size_t memory_bytes = size_t{1} << 30;  // of gRPC's buffers
  int threads = 1024;                     // that run calls
  int calls_per_connection = 64;          // at the same time
  int request_bytes = kMaxMessageBytes;   // of one message
};

// Sets the limits and keepalive, and turns port sharing off. Call it before anything is added to `builder`. A
// connection that does not begin to speak HTTP/2 ends after 10 s, and one without a call after 5 minutes.
void Configure(grpc::ServerBuilder& builder, const ServerLimits& limits);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_SERVER_H_
