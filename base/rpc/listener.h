// Listener is a listening socket of a gRPC server.
#ifndef LOCKSTEP_BASE_RPC_LISTENER_H_
#define LOCKSTEP_BASE_RPC_LISTENER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/rpc/address.h"

namespace lockstep::rpc {

class Listener {
 public:
  // Opens a socket for each address of a name, all with one port.
  //
  // The folder of a Unix socket must belong to this user and be closed to others (else kPermissionDenied). A
  // dead socket file of this user is removed. kUnavailable: the port is in use, or the address is another
  // machine's.
  static absl::StatusOr<std::vector<Listener>> Open(const Address& address);

  Listener(Listener&&) = default;
  Listener& operator=(Listener&&) = delete;
  // Removes a Unix socket's file, unless it is another socket's by now.
  ~Listener();

  // Non-blocking and close-on-exec.
  int fd() const { return fd_.get(); }
  bool is_unix() const { return !path_.empty(); }
  // The port that the kernel chose for port 0; 0 for a Unix socket.
  int port() const { return port_; }

 private:
  Listener(Fd fd, std::string path, ino_t inode, int port)
      : fd_(std::move(fd)), path_(std::move(path)), inode_(inode), port_(port) {}
  static absl::StatusOr<Listener> OpenUnix(const std::string& path);
  static absl::StatusOr<std::vector<Listener>> OpenTcp(const Address& address);

  Fd fd_;
  std::string path_;
  ino_t inode_;
  int port_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_LISTENER_H_
