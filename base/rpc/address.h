// Where a gRPC server is: HOST:PORT, [IPv6]:PORT or unix:PATH.
#ifndef LOCKSTEP_COMMON_RPC_ADDRESS_H_
#define LOCKSTEP_COMMON_RPC_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::rpc {

class Address {
 public:
  // kInvalidArgument says what is wrong. Port 0 (any free one) is good for listening only.
  static absl::StatusOr<Address> Parse(const std::string& text);

  bool is_unix() const { return !path_.empty(); }
  // Of a Unix socket; empty for TCP.
  const std::string& path() const { return path_; }
  // Without brackets; empty for Unix sockets.
  const std::string& host() const { return host_; }
  int port() const { return port_; }
  // As gRPC wants it.
  std::string target() const;

 private:
  std::string path_;
  std::string host_;
  int port_ = 0;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_COMMON_RPC_ADDRESS_H_
