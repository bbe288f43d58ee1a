// The address of a gRPC server: HOST:PORT, [IPv6]:PORT or unix:PATH.
#ifndef LOCKSTEP_BASE_RPC_ADDRESS_H_
#define LOCKSTEP_BASE_RPC_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::rpc {

class Address {
 public:
  // kInvalidArgument states the problem. Port 0 (any free port) works only for listening.
  static absl::StatusOr<Address> Parse(const std::string& text);

  bool is_unix() const { return !path_.empty(); }
  // The path of a Unix socket; empty for TCP.
  const std::string& path() const { return path_; }
  // The host without brackets; empty for Unix sockets.
  const std::string& host() const { return host_; }
  int port() const { return port_; }
  // The address in gRPC's syntax.
  std::string target() const;

 private:
  std::string path_;
  std::string host_;
  int port_ = 0;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_ADDRESS_H_
